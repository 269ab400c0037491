#ifdef __AVX2__
#include <immintrin.h>
#endif

#include <algorithm>

#include "tendril/tensor/cpu/level/level.h"
#include "tendril/tensor/philox.h"

namespace tendril::cpu::TENDRIL_CPU_LEVEL {
namespace {

#ifdef __AVX2__

/// Four blocks: word k of each in the lower half of a 64-bit lane, as a product of such halves wants them. The upper
/// halves mean nothing.
struct FourBlocks {
  __m256i w[4];

  explicit FourBlocks(__m256i index)
      : w{index, _mm256_srli_epi64(index, 32), _mm256_setzero_si256(), _mm256_setzero_si256()} {}
  /// One of philox::encrypt's.
  void round(__m256i key0, __m256i key1) {
    const __m256i a = _mm256_mul_epu32(w[0], _mm256_set1_epi64x(0xD2511F53)),
                  b = _mm256_mul_epu32(w[2], _mm256_set1_epi64x(0xCD9E8D57));
    w[0] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(b, 32), w[1]), key0);
    w[2] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(a, 32), w[3]), key1);
    w[1] = b, w[3] = a;
  }
  void store(uint32_t* out) const {
    const __m256i low = _mm256_blend_epi32(w[0], _mm256_slli_epi64(w[1], 32), 0xAA),
                  high = _mm256_blend_epi32(w[2], _mm256_slli_epi64(w[3], 32), 0xAA),
                  even = _mm256_unpacklo_epi64(low, high), odd = _mm256_unpackhi_epi64(low, high);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 8), _mm256_permute2x128_si256(even, odd, 0x31));
  }
};

constexpr int64_t kAtOnce = 8;

void draw(uint64_t seed, uint64_t first, uint32_t* out) {
  const __m256i index =
      _mm256_add_epi64(_mm256_set1_epi64x(static_cast<long long>(first)), _mm256_set_epi64x(3, 2, 1, 0));
  FourBlocks x(index), y(_mm256_add_epi64(index, _mm256_set1_epi64x(4)));  // two, as a product takes a while
  auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const __m256i k0 = _mm256_set1_epi64x(key0), k1 = _mm256_set1_epi64x(key1);
    x.round(k0, k1);
    y.round(k0, k1);
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  x.store(out);
  y.store(out + 16);
}

#else

constexpr int64_t kAtOnce = 1;

void draw(uint64_t seed, uint64_t first, uint32_t* out) { std::ranges::copy(philox::block(seed, first), out); }

#endif

static_assert(kRandomBlocks % kAtOnce == 0);

void random_words(uint64_t seed, uint64_t first, int64_t blocks, uint32_t* out) {
  for (int64_t i = 0; i < blocks; i += kAtOnce) draw(seed, first + static_cast<uint64_t>(i), out + 4 * i);
}

}  // namespace

extern const RandomWords random_word_loop;
const RandomWords random_word_loop = random_words;

}  // namespace tendril::cpu::TENDRIL_CPU_LEVEL
