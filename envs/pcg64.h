#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// NumPy's default random stream, bit for bit, so that a seed means here what it means to Gymnasium.
namespace tendril::envs {

/// numpy.random.SeedSequence: spreads the bits of an integer over a pool of four 32-bit words, from which a generator's
/// state is drawn. Value type. Source: numpy/random/bit_generator.pyx (after M. E. O'Neill's randutils seed_seq_fe).
class SeedSequence {
 public:
  explicit SeedSequence(std::uint64_t entropy);

  /// Fills `out`; the same words at every call, as numpy.random.SeedSequence(entropy).generate_state(n, uint32).
  void generate(std::span<std::uint32_t> out) const;

  /// As above with dtype uint64: pairs of 32-bit words, the low one first.
  void generate(std::span<std::uint64_t> out) const;

 private:
  std::array<std::uint32_t, 4> pool_;
};

/// numpy.random.PCG64: permuted congruential generator PCG XSL-RR 128/64, period 2^128. Value type: a copy continues
/// with the same stream. Not thread-safe. Meets std::uniform_random_bit_generator. Source: M. E. O'Neill, "PCG: A
/// Family of Simple Fast Space-Efficient Statistically Good Algorithms" (2014).
class Pcg64 {
 public:
  using result_type = std::uint64_t;

  /// Equal to numpy.random.Generator(numpy.random.PCG64(seed)).
  explicit Pcg64(std::uint64_t seed);

  static constexpr result_type min() { return 0; }                ///< the least number that may come
  static constexpr result_type max() { return ~result_type{0}; }  ///< the largest

  result_type operator()();  ///< the next number

  /// [0, 1) with 53 random bits: numpy.random.Generator.random().
  double uniform();

  /// low + (high - low) * uniform(): numpy.random.Generator.uniform(low, high). In exact arithmetic below high;
  /// rounding may give high.
  double uniform(double low, double high);

  friend bool operator==(const Pcg64&, const Pcg64&) = default;

 private:
  struct Word128 {
    std::uint64_t high = 0;
    std::uint64_t low = 0;
    friend bool operator==(const Word128&, const Word128&) = default;
  };

  void advance();

  Word128 state_;
  Word128 increment_;
};

}  // namespace tendril::envs

TENDRIL_API_END
