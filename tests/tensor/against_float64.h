#pragma once

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tendril/tensor/kernels.h"
#include "tendril/tensor/raw.h"
#include "tendril/tensor/threads.h"
#include "tests/seed.h"
#include "tests/tensor/layouts.h"

/// Kernels of the CPU in float32 against themselves in float64, over random shapes and options, on one thread and on
/// three. Results hold NaN before, so that what is not written is seen.
namespace tendril::testing {

using Tensors = std::vector<Tensor>;
using Kernel = std::function<void(const Tensors& out, const Tensors& in)>;

inline int64_t roll(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(case_engine<std::mt19937>());
}

/// float32 numbers.
inline Tensor noise(const Dims& sizes, double low = -1, double high = 1) {
  Generator generator(static_cast<uint64_t>(roll(0, 1 << 30)));
  Tensor x = raw::empty(sizes);
  raw::uniform_(x, low, high, generator);
  return x;
}
/// int64 numbers from 0 to below `end`.
inline Tensor places(const Dims& sizes, int64_t end) {
  Generator generator(static_cast<uint64_t>(roll(0, 1 << 30)));
  Tensor x = raw::empty(sizes, kInt64);
  raw::randint_(x, 0, end, generator);
  return x;
}

/// Leaves free blocks of memory of these sizes that are full of NaN: of what is made next, an element that nobody
/// writes shows.
inline void leave_nan_behind(const Tensors& like, DType dtype, int64_t blocks_each) {
  Tensors blocks;
  for (const Tensor& x : like) {
    for (int64_t i = 0; i < blocks_each; ++i) blocks.push_back(raw::full(x.sizes(), std::nan(""), dtype));
  }
}

/// Checks that no difference exceeds `tolerance` times 1 plus the largest magnitude in `exact` (or `terms`, if larger).
inline void agree(const Tensor& got, const Tensor& exact, double tolerance, const std::string& what, double terms = 0) {
  const Tensor expected = raw::cast(exact, kFloat64),
               apart = raw::binary(Binary::sub, raw::cast(got, kFloat64), expected);
  const double off = raw::unary(Unary::abs, apart).max().item<double>(),
               most = std::max(raw::unary(Unary::abs, expected).max().item<double>(), terms);
  BOOST_TEST(off <= tolerance * (most + 1), what << " of " << got.sizes() << ", " << num_threads()
                                                 << " threads: off by " << off << ", largest " << most);
}

/// A result: of the dtype in question, or int64.
struct Result {
  Dims sizes;
  bool indices = false;
  double terms = 0;  ///< magnitude of the partial sums of a result, which may cancel
};
inline std::vector<Result> results_of(const std::vector<Dims>& sizes) {
  std::vector<Result> all;
  for (const Dims& each : sizes) all.push_back({each});
  return all;
}

/// How operands lie: `layouts` says which of in_every_layout for results and operands, in this order; empty:
/// contiguous.
inline Tensors run(const Kernel& kernel, const Tensors& in, const std::vector<Result>& out, DType dtype,
                   const std::vector<std::size_t>& layouts = {}) {
  std::size_t next = 0;
  const auto lying = [&](const Tensor& x) {
    return layouts.empty() || x.dim() == 0 ? x : in_every_layout(x)[layouts[next++]].second;
  };
  Tensors operands, results;
  for (const auto& [sizes, indices, terms] : out) {
    // What is not written differs between the two dtypes, too, where there is no NaN.
    results.push_back(
        lying(indices ? raw::full(sizes, dtype == kFloat64 ? -1 : -2, kInt64) : raw::full(sizes, std::nan(""), dtype)));
  }
  for (const Tensor& x : in) operands.push_back(lying(is_floating(x.dtype()) ? raw::cast(x, dtype) : x));
  kernel(results, operands);
  return results;
}

/// The results of both differ by `tolerance` of the largest at most. `any_layout`: of operands and results, at random.
inline void check(const char* name, const Tensors& in, const std::vector<Result>& out, double tolerance,
                  const Kernel& kernel, bool any_layout = false) {
  std::vector<std::size_t> layouts;
  const bool any = any_layout && roll(0, 2) > 0;  // contiguous ones go other ways, too
  for (std::size_t i = 0; any && i < in.size() + out.size(); ++i) {
    layouts.push_back(static_cast<std::size_t>(roll(0, 3)));
  }
  const Tensors exact = run(kernel, in, out, kFloat64, layouts);
  for (const int threads : {1, 3}) {
    const ThreadLimit limit(threads);
    const Tensors got = run(kernel, in, out, kFloat32, layouts);
    for (std::size_t i = 0; i < out.size(); ++i) {
      agree(got[i], exact[i], tolerance, std::string(name) + ", result " + std::to_string(i), out[i].terms);
    }
  }
}
inline void check(const char* name, const Tensors& in, const std::vector<Dims>& out, double tolerance,
                  const Kernel& kernel) {
  check(name, in, results_of(out), tolerance, kernel);
}
/// ... whatever the layouts.
inline void check_anyhow(const char* name, const Tensors& in, const std::vector<Result>& out, double tolerance,
                         const Kernel& kernel) {
  check(name, in, out, tolerance, kernel, true);
}

}  // namespace tendril::testing
