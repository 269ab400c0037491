#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "tendril/tensor/philox.h"

/// What random numbers the words of a Philox block make (kernels.h has the rules): the same on all devices, but for the
/// last bits of a normal number, which are up to a device's log and cos. `constexpr` for device compilers.
namespace tendril::detail {

/// As many numbers as a block makes of a floating type: one word each for float, two for double.
template <class C>
using Drawn = std::array<C, sizeof(C) == 8 ? 2 : 4>;

/// low + (high - low) u, u in [0, 1). What rounding makes `high` of is the number before it.
template <class C>
struct DrawUniform {
  C low, range, last;

  DrawUniform(double from, double to)
      : low(static_cast<C>(from)),
        range(static_cast<C>(to - from)),
        last(std::nextafter(static_cast<C>(to), static_cast<C>(from))) {}
  constexpr C at(C u) const {
    const C x = low + range * u;
    return x > last ? last : x;
  }
  constexpr Drawn<C> operator()(const philox::Block& w) const {
    if constexpr (sizeof(C) == 8) {
      return {at(philox::uniform_double(w[0], w[1])), at(philox::uniform_double(w[2], w[3]))};
    } else {
      return {at(philox::uniform_float(w[0])), at(philox::uniform_float(w[1])), at(philox::uniform_float(w[2])),
              at(philox::uniform_float(w[3]))};
    }
  }
};

/// Box and Muller's pair of normal numbers from two uniform ones; u is in [0, 1), so 1 - u has a logarithm.
template <class C>
constexpr std::array<C, 2> normal_pair(C u, C v) {
#ifdef __CUDA_ARCH__
  // In multiples of pi an angle is not large, and the square root need not be right to the last bit: half the
  // instructions, and no branches.
  C sine, cosine, radius = C(-2) * std::log(C(1) - u);
  if constexpr (sizeof(C) == 4) {
    sincospif(C(2) * v, &sine, &cosine);
    radius = radius > 0 ? radius * rsqrtf(radius) : C(0);
  } else {
    sincospi(C(2) * v, &sine, &cosine);
    radius = std::sqrt(radius);
  }
  return {radius * cosine, radius * sine};
#else
  const C radius = std::sqrt(C(-2) * std::log(C(1) - u));
  const C angle = C(2) * std::numbers::pi_v<C> * v;
  return {radius * std::cos(angle), radius * std::sin(angle)};
#endif
}

template <class C>
struct DrawNormal {
  C mean, stddev;

  DrawNormal(double m, double s) : mean(static_cast<C>(m)), stddev(static_cast<C>(s)) {}
  constexpr Drawn<C> operator()(const philox::Block& w) const {
    if constexpr (sizeof(C) == 8) {
      const auto a = normal_pair(philox::uniform_double(w[0], w[1]), philox::uniform_double(w[2], w[3]));
      return {mean + stddev * a[0], mean + stddev * a[1]};
    } else {
      const auto a = normal_pair(philox::uniform_float(w[0]), philox::uniform_float(w[1]));
      const auto b = normal_pair(philox::uniform_float(w[2]), philox::uniform_float(w[3]));
      return {mean + stddev * a[0], mean + stddev * a[1], mean + stddev * b[0], mean + stddev * b[1]};
    }
  }
};

/// 1 with probability p, else 0
struct DrawBernoulli {
  uint64_t threshold;

  explicit DrawBernoulli(double p) : threshold(static_cast<uint64_t>(p * 0x1p32)) {}
  constexpr std::array<int32_t, 4> operator()(const philox::Block& w) const {
    return {w[0] < threshold, w[1] < threshold, w[2] < threshold, w[3] < threshold};
  }
};

/// In [low, high): the upper half of a 64 by 64 bit product. A bias of range / 2^64, and random access, which drawing
/// again has not.
struct DrawInteger {
  uint64_t low, range;

  DrawInteger(int64_t from, int64_t to)
      : low(static_cast<uint64_t>(from)), range(static_cast<uint64_t>(to) - static_cast<uint64_t>(from)) {}
  constexpr int64_t scaled(uint32_t w0, uint32_t w1) const {
    const uint64_t word = uint64_t{w1} << 32 | w0;
    const uint64_t a = (word & 0xffffffff) * (range & 0xffffffff), b = (word >> 32) * (range & 0xffffffff);
    const uint64_t c = (word & 0xffffffff) * (range >> 32), d = (word >> 32) * (range >> 32);
    const uint64_t middle = (a >> 32) + (b & 0xffffffff) + (c & 0xffffffff);
    return static_cast<int64_t>(low + d + (b >> 32) + (c >> 32) + (middle >> 32));
  }
  constexpr std::array<int64_t, 2> operator()(const philox::Block& w) const {
    return {scaled(w[0], w[1]), scaled(w[2], w[3])};
  }
};

}  // namespace tendril::detail
