#pragma once

#include <cstdint>

namespace tendril::rpc::detail {

/// Random numbers of a simulation: SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014). Unlike the standard library's distributions, they are the same on every implementation.
class SimulationRandom {
 public:
  explicit SimulationRandom(uint64_t seed) noexcept : state_(seed) {}

  uint64_t bits() noexcept {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  /// Returns a number in [0, bound), or 0 for bound 0. The bias is below bound / 2^64.
  uint64_t below(uint64_t bound) noexcept {
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>(static_cast<Wide>(bits()) * bound >> 64);
  }
  /// Returns a number in [low, high].
  uint64_t between(uint64_t low, uint64_t high) noexcept { return low + below(high - low + 1); }
  double unit() noexcept { return static_cast<double>(bits() >> 11) * 0x1p-53; }  ///< in [0, 1)
  bool chance(double probability) noexcept { return unit() < probability; }
  /// Returns another, independent stream.
  SimulationRandom split() noexcept { return SimulationRandom(bits()); }

 private:
  uint64_t state_;
};

}  // namespace tendril::rpc::detail
