#include <boost/test/unit_test.hpp>
#include <cmath>

#include "tendril/autograd/ops/reduce.h"
#include "tendril/tensor/drivers/reduction.h"
#include "tendril/tensor/raw.h"
#include "tests/make.h"
#include "tests/tensor/layouts.h"

BOOST_AUTO_TEST_SUITE(reduce)

using namespace tendril;
using boost::test_tools::per_element;

namespace {

Tensor values(const Dims& sizes, DType dtype = kFloat64) {
  std::vector<double> all;
  for (int64_t i = 0; i < numel_of(sizes); ++i) all.push_back(static_cast<double>(i * 37 % 23) - 11);
  return raw::cast(make::from_data(all, sizes), dtype);
}

/// Reduces with a loop over all indices.
std::vector<double> naive(Reduction op, const Tensor& given, unsigned mask) {
  const Tensor x = raw::to(given, kCPU);
  Dims kept = x.sizes();
  for (int d = 0; d < x.dim(); ++d) {
    if (mask >> d & 1) kept[d] = 1;
  }
  const double start = op == Reduction::sum    ? 0
                       : op == Reduction::prod ? 1
                       : op == Reduction::max  ? -INFINITY
                                               : INFINITY;
  std::vector<double> out(static_cast<std::size_t>(numel_of(kept)), start);
  const Dims strides = contiguous_strides(kept);
  testing::for_each_index(x.sizes(), [&](const Dims& index) {
    int64_t place = 0;
    for (int d = 0; d < x.dim(); ++d) place += mask >> d & 1 ? 0 : index[d] * strides[d];
    double& o = out[static_cast<std::size_t>(place)];
    const double v = testing::at<double>(x, index);
    o = op == Reduction::sum    ? o + v
        : op == Reduction::prod ? o * v
        : op == Reduction::max  ? std::max(o, v)
                                : std::min(o, v);
  });
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(any_dimensions_of_any_layout_reduce) {
  for (const Dims& sizes :
       {Dims{3, 4, 5}, Dims{2, 1, 300}, Dims{1, 1}, Dims{40, 2, 3}, Dims{2, 2, 2, 2, 2, 2, 2, 2}, Dims{3, 0, 2}}) {
    for (const auto& [name, x] : testing::in_every_layout(values(sizes))) {
      for (unsigned mask = 1; mask < 1u << std::min(sizes.size(), 4); ++mask) {
        Dims dims;
        for (int d = 0; d < sizes.size(); ++d) {
          if (mask >> d & 1) dims.push_back(d - (d % 2 ? sizes.size() : 0));
        }
        for (const Reduction op : {Reduction::sum, Reduction::prod, Reduction::max, Reduction::min}) {
          if (x.numel() == 0 && (op == Reduction::max || op == Reduction::min)) continue;
          BOOST_TEST_CONTEXT(name << " " << sizes << " over " << dims << ": " << name_of(op)) {
            BOOST_TEST(drivers::reduce(op, x, dims).to_vector<double>() == naive(op, x, mask), per_element());
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(shapes_follow_keepdim) {
  const Tensor x = values({2, 3, 4});
  BOOST_TEST(x.sum({1}).sizes() == Dims({2, 4}));
  BOOST_TEST(x.sum({1, -1}, true).sizes() == Dims({2, 1, 1}));
  BOOST_TEST(x.sum().sizes() == Dims{});
  BOOST_TEST(make::scalar(3, kInt64).sum({0}).item<int64_t>() == 3);
  BOOST_CHECK_THROW(x.sum({3}), IndexError);
  for (const auto& twice : {+[](const Tensor& t) {
                              return t.sum({1, -2});
                            },
                            +[](const Tensor& t) {
                              return t.sum({1, -2});
                            }}) {
    BOOST_CHECK_EXCEPTION(twice(x), Error, [](const Error& e) {
      return std::string(e.what()) == "sum: dim 1 appears multiple times in the list of dims" &&
             !dynamic_cast<const IndexError*>(&e);
    });
  }
}

BOOST_AUTO_TEST_CASE(a_long_float32_sum_is_exact_to_the_last_digit) {
  // Adding 0.1f one by one gives 1087937 for ten million. A device adds partial sums in float32, and is spared some
  // elements, as it may be emulated.
  const bool here = default_device().is_cpu();
  const int64_t n = here ? 10'000'019 : 1'000'019, rows = here ? 1'000'000 : 100'000;
  const auto sum_of = [](int64_t count) {
    return static_cast<float>(static_cast<double>(count) * static_cast<double>(0.1f));
  };
  const auto check = [&](float got, float expected) {
    if (here) BOOST_TEST(got == expected);
    BOOST_TEST(got == expected, boost::test_tools::tolerance(3e-7f));
  };
  check(make::full({n}, 0.1).sum().item<float>(), sum_of(n));
  const Tensor columns = make::full({rows, 3}, 0.1).sum({0});
  check(columns.to_vector<float>()[2], sum_of(rows));
}

BOOST_AUTO_TEST_CASE(integers_and_bools_add_up_in_int64) {
  BOOST_TEST(make::full({300}, 255, kUInt8).sum().item<int64_t>() == 300 * 255);
  BOOST_TEST(make::ones({5}, kBool).sum().dtype() == kInt64);
  BOOST_TEST(drivers::reduce(Reduction::prod, make::full({3}, 5, kInt32)).item<int64_t>() == 125);
  BOOST_TEST(make::full({3}, 5, kInt32).max().dtype() == kInt32);
  BOOST_TEST(make::full({100}, 0.5, kFloat16).sum().item<float>() == 50);
}

BOOST_AUTO_TEST_CASE(all_and_any_take_every_type) {
  const Tensor x = make::from_data(std::vector<float>{0, 1, 2, 0.5}, {2, 2});
  BOOST_TEST((x.all(1).to_vector<bool>() == std::vector<bool>{false, true}));
  BOOST_TEST((x.any(1).to_vector<bool>() == std::vector<bool>{true, true}));
  const Tensor cube = make::from_data(std::vector<float>{1, 0, 1, 1, 0, 0, 0, 0}, {2, 2, 2});
  BOOST_TEST((cube.all({0, 2}).to_vector<bool>() == std::vector<bool>{false, false}));
  BOOST_TEST((cube.any({-1, 1}).to_vector<bool>() == std::vector<bool>{true, false}));
  BOOST_TEST((cube.any({1, 0}).to_vector<bool>() == std::vector<bool>{true, true}));
  BOOST_TEST((cube.all({1, 0}, true).sizes() == Dims({1, 1, 2})));
  BOOST_TEST((cube.any(Dims{}, true).sizes() == Dims({1, 1, 1})));
  BOOST_TEST(cube.any(Dims{}, true).item<bool>());
  BOOST_CHECK_THROW(cube.all({0, 0}), Error);
  BOOST_CHECK_THROW(cube.any({0, 3}), IndexError);
  BOOST_TEST(make::zeros({0}).all().item<bool>());
  BOOST_TEST(!make::zeros({0}).any().item<bool>());
}

BOOST_AUTO_TEST_CASE(functions_of_each_element_are_added_up) {
  using Function = Tensor (*)(const Tensor&, const Dims&, Flag);
  const std::vector<std::pair<Function, double (*)(double)>> rows = {
      {sum_of_squares, [](double v) { return v * v; }}, {nansum, [](double v) { return std::isnan(v) ? 0 : v; }}};
  for (const DType dtype : {kFloat64, kFloat32, kBFloat16, kFloat16, kInt64, kInt32, kUInt8}) {
    for (const Dims& sizes : {Dims{3, 4, 5}, Dims{2, 1, 700}, Dims{3, 300, 2}, Dims{0, 2}}) {
      const bool with_nan = is_floating(dtype);
      Tensor x = raw::cast(values(sizes), dtype);
      for (const auto& [name, laid] : testing::in_every_layout(x)) {
        for (const auto& [function, of_one] : rows) {
          const bool nan_here = with_nan && function == rows[1].first && x.numel() > 0;
          const Tensor given = nan_here ? raw::clone(laid) : laid;
          if (nan_here) raw::fill_(raw::select(raw::view(given, {-1}), 0, 7), NAN);
          const Tensor each = raw::cast(raw::to(given, kCPU), kFloat64);
          std::vector<double> numbers = each.to_vector<double>();
          for (double& v : numbers) v = of_one(v);
          const Tensor exact = raw::from_data(numbers, sizes);
          for (const Dims& dims : {Dims{}, Dims{0}, Dims{-1}, Dims{0, 1}}) {
            BOOST_TEST_CONTEXT(name << " " << sizes << dtype << " over " << dims) {
              const Tensor got = function(given, dims, true);
              BOOST_TEST(got.dtype() == (is_floating(dtype) ? dtype : kInt64));
              const Tensor expected = raw::cast(exact.sum(dims, true), got.dtype());  // the result alone is rounded
              BOOST_TEST(got.to_vector<double>() == expected.to_vector<double>(), per_element());
            }
          }
        }
      }
    }
  }
  BOOST_TEST(sum_of_squares(make::zeros({2, 3}), {1}, false).sizes() == Dims({2}));
  BOOST_CHECK_THROW(sum_of_squares(make::zeros({2, 3}), {2}, false), IndexError);
}

BOOST_AUTO_TEST_CASE(a_large_sum_of_a_function_is_as_exact_as_the_sum) {
  // Several pieces and blocks: what they make is added up, not given to the function again.
  const int64_t n = default_device().is_cpu() ? 300'007 : 30'007;
  const double each = static_cast<double>(3.0f) * 3;
  BOOST_TEST(sum_of_squares(make::full({n}, 3)).item<double>() == static_cast<double>(n) * each,
             boost::test_tools::tolerance(1e-6));
  BOOST_TEST(sum_of_squares(make::full({n, 3}, 3), {0}).to_vector<double>()[2] == static_cast<double>(n) * each,
             boost::test_tools::tolerance(1e-6));
}

BOOST_AUTO_TEST_CASE(nothing_sums_to_zero_and_has_no_largest) {
  BOOST_TEST(make::zeros({0}).sum().item<float>() == 0);
  BOOST_TEST(
      drivers::reduce(Reduction::prod, make::zeros({2, 0}), {1}).to_vector<float>() == std::vector<float>({1, 1}),
      per_element());
  BOOST_CHECK_THROW(make::zeros({0}).max(), ShapeError);
  BOOST_CHECK_THROW((void)make::zeros({2, 0}).max(1), IndexError);
  BOOST_TEST(std::get<0>(make::zeros({0, 2}).max(1)).sizes() == Dims({0}));
}

BOOST_AUTO_TEST_CASE(the_first_of_equals_is_the_extremum_and_nan_wins) {
  const Tensor x = make::from_data(std::vector<float>{1, 5, 5, -2, NAN, 7, 3, 3, 3}, {3, 3});
  for (const auto& [name, a] : testing::in_every_layout(x)) {
    const auto [largest, where] = a.max(1);
    BOOST_TEST((where.to_vector<int64_t>() == std::vector<int64_t>{1, 1, 0}), name);
    BOOST_TEST(largest.to_vector<float>()[0] == 5, name);
    BOOST_TEST(std::isnan(largest.to_vector<float>()[1]), name);
    BOOST_TEST((a.argmin(0).to_vector<int64_t>() == std::vector<int64_t>{1, 1, 2}), name);
    BOOST_TEST(std::get<1>(a.min(-1, true)).sizes() == Dims({3, 1}), name);
    BOOST_TEST(std::isnan(a.max().item<float>()), name);
    BOOST_TEST(std::isnan(drivers::reduce(Reduction::min, a, {0}).to_vector<float>()[1]), name);
  }
  BOOST_TEST(make::scalar(2, kFloat32).argmax(0).item<int64_t>() == 0);
}

BOOST_AUTO_TEST_CASE(a_nan_anywhere_in_a_long_row_is_the_largest) {
  for (const int64_t place : {0, 1, 15, 16, 33, 63, 99}) {
    const Tensor x = make::ones({100});
    raw::fill_(raw::select(x, 0, place), NAN);
    BOOST_TEST(std::isnan(x.max().item<float>()), place);
    BOOST_TEST(std::isnan(x.min().item<float>()), place);
  }
}

BOOST_AUTO_TEST_CASE(sums_accumulate_along_a_dimension) {
  for (const auto& [name, x] : testing::in_every_layout(values({3, 4}))) {
    for (const int dim : {0, 1}) {
      const Tensor sums = raw::to(x.cumsum(dim), kCPU), a = raw::to(x, kCPU);
      testing::for_each_index({3, 4}, [&](const Dims& index) {
        double expected = 0;
        Dims along = index;
        for (along[dim] = 0; along[dim] <= index[dim]; ++along[dim]) expected += testing::at<double>(a, along);
        BOOST_TEST(testing::at<double>(sums, index) == expected);
      });
    }
  }
  BOOST_TEST(make::ones({3}, kBool).cumsum(0).to_vector<int64_t>().back() == 3);
}

BOOST_AUTO_TEST_CASE(softmax_is_stable_and_sums_to_one) {
  const Tensor x = make::from_data(std::vector<double>{1000, 1001, 1002, -1e4, 0, 1e4}, {2, 3});
  for (const auto& [name, a] : testing::in_every_layout(x)) {
    const auto p = a.softmax(1).to_vector<double>();
    const double total = 1 + std::exp(-1) + std::exp(-2);
    BOOST_TEST(p[0] == std::exp(-2) / total, boost::test_tools::tolerance(1e-14));
    BOOST_TEST(p[2] == 1 / total, boost::test_tools::tolerance(1e-14));
    BOOST_TEST(p[5] == 1);
    const auto logs = a.log_softmax(-1).to_vector<double>();
    BOOST_TEST(logs[0] == -2 - std::log(total), boost::test_tools::tolerance(1e-14));
    BOOST_TEST(logs[3] == -2e4);
  }
  const auto columns = make::zeros({4, 2}).softmax(0).to_vector<float>();
  BOOST_TEST(columns[3] == 0.25f);
  BOOST_TEST(make::scalar(3, kFloat32).softmax(0).item<float>() == 1);
  BOOST_TEST(make::zeros({2, 0}).softmax(1).numel() == 0);
  BOOST_CHECK_THROW(make::zeros({2}, kInt64).softmax(0), DTypeError);
  BOOST_CHECK_THROW(x.softmax(2), IndexError);
}

BOOST_AUTO_TEST_CASE(sums_of_float32_are_as_exact_as_their_bound_says) {
  const auto check = [](int64_t length, auto number) {
    std::vector<float> numbers;
    double exact = 0, magnitude = 0;
    for (int64_t i = 0; i < length; ++i) {
      numbers.push_back(static_cast<float>(number(i)));
      exact += static_cast<double>(numbers.back());
      magnitude += std::abs(static_cast<double>(numbers.back()));
    }
    const Tensor x = raw::from_data(numbers, {length});
    const double error = std::abs(static_cast<double>(x.sum().item<float>()) - exact);
    BOOST_TEST(error <= 0x1p-24 * (4.001 * magnitude + std::abs(exact)), length);
  };
  for (const int64_t length : {255, 256, 1000, 4096, 8192, 12'345, 70'001}) {
    check(length, [](int64_t i) { return std::sin(static_cast<double>(i * i)); });
    check(length, [](int64_t i) { return std::exp(8 * std::sin(static_cast<double>(i * i))); });
    check(length, [](int64_t i) { return (i % 2 ? -1 : 1) * (1e8 + static_cast<double>(i % 97)); });
    check(length, [](int64_t i) { return (i / 16 % 2 ? -1 : 1) * (1e8 + static_cast<double>(i % 97)); });
    check(length, [](int64_t i) { return i % 3 == 1 ? -0.001 * static_cast<double>(i) : i % 3 ? -3e7 : 3e7; });
  }
}

BOOST_AUTO_TEST_CASE(rows_of_any_length_and_type_take_each_element_once) {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16, kInt32}) {
    for (const int64_t length : {1, 15, 63, 64, 257, 1023, 8191, 8192, 8193, 9000, 20'031, 33'000}) {
      std::vector<double> numbers, exact(3);
      for (int64_t i = 0; i < 3 * length; ++i) {
        numbers.push_back(static_cast<double>(i * i % 13 - 5));
        exact[static_cast<std::size_t>(i / length)] += numbers.back();
      }
      const Tensor rows = raw::cast(raw::from_data(numbers, {3, length}), dtype), sums = rows.sum(Dims{1});
      BOOST_TEST(raw::equal(sums, raw::cast(raw::from_data(exact, {3}), sums.dtype())), dtype << ", " << length);
    }
  }
}

BOOST_AUTO_TEST_CASE(sums_of_equal_numbers_and_of_large_ones_are_those_in_double) {
  const auto sum = [](std::vector<float> numbers) {
    const auto count = static_cast<int64_t>(numbers.size());
    return raw::from_data(numbers, {count}).sum().item<float>();
  };
  BOOST_TEST(sum(std::vector<float>(1000, 0.1f)) == static_cast<float>(1000 * static_cast<double>(0.1f)));
  std::vector<float> large(1024, 3e38f);
  std::fill(large.begin() + 512, large.end(), -3e38f);
  BOOST_TEST(sum(large) == 0);
  large[700] = INFINITY;
  BOOST_TEST(sum(large) == INFINITY);
  large[7] = -INFINITY;
  BOOST_TEST(std::isnan(sum(large)));
}

BOOST_AUTO_TEST_SUITE_END()
