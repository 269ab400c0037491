// Integers that leave their dtype's range wrap around. (What is undefined behaviour, the sanitizer's build says.)
#include <boost/test/unit_test.hpp>
#include <limits>
#include <type_traits>

#include "tendril/tensor/drivers/by_index.h"
#include "tendril/tensor/raw.h"
#include "tests/make.h"

BOOST_AUTO_TEST_SUITE(wrap_around)

using namespace tendril;

namespace {

template <class T>
T wrapped(uint64_t value) {
  return static_cast<T>(static_cast<std::make_unsigned_t<T>>(value));
}
template <class T>
uint64_t wide(T value) {
  return static_cast<uint64_t>(static_cast<int64_t>(value));
}

template <class T>
void check() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> x, y;
  for (T a : {Limits::min(), Limits::max(), T(1), T(0), T(Limits::max() / 2 + 3)}) {
    for (T b : {Limits::min(), Limits::max(), T(1), T(2)}) {
      for (int i = 0; i < 7; ++i) {  // enough for loops in vectors
        x.push_back(a);
        y.push_back(b);
      }
    }
  }
  const auto n = static_cast<int64_t>(x.size());
  const Tensor a = make::from_data(x, {n}), b = make::from_data(y, {n});
  const auto expect = [&](const Tensor& result, auto formula, const char* what) {
    const std::vector<T> found = result.to_vector<T>();
    for (std::size_t i = 0; i < x.size(); ++i) {
      BOOST_TEST_CONTEXT(what << " of " << x[i] << " and " << y[i]) {
        BOOST_TEST(found[i] == wrapped<T>(formula(wide(x[i]), wide(y[i]))));
      }
    }
  };
  using Wide = uint64_t;  // arithmetic of all dtypes is what is left of this one
  expect(
      raw::binary(Binary::add, a, b), [](Wide p, Wide q) { return p + q; }, "add");
  expect(
      raw::binary(Binary::sub, a, b), [](Wide p, Wide q) { return p - q; }, "sub");
  expect(
      raw::binary(Binary::mul, a, b), [](Wide p, Wide q) { return p * q; }, "mul");
  expect(
      raw::unary(Unary::neg, a), [](Wide p, Wide) { return 0 - p; }, "neg");
  expect(
      raw::unary(Unary::square, a), [](Wide p, Wide) { return p * p; }, "square");
  expect(
      raw::unary(Unary::abs, a), [](Wide p, Wide) { return p >> 63 ? 0 - p : p; }, "abs");
  const Tensor scaled = raw::clone(a), strided = make::empty({2 * n}, a.dtype()).slice(0, 0, INT64_MAX, 2);
  raw::add_scaled_(scaled, b, 3);
  expect(
      scaled, [](Wide p, Wide q) { return p + 3 * q; }, "add_scaled");
  raw::copy_(strided, a);
  raw::add_scaled_(strided, b, 3);
  expect(
      strided, [](Wide p, Wide q) { return p + 3 * q; }, "add_scaled with gaps");

  const std::vector<T> many(9, Limits::max());
  const Tensor sums = make::zeros({1}, a.dtype()), source = make::from_data(many, {9});
  const Tensor index = make::zeros({9}, kInt64);
  drivers::index_add_(sums, 0, index, source);
  BOOST_TEST(sums.item<T>() == wrapped<T>(9 * wide(Limits::max())));
  drivers::scatter_add_(sums, 0, index, source);
  BOOST_TEST(sums.item<T>() == wrapped<T>(18 * wide(Limits::max())));
  const Tensor column = raw::view(source, {9, 1}), product = raw::matmul(raw::transpose(column, 0, 1), column);
  BOOST_TEST(product.item<T>() == wrapped<T>(9 * wide(Limits::max()) * wide(Limits::max())));
}

}  // namespace

BOOST_AUTO_TEST_CASE(int64) { check<int64_t>(); }
BOOST_AUTO_TEST_CASE(int32) { check<int32_t>(); }
BOOST_AUTO_TEST_CASE(uint8) { check<uint8_t>(); }

BOOST_AUTO_TEST_CASE(running_sums_and_sums_of_all) {
  const Tensor x = make::from_data(std::vector<int64_t>{INT64_MAX, 1, 1}, {3});
  BOOST_TEST(x.sum().item<int64_t>() == INT64_MIN + 1);
  BOOST_TEST(x.cumsum(0).to_vector<int64_t>()[2] == INT64_MIN + 1);
}

BOOST_AUTO_TEST_CASE(ranges_from_end_to_end) {
  const Tensor x = make::arange(INT64_MIN, INT64_MAX, INT64_MAX);
  BOOST_TEST(x.to_vector<int64_t>() == (std::vector<int64_t>{INT64_MIN, -1, INT64_MAX - 1}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
