#include <cmath>
#include <numbers>

#include "tendril/tensor/cpu/convert.h"
#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/detail/dispatch.h"
#include "tendril/tensor/philox.h"

namespace tendril::cpu {
namespace {

/// Calls `make(block)` for every block needed and stores the `per_block` numbers that it returns.
template <int per_block, class T, class Make>
void fill_by_block(const View& out, uint64_t seed, uint64_t offset, Make make) {
  T* data = out.as<T>();
  for (int64_t i = 0; i < out.numel; i += per_block) {
    const auto numbers = make(philox::block(seed, offset + static_cast<uint64_t>(i / per_block)));
    const int64_t count = std::min<int64_t>(per_block, out.numel - i);
    for (int64_t k = 0; k < count; ++k) data[i + k] = convert<T>(numbers[static_cast<std::size_t>(k)]);
  }
}

/// Box and Muller's pair of normal numbers from two uniform ones; u is in [0, 1), so 1 - u has a logarithm.
template <class C>
std::array<C, 2> normal_pair(C u, C v) {
  const C radius = std::sqrt(C(-2) * std::log(C(1) - u));
  const C angle = C(2) * std::numbers::pi_v<C> * v;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

template <class F>
void visit_floating(DType dtype, const char* op, F&& f) {
  TENDRIL_CHECK_AS(DTypeError, is_floating(dtype), op, ": needs a floating dtype, got ", dtype);
  detail::visit(dtype, [&](auto tag) {
    if constexpr (std::is_floating_point_v<Compute<typename decltype(tag)::type>>) f(tag);
  });
}

}  // namespace

void uniform(const View& out, double low, double high, uint64_t seed, uint64_t offset) {
  visit_floating(out.dtype, "uniform", [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, double>) {
      fill_by_block<2, T>(out, seed, offset, [&](const philox::Block& w) {
        return std::array<double, 2>{low + (high - low) * philox::uniform_double(w[0], w[1]),
                                     low + (high - low) * philox::uniform_double(w[2], w[3])};
      });
    } else {
      const auto from = static_cast<float>(low), range = static_cast<float>(high - low);
      fill_by_block<4, T>(out, seed, offset, [&](const philox::Block& w) {
        std::array<float, 4> numbers;
        for (std::size_t k = 0; k < 4; ++k) numbers[k] = from + range * philox::uniform_float(w[k]);
        return numbers;
      });
    }
  });
}

void normal(const View& out, double mean, double stddev, uint64_t seed, uint64_t offset) {
  visit_floating(out.dtype, "normal", [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, double>) {
      fill_by_block<2, T>(out, seed, offset, [&](const philox::Block& w) {
        auto pair = normal_pair(philox::uniform_double(w[0], w[1]), philox::uniform_double(w[2], w[3]));
        for (double& x : pair) x = mean + stddev * x;
        return pair;
      });
    } else {
      const auto m = static_cast<float>(mean), s = static_cast<float>(stddev);
      fill_by_block<4, T>(out, seed, offset, [&](const philox::Block& w) {
        const auto a = normal_pair(philox::uniform_float(w[0]), philox::uniform_float(w[1]));
        const auto b = normal_pair(philox::uniform_float(w[2]), philox::uniform_float(w[3]));
        return std::array<float, 4>{m + s * a[0], m + s * a[1], m + s * b[0], m + s * b[1]};
      });
    }
  });
}

void bernoulli(const View& out, double p, uint64_t seed, uint64_t offset) {
  const auto threshold = static_cast<uint64_t>(p * 0x1p32);
  detail::visit(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    fill_by_block<4, T>(out, seed, offset, [&](const philox::Block& w) {
      std::array<int32_t, 4> hits;
      for (std::size_t k = 0; k < 4; ++k) hits[k] = w[k] < threshold;
      return hits;
    });
  });
}

void randint(const View& out, int64_t low, int64_t high, uint64_t seed, uint64_t offset) {
  TENDRIL_CHECK_AS(DTypeError, out.dtype != kBool, "randint: not for bool");
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  // The upper half of a 64 by 64 bit product: a bias of range / 2^64, and random access, which drawing again has not.
  const auto scaled = [&](uint32_t w0, uint32_t w1) {
    const uint64_t word = uint64_t{w1} << 32 | w0;
    const uint64_t a = (word & 0xffffffff) * (range & 0xffffffff), b = (word >> 32) * (range & 0xffffffff);
    const uint64_t c = (word & 0xffffffff) * (range >> 32), d = (word >> 32) * (range >> 32);
    const uint64_t middle = (a >> 32) + (b & 0xffffffff) + (c & 0xffffffff);
    return static_cast<int64_t>(static_cast<uint64_t>(low) + d + (b >> 32) + (c >> 32) + (middle >> 32));
  };
  detail::visit(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    fill_by_block<2, T>(out, seed, offset, [&](const philox::Block& w) {
      return std::array<int64_t, 2>{scaled(w[0], w[1]), scaled(w[2], w[3])};
    });
  });
}

}  // namespace tendril::cpu
