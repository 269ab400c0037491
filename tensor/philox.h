#pragma once

#include <array>
#include <cstdint>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC'11): a bijection of
/// 128-bit counters chosen by a 64-bit key. Random access makes streams that do not depend on the number of threads.
/// `constexpr` so that device compilers may call it too.
namespace tendril::philox {

using Block = std::array<uint32_t, 4>;
using Key = std::array<uint32_t, 2>;

constexpr Block encrypt(Block counter, Key key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// Block `index` of the stream of `seed`.
constexpr Block block(uint64_t seed, uint64_t index) noexcept {
  return encrypt({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0, 0},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

/// In [0, 1), a multiple of 2^-24.
constexpr float uniform_float(uint32_t word) noexcept { return static_cast<float>(word >> 8) * 0x1p-24f; }
/// In [0, 1), a multiple of 2^-53.
constexpr double uniform_double(uint32_t low, uint32_t high) noexcept {
  return static_cast<double>((uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
}

}  // namespace tendril::philox

TENDRIL_API_END
