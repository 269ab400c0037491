#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>

#include "tendril/tensor/raw.h"
#include "tests/golden.h"
#include "tests/make.h"
#include "tests/tensor/layouts.h"

BOOST_AUTO_TEST_SUITE(pointwise)

using namespace tendril;
using boost::test_tools::per_element;

namespace {

const DType kAll[] = {kFloat32, kFloat64, kInt64, kInt32, kUInt8, kBool, kFloat16, kBFloat16};

template <class Op>
Op op_called(const std::string& name) {
  for (int i = 0; i < static_cast<int>(Op::count_); ++i) {
    if (name == name_of(static_cast<Op>(i))) return static_cast<Op>(i);
  }
  throw Error("no operation " + name);
}

double number(const std::string& text) {
  if (text == "True") return 1;
  if (text == "False") return 0;
  return std::strtod(text.c_str(), nullptr);
}

Tensor operand(const std::string& text, const std::string& dtype) {
  return make::scalar(number(text), dtype == "int64" ? kInt64 : kFloat64);
}

/// Equal, both NaN, or within a few units in the last place.
bool close(double got, double expected, double tolerance) {
  if (std::isnan(expected)) return std::isnan(got);
  if (std::isinf(expected) || expected == 0) return got == expected || std::abs(got - expected) < 1e-300;
  return std::abs(got - expected) <= tolerance * std::abs(expected);
}

Tensor mixed_values(const Dims& sizes, DType dtype) {
  std::vector<double> values;
  for (int64_t i = 0; i < numel_of(sizes); ++i)
    values.push_back(static_cast<double>(i % 7) - (dtype == kUInt8 ? 0 : 3));
  return raw::cast(make::from_data(values, sizes), dtype);
}

/// Where the result is the limit and PyTorch's is not (docs/numerics.md; tests/autograd/pointwise_limits_test.cpp).
bool has_own_limit(const std::string& name, double x) {
  if (name == "sign") return std::isnan(x);
  if (name == "softsign") return std::isinf(x);
  const bool vanishes =
      name == "silu" || name == "gelu" || name == "gelu_tanh" || name == "mish" || name == "hardswish";
  return vanishes && std::isinf(x) && x < 0;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_operation_gives_pytorchs_values) {
  std::ifstream file = testing::open_golden(TENDRIL_TEST_DATA "/pointwise.txt");
  std::string kind, name, dtype, x, y, expected;
  int lines = 0;
  for (; file >> kind >> name >> dtype; ++lines) {
    Tensor result;
    file >> x;
    if (kind == "unary") {
      result = raw::unary(op_called<Unary>(name), operand(x, dtype));
    } else if (kind == "predicate") {
      result = raw::predicate(op_called<Predicate>(name), operand(x, dtype));
    } else {
      file >> y;
      result = kind == "binary" ? raw::binary(op_called<Binary>(name), operand(x, dtype), operand(y, dtype))
                                : raw::compare(op_called<Compare>(name), operand(x, dtype), operand(y, dtype));
    }
    file >> expected;
    const double got = result.item<double>();
    if (has_own_limit(name, number(x))) continue;
    // PyTorch's gelus cancel far below zero, where ours do not.
    const bool cancels = name == "gelu" || name == "gelu_tanh";
    const bool fine = close(got, number(expected), 4e-15) || (cancels && std::abs(got - number(expected)) < 1e-15);
    BOOST_TEST(fine, name << "(" << x << (kind == "binary" || kind == "compare" ? ", " + y : "") << ") in " << dtype
                          << " is " << got << ", PyTorch says " << expected);
  }
  BOOST_TEST(lines > 2000);
}

BOOST_AUTO_TEST_CASE(float32_agrees_with_float64) {
  std::vector<double> values;
  for (int i = -200; i <= 200; ++i) values.push_back(i * 0.0625 + 0.01);
  const Tensor wide = make::from_data(values, {static_cast<int64_t>(values.size())});
  const Tensor x = raw::cast(wide, kFloat32);
  const Tensor exact = raw::cast(x, kFloat64);
  for (int i = 0; i < static_cast<int>(Unary::count_); ++i) {
    const auto op = static_cast<Unary>(i);
    const auto got = raw::unary(op, x).to_vector<double>();
    const auto expected = raw::unary(op, exact).to_vector<double>();
    for (std::size_t k = 0; k < got.size(); ++k) {
      if (std::abs(expected[k]) > 1e30 || std::abs(expected[k]) < 1e-30) continue;
      const bool fine = close(got[k], expected[k], 2e-6) || std::abs(got[k] - expected[k]) < 1e-6;
      BOOST_TEST(fine, name_of(op) << "(" << values[k] << ") is " << got[k] << ", not " << expected[k]);
    }
  }
}

BOOST_AUTO_TEST_CASE(gelu_of_float32_holds_far_from_0_and_of_what_is_not_finite) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor x =
      raw::cast(make::from_data(std::vector<double>{100, 1e30, infinity, -20, -100, -1e30, 0, NAN}, {8}), kFloat32);
  const auto got = raw::unary(op_called<Unary>("gelu"), x).to_vector<double>();
  BOOST_TEST(got[0] == 100);
  BOOST_TEST(got[1] == static_cast<double>(1e30F));
  BOOST_TEST(got[2] == infinity);
  for (std::size_t i : {3, 4, 5, 6}) BOOST_TEST(std::abs(got[i]) < 1e-30);
  BOOST_TEST(std::isnan(got[7]));
}

BOOST_AUTO_TEST_CASE(a_layout_does_not_change_a_result) {
  for (const DType dtype : kAll) {
    for (const Dims& sizes : {Dims{3, 4, 5}, Dims{1}, Dims{0, 3}, Dims{2, 1, 2, 1, 2, 1, 2, 3}, Dims{}, Dims{17}}) {
      const Tensor x = mixed_values(sizes, dtype), y = make::full(sizes, 2, dtype);
      for (const auto& [name_x, a] : testing::in_every_layout(x)) {
        BOOST_TEST(raw::equal(raw::compare(Compare::lt, a, y), raw::compare(Compare::lt, x, y)),
                   name_x << " " << dtype);
        if (dtype != kBool) {
          const Tensor expected = raw::unary(Unary::square, x);
          BOOST_TEST(raw::equal(raw::unary(Unary::square, a), expected), "square, " << name_x << " " << dtype << sizes);
        }
        BOOST_TEST(raw::equal(raw::predicate(Predicate::logical_not, a), raw::predicate(Predicate::logical_not, x)));
        for (const auto& [name_y, b] : testing::in_every_layout(y)) {
          BOOST_TEST(raw::equal(raw::binary(Binary::add, a, b), raw::binary(Binary::add, x, y)),
                     "add, " << name_x << " and " << name_y << " " << dtype << sizes);
          const Tensor mask = raw::compare(Compare::lt, a, b);
          BOOST_TEST(raw::equal(raw::where(mask, a, b), raw::binary(Binary::minimum, x, y)),
                     "where, " << name_x << dtype);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(writing_in_place_reaches_every_element_and_nothing_else) {
  const Tensor x = mixed_values({3, 4}, kFloat32);
  const Tensor expected = raw::binary(Binary::mul, x, 3);
  for (const auto& [name, a] : testing::in_every_layout(x)) {
    raw::binary_(Binary::mul, a, 3);
    BOOST_TEST(raw::equal(a, expected), name);
    const Tensor whole = raw::as_strided(a, {static_cast<int64_t>(a.storage()->bytes() / 4)}, {1}, 0);
    int64_t untouched = 0;
    for (const float v : whole.to_vector<float>()) untouched += v == 77;
    BOOST_TEST(untouched == whole.numel() - a.numel(), name);
  }
}

BOOST_AUTO_TEST_CASE(kernels_fill_outputs_that_held_nan) {
  const Tensor x = mixed_values({3, 5}, kFloat32), y = make::ones({3, 5});
  const DeviceKernels table = kernels(default_device());
  const auto fresh = [] { return make::full({3, 5}, NAN); };
  const auto check = [&](const char* op, const Tensor& out) {
    const Tensor bad = raw::predicate(Predicate::isnan, out).any();
    BOOST_TEST(!bad.item<bool>(), op);
  };
  Tensor out = fresh();
  table->unary(Unary::tanh, raw::view_of(out), raw::view_of(x), 0);
  check("tanh", out);
  out = fresh();
  table->binary(Binary::add, raw::view_of(out), raw::view_of(x), raw::view_of(y));
  check("add", out);
  out = fresh();
  table->add_scaled(raw::view_of(out), raw::view_of(x), raw::view_of(y), 2);
  check("add_scaled", out);
  out = fresh();
  table->softmax(raw::view_of(out), raw::view_of(x), 1);
  check("softmax", out);
  out = fresh();
  table->scan(Scan::sum, raw::view_of(out), nullptr, raw::view_of(x), 0);
  check("cumsum", out);
  for (const int64_t k : {0, 1, 4, 40}) {
    out = fresh();
    const Tensor a = make::ones({3, k}), b = make::ones({k, 5}), bt = raw::transpose(make::ones({5, k}), 0, 1);
    table->matmul(raw::view_of(out), raw::view_of(a), raw::view_of(b));
    check("matmul", out);
    out = fresh();
    table->matmul(raw::view_of(out), raw::view_of(a), raw::view_of(bt));
    check("matmul of a transposed operand", out);
  }
}

BOOST_AUTO_TEST_CASE(operands_broadcast) {
  const Tensor x = make::from_data(std::vector<float>{1, 2, 3}, {3, 1});
  const Tensor y = make::from_data(std::vector<float>{10, 20}, {2});
  const Tensor sum = raw::binary(Binary::add, x, y);
  BOOST_TEST(sum.sizes() == Dims({3, 2}));
  BOOST_TEST(sum.to_vector<float>() == std::vector<float>({11, 21, 12, 22, 13, 23}), per_element());
  BOOST_TEST(raw::binary(Binary::add, make::zeros({0, 2}), y).sizes() == Dims({0, 2}));
}

BOOST_AUTO_TEST_CASE(a_number_joins_a_tensor) {
  const Tensor x = make::from_data(std::vector<int64_t>{1, 2}, {2});
  BOOST_TEST(raw::binary(Binary::mul, x, 3).dtype() == kInt64);
  BOOST_TEST(raw::binary(Binary::mul, x, 1.5).dtype() == kFloat32);
  BOOST_TEST(raw::binary(Binary::div, x, 2).dtype() == kFloat32);
  BOOST_TEST(raw::binary(Binary::sub, 1.5, x).to_vector<double>() == std::vector<double>({0.5, -0.5}), per_element());
  BOOST_TEST(raw::unary(Unary::exp, x).dtype() == kFloat32);
}

BOOST_AUTO_TEST_CASE(clamping_keeps_nan_and_lets_the_upper_bound_win) {
  const Tensor x = make::from_data(std::vector<float>{-5, 0, 5, NAN, INFINITY}, {5});
  const auto both = raw::clamp(x, -1, 1).to_vector<float>();
  BOOST_TEST((both[0] == -1 && both[1] == 0 && both[2] == 1 && std::isnan(both[3]) && both[4] == 1));
  BOOST_TEST(raw::clamp(x, 3, 1).to_vector<float>()[0] == 1);
  BOOST_TEST(std::isinf(raw::clamp(x, 0, {}).to_vector<float>()[4]));
  BOOST_CHECK_THROW(raw::clamp(x, {}, {}), Error);
}

BOOST_AUTO_TEST_CASE(shapes_that_do_not_broadcast_are_refused) {
  BOOST_CHECK_EXCEPTION(
      raw::binary(Binary::add, make::zeros({2, 3}), make::zeros({2, 4})), ShapeError, [](const Error& e) {
        return std::string(e.what()) ==
               "add: shapes [2, 3] and [2, 4] do not broadcast: sizes 3 and 4 in dimension 1 differ and neither is 1";
      });
  BOOST_CHECK_THROW(raw::binary_(Binary::add, make::zeros({2}), make::zeros({2, 2})), ShapeError);
}

BOOST_AUTO_TEST_CASE(types_an_operation_has_no_meaning_for_are_refused) {
  const Tensor flags = make::zeros({2}, kBool);
  BOOST_CHECK_THROW(raw::unary(Unary::neg, flags), DTypeError);
  BOOST_CHECK_THROW(raw::binary(Binary::sub, flags, flags), DTypeError);
  BOOST_CHECK_THROW(raw::where(make::zeros({2}), flags, flags), DTypeError);
  BOOST_CHECK_THROW(raw::unary(Unary::exp, Tensor()), Error);
}

BOOST_AUTO_TEST_CASE(a_result_that_leaves_its_category_is_not_stored_in_place) {
  const Tensor counts = make::zeros({2}, kInt64);
  BOOST_CHECK_THROW(raw::binary_(Binary::add, counts, 0.5), DTypeError);
  BOOST_CHECK_THROW(raw::binary_(Binary::div, counts, 2), DTypeError);
  BOOST_CHECK_THROW(raw::binary_(Binary::add, counts, make::zeros({2})), DTypeError);
  BOOST_CHECK_THROW(raw::add_scaled_(counts, counts, 0.5), DTypeError);
  const Tensor narrow = make::ones({2}, kFloat32);
  raw::binary_(Binary::add, narrow, make::ones({2}, kFloat64));
  BOOST_TEST(narrow.to_vector<float>() == std::vector<float>({2, 2}), per_element());
}

BOOST_AUTO_TEST_CASE(an_operand_that_overlaps_the_result_is_read_before_it_changes) {
  const Tensor x = make::arange(0, 6);
  raw::binary_(Binary::add, raw::narrow(x, 0, 1, 5), raw::narrow(x, 0, 0, 5));
  BOOST_TEST(x.to_vector<int64_t>() == std::vector<int64_t>({0, 1, 3, 5, 7, 9}), per_element());
}

BOOST_AUTO_TEST_SUITE_END()
