// Operands large enough for tiles, pieces and threads, in layouts at random, against loops over all indices.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tendril/tensor/drivers/reduction.h"
#include "tendril/tensor/kernels.h"
#include "tendril/tensor/raw.h"
#include "tendril/tensor/threads.h"
#include "tests/seed.h"
#include "tests/tensor/layouts.h"

BOOST_AUTO_TEST_SUITE(large_strided)

using namespace tendril;
using tendril::testing::case_engine;

struct Budget {
  explicit Budget(int n) : before(num_threads()) { set_num_threads(n); }
  ~Budget() { set_num_threads(before); }
  int before;
};

int64_t roll(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(case_engine<std::mt19937>());
}

Dims random_sizes() {
  switch (roll(0, 3)) {
    case 0:
      return {roll(1, 3), roll(200, 400), roll(200, 400)};
    case 1:
      return {roll(40'000, 150'000)};
    case 2:
      return {roll(2, 9), roll(2, 9), roll(20, 70), roll(20, 70)};
    default:
      return {roll(1, 40), roll(3000, 9000)};
  }
}

/// Integers, so that sums are exact in any order; in a layout at random.
Tensor random_tensor(const Dims& sizes, DType dtype) {
  std::vector<int> order(static_cast<std::size_t>(sizes.size()));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::shuffle(order.begin(), order.end(), case_engine<std::mt19937>());
  Dims permuted, back = Dims::filled(sizes.size(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    permuted.push_back(sizes[order[i]] + (roll(0, 3) == 0));
    back[order[i]] = static_cast<int64_t>(i);
  }
  Generator generator(static_cast<uint64_t>(roll(0, 1 << 30)));
  const Tensor wide = raw::empty(permuted, kInt64);
  raw::randint_(wide, -50, 50, generator);
  Tensor x = raw::permute(raw::cast(wide, dtype), back);
  for (int d = 0; d < sizes.size(); ++d) x = raw::narrow(x, d, 0, sizes[d]);
  return x;
}

/// Row-major.
std::vector<double> numbers(const Tensor& x) {
  std::vector<double> all;
  const Tensor wide = raw::cast(x, kFloat64);
  all.reserve(static_cast<std::size_t>(wide.numel()));
  testing::for_each_index(wide.sizes(), [&](const Dims& index) { all.push_back(testing::at<double>(wide, index)); });
  return all;
}

/// What `f` makes, which must not depend on the number of threads.
template <class F>
Tensor on_any_threads(F f) {
  Tensor first;
  for (const int threads : {1, 2, 5}) {
    const Budget budget(threads);
    const Tensor result = f();
    if (!first.defined()) first = result;
    BOOST_TEST(raw::equal(result, first, true), threads << " threads");
  }
  return first;
}

Tensor full_of_nan(const Dims& sizes, DType dtype) {
  return raw::full(sizes, is_floating(dtype) ? Scalar(std::nan("")) : Scalar(99), dtype);
}

BOOST_AUTO_TEST_CASE(copies_of_every_dtype_move_each_element) {
  for (int round = 0; round < 24; ++round) {
    const Dims sizes = random_sizes();
    const DType dtype =
        std::vector{kFloat32, kFloat64, kInt32, kUInt8, kFloat16, kBool}[static_cast<std::size_t>(round % 6)];
    const Tensor x = random_tensor(sizes, dtype);
    const std::vector<double> expected = numbers(x);
    const Tensor copied = on_any_threads([&] {
      Tensor out = full_of_nan(sizes, dtype);
      raw::copy_(out, x);
      return out;
    });
    BOOST_TEST((numbers(copied) == expected), "round " << round << ", sizes " << sizes);
    const Tensor elsewhere = random_tensor(sizes, dtype);  // another layout
    raw::copy_(elsewhere, x);
    BOOST_TEST((numbers(elsewhere) == expected), "round " << round << ", sizes " << sizes);
  }
}

BOOST_AUTO_TEST_CASE(a_copy_of_more_than_8_mib_moves_rows_to_columns) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{1501, 1600}, {2048, 1031}, {4096, 600}}) {
    const Tensor x = raw::arange(0, rows * columns, 1, kInt32).view({rows, columns});
    for (const int threads : {1, 3}) {
      const Budget budget(threads);
      const Tensor out = raw::full({columns, rows}, -1, kInt32);
      raw::copy_(out, x.t());
      const int32_t* const at = out.data<int32_t>();
      int64_t wrong = 0;
      for (int64_t j = 0; j < columns; ++j) {
        for (int64_t i = 0; i < rows; ++i) wrong += at[j * rows + i] != i * columns + j;
      }
      BOOST_TEST(wrong == 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(pointwise_operations_meet_the_same_elements) {
  for (int round = 0; round < 12; ++round) {
    const Dims sizes = random_sizes();
    const Tensor x = random_tensor(sizes, kFloat32);
    Dims fewer = sizes;
    if (round % 2) fewer[static_cast<int>(roll(0, sizes.size() - 1))] = 1;  // broadcast
    const Tensor y = random_tensor(fewer, kFloat32), z = raw::expand(y, sizes);
    const std::vector<double> a = numbers(x), b = numbers(z);
    const Tensor sum = on_any_threads([&] { return raw::binary(Binary::add, x, y); });
    const Tensor least = on_any_threads([&] { return raw::where(raw::compare(Compare::lt, x, y), x, y); });
    const Tensor bounded = on_any_threads([&] { return raw::clamp(x, -20, 20); });
    const std::vector<double> sums = numbers(sum), smaller = numbers(least), clamped = numbers(bounded);
    bool right = true;
    for (std::size_t i = 0; i < a.size(); ++i) {
      right = right && sums[i] == a[i] + b[i] && smaller[i] == std::min(a[i], b[i]);
      right = right && clamped[i] == std::clamp(a[i], -20.0, 20.0);
    }
    BOOST_TEST(right, "round " << round << ", sizes " << sizes);
  }
}

BOOST_AUTO_TEST_CASE(reductions_over_any_dimensions_take_each_element_once) {
  for (int round = 0; round < 30; ++round) {
    const Dims sizes = random_sizes();
    const DType dtype = round % 3 ? kFloat32 : kInt32;
    const Tensor x = random_tensor(sizes, dtype);
    const auto mask = static_cast<unsigned>(roll(1, (1 << sizes.size()) - 1));
    Dims dims, kept = sizes;
    for (int d = 0; d < sizes.size(); ++d) {
      if (mask >> d & 1) dims.push_back(d), kept[d] = 1;
    }
    std::vector<double> sum(static_cast<std::size_t>(numel_of(kept))), largest(sum.size(), -INFINITY);
    const Dims strides = contiguous_strides(kept);
    const Tensor wide = raw::cast(x, kFloat64);
    testing::for_each_index(sizes, [&](const Dims& index) {
      int64_t place = 0;
      for (int d = 0; d < sizes.size(); ++d) place += mask >> d & 1 ? 0 : index[d] * strides[d];
      const double value = testing::at<double>(wide, index);
      sum[static_cast<std::size_t>(place)] += value;
      largest[static_cast<std::size_t>(place)] = std::max(largest[static_cast<std::size_t>(place)], value);
    });
    const Tensor total = on_any_threads([&] { return x.sum(dims, true); });
    const Tensor most = on_any_threads([&] { return drivers::reduce(Reduction::max, x, dims, true); });
    BOOST_TEST((numbers(total) == sum), "round " << round << ", sizes " << sizes << ", dims " << dims);
    BOOST_TEST((numbers(most) == largest), "round " << round << ", sizes " << sizes << ", dims " << dims);
  }
}

BOOST_AUTO_TEST_CASE(the_place_of_the_best_is_that_of_the_first_and_a_nan_wins) {
  for (int round = 0; round < 12; ++round) {
    const Dims sizes = random_sizes();
    const Tensor x = random_tensor(sizes, kFloat32);
    const auto dim = static_cast<int>(roll(0, sizes.size() - 1));
    if (round % 3 == 0) raw::fill_(raw::narrow(x, dim, sizes[dim] / 2, 1), std::nan(""));
    const bool largest = round % 2 == 0;
    const Tensor places = on_any_threads([&] { return largest ? x.argmax(dim, true) : x.argmin(dim, true); });
    Dims kept = sizes;
    kept[dim] = 1;
    bool right = true;
    testing::for_each_index(kept, [&](const Dims& first) {
      Dims index = first;
      int64_t best = 0;
      float seen = testing::at<float>(x, index);
      for (int64_t i = 1; i < sizes[dim] && !std::isnan(seen); ++i) {
        index[dim] = i;
        const float value = testing::at<float>(x, index);
        if (std::isnan(value) || (largest ? value > seen : value < seen)) best = i, seen = value;
      }
      right = right && testing::at<int64_t>(places, first) == best;
    });
    BOOST_TEST(right, "round " << round << ", sizes " << sizes << ", dim " << dim);
  }
}

BOOST_AUTO_TEST_CASE(softmax_and_running_sums_go_along_each_line) {
  for (int round = 0; round < 10; ++round) {
    const Dims sizes = random_sizes();
    const Tensor x = random_tensor(sizes, round % 2 ? kFloat32 : kFloat64);
    const auto dim = static_cast<int>(roll(0, sizes.size() - 1));
    const Tensor shares = on_any_threads([&] { return x.softmax(dim); });
    const Tensor logs = on_any_threads([&] { return x.log_softmax(dim); });
    const Tensor running = on_any_threads([&] { return x.cumsum(dim); });
    const Tensor wide = raw::cast(x, kFloat64), s = raw::cast(shares, kFloat64), l = raw::cast(logs, kFloat64),
                 r = raw::cast(running, kFloat64);
    Dims kept = sizes;
    kept[dim] = 1;
    double worst = 0;
    bool exact = true;
    testing::for_each_index(kept, [&](const Dims& first) {
      Dims index = first;
      double top = -INFINITY, total = 0, sum = 0;
      const auto each = [&](auto f) {
        for (int64_t i = 0; i < sizes[dim]; ++i) {
          index[dim] = i;
          f(testing::at<double>(wide, index));
        }
      };
      each([&](double v) { top = std::max(top, v); });
      each([&](double v) { total += std::exp(v - top); });
      each([&](double v) {
        sum += v;
        exact = exact && testing::at<double>(r, index) == sum;
        worst = std::max(worst, std::abs(testing::at<double>(s, index) - std::exp(v - top) / total));
        worst = std::max(worst, std::abs(testing::at<double>(l, index) - (v - top - std::log(total))) / 100);
      });
    });
    BOOST_TEST(exact, "round " << round << ", sizes " << sizes << ", dim " << dim);
    BOOST_TEST(worst < 5e-7, "round " << round << ", sizes " << sizes << ", dim " << dim << ": " << worst);
  }
}

BOOST_AUTO_TEST_SUITE_END()
