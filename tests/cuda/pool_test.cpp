// Pooling on a device does what it does on the CPU.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "tests/cuda/slots.h"

using namespace tendril;
using namespace tendril::testing;

namespace {

/// Images in channels-last order on both devices, if asked for.
Pair images(const Tensor& x, MemoryFormat format) {
  Pair pair(x);
  for (Tensor* on : {&pair.cpu, &pair.gpu}) *on = raw::contiguous(*on, format);
  return pair;
}

void check_max(const Dims& sizes, const PoolGeometry& g, DType dtype, bool with_nan = false,
               MemoryFormat format = MemoryFormat::contiguous) {
  Tensor x = random(sizes, dtype, 1);
  if (with_nan) {
    for (const int64_t at : {int64_t{0}, int64_t{3}, x.numel() / 2, x.numel() - 1}) {
      raw::fill_(raw::select(raw::view(x, {x.numel()}), 0, at), std::numeric_limits<double>::quiet_NaN());
    }
    raw::fill_(raw::select(raw::view(x, {x.numel()}), 0, 5), -std::numeric_limits<double>::infinity());
  }
  const auto count = [&](int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
    return window_count(size, kernel, stride, padding, dilation, true);
  };
  const Dims out_sizes = {sizes[0], sizes[1], count(sizes[2], g.kernel.h, g.stride.h, g.padding.h, g.dilation.h),
                          count(sizes[3], g.kernel.w, g.stride.w, g.padding.w, g.dilation.w)};
  const Pair in = images(x, format), out = images(raw::empty(out_sizes, dtype), format),
             indices = images(raw::empty(out_sizes, kInt64), format);
  const Pair given = images(random(out_sizes, dtype, 2), format), dx = images(unwritten(sizes, dtype), format);
  on_both([&](const Kernels& table, Device device) {
    table.max_pool2d(out.view(device), indices.view(device), in.view(device), g);
    table.max_pool2d_backward(dx.view(device), given.view(device), indices.view(device), g);
  });
  BOOST_TEST(out.difference(0) == "", sizes << " by " << g.kernel);
  BOOST_TEST(indices.difference(0) == "", "places of " << sizes << " by " << g.kernel);
  // Of the half types, one side may round what several windows give a pixel once and the other more often.
  BOOST_TEST(dx.difference(size_of(dtype) == 2 ? tolerance(dtype) : 0) == "",
             "back to " << sizes << " by " << g.kernel);
}

/// A PoolAxis whose numbers are spoilt when it dies: whatever a kernel needs it must have taken before.
struct Axis {
  std::vector<int64_t> begin, end;
  std::vector<double> scale;

  void add(int64_t from, int64_t to, double factor) {
    begin.push_back(from);
    end.push_back(to);
    scale.push_back(factor);
  }
  ~Axis() {
    std::fill(begin.begin(), begin.end(), -1000000);
    std::fill(end.begin(), end.end(), 1000000);
    std::fill(scale.begin(), scale.end(), NAN);
  }
  PoolAxis view() const { return {begin.data(), end.data(), scale.data()}; }
  int64_t count() const { return static_cast<int64_t>(begin.size()); }
};

Axis adaptive(int64_t count, int64_t size) {
  Axis axis;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = i * size / count, end = ((i + 1) * size + count - 1) / count;
    axis.add(begin, end, 1 / static_cast<double>(end - begin));
  }
  return axis;
}
Axis sliding(int64_t size, int64_t kernel, int64_t stride, int64_t padding) {
  Axis axis;
  for (int64_t start = -padding; start + kernel <= size + padding; start += stride) {
    axis.add(std::max<int64_t>(start, 0), std::min(start + kernel, size), 1 / static_cast<double>(kernel));
  }
  return axis;
}

template <class MakeH, class MakeW>
void check_mean(const Dims& sizes, DType dtype, MemoryFormat format, MakeH make_h, MakeW make_w) {
  const Dims out_sizes = {sizes[0], sizes[1], make_h().count(), make_w().count()};
  const Pair x = images(random(sizes, dtype, 2), format), out = images(raw::empty(out_sizes, dtype), format),
             g = images(random(out_sizes, dtype, 3), format), dx = images(raw::empty(sizes, dtype), format);
  on_both([&](const Kernels& table, Device device) {
    const Axis h = make_h(), w = make_w();
    table.mean_pool2d(out.view(device), x.view(device), h.view(), w.view());
    table.mean_pool2d_transpose(dx.view(device), g.view(device), h.view(), w.view());
  });
  const double near = dtype == kFloat64 ? 1e-13 : 2e-6, rounded = size_of(dtype) == 2 ? tolerance(dtype) : near;
  BOOST_TEST(out.difference(rounded, near) == "", sizes << " to " << out_sizes);
  BOOST_TEST(dx.difference(rounded, near) == "", "back from " << out_sizes << " to " << sizes);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pool)

BOOST_AUTO_TEST_CASE(the_largest_and_its_place_are_the_cpus) {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    for (const bool with_nan : {false, true}) {
      for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
        check_max({2, 3, 7, 9}, {3, 2, 1, 1}, dtype, with_nan, format);
        check_max({1, 2, 4, 5}, {{2, 3}, {1, 2}, {1, 0}, 1}, dtype, with_nan, format);
        check_max({1, 2, 9, 9}, {3, 1, 1, 2}, dtype, with_nan, format);
        check_max({3, 5, 16, 16}, {2, 2, 0, 1}, dtype, with_nan, format);
        check_max({2, 3, 5, 5}, {5, 5, 0, 1}, dtype, with_nan, format);
      }
    }
    check_max({1, 1, 1, 1}, {1, 1, 0, 1}, dtype);
    check_max({4, 2, 1, 300}, {{1, 4}, {1, 3}, 0, 1}, dtype);
    check_max({0, 2, 4, 4}, {2, 2, 0, 1}, dtype);
  }
}

BOOST_AUTO_TEST_CASE(means_and_their_transposes_are_the_cpus) {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    const auto check = [&](const Dims& sizes, auto h, auto w) {
      for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
        check_mean(sizes, dtype, format, h, w);
      }
    };
    check(
        {2, 3, 7, 9}, [] { return sliding(7, 3, 2, 1); }, [] { return sliding(9, 2, 1, 0); });
    check(
        {2, 3, 7, 7}, [] { return adaptive(1, 7); }, [] { return adaptive(1, 7); });
    check(
        {1, 2, 40, 50}, [] { return adaptive(1, 40); }, [] { return adaptive(2, 50); });
    check(
        {1, 2, 5, 6}, [] { return adaptive(7, 5); }, [] { return adaptive(3, 6); });
    check(
        {1, 1, 1, 1}, [] { return adaptive(1, 1); }, [] { return adaptive(1, 1); });
    check(
        {0, 1, 4, 4}, [] { return adaptive(2, 4); }, [] { return adaptive(2, 4); });
    check(
        {2, 1, 4, 4}, [] { return adaptive(0, 4); }, [] { return adaptive(2, 4); });
    check(
        {1, 1, 3, 500}, [] { return sliding(3, 1, 1, 0); }, [] { return sliding(500, 3, 1, 1); });
    check(
        {1, 3, 6, 64}, [] { return sliding(6, 3, 3, 0); }, [] { return sliding(64, 64, 64, 0); });
  }
}

BOOST_AUTO_TEST_CASE(other_dtypes_are_refused_by_name) {
  const Tensor x = raw::empty({1, 1, 2, 2}, kInt32, kGPU), out = raw::empty({1, 1, 1, 1}, kInt32, kGPU);
  const Tensor indices = raw::empty({1, 1, 1, 1}, kInt64, kGPU);
  BOOST_CHECK_EXCEPTION(
      kernels(kGPU)->max_pool2d(raw::view_of(out), raw::view_of(indices), raw::view_of(x), {2, 2}), DTypeError,
      [](const DTypeError& e) { return std::string(e.what()).find("max_pool2d: no cuda kernel for int32") == 0; });
}

BOOST_AUTO_TEST_SUITE_END()
