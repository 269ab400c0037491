#include <cmath>
#include <limits>

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/raises.h"

BOOST_AUTO_TEST_SUITE(clamp)

using namespace tendril;

namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
using Integers = std::vector<int64_t>;
using Bound = std::optional<double>;
Integers integers(const Tensor& x) { return x.to_vector<int64_t>(); }
}  // namespace

BOOST_AUTO_TEST_CASE(bounds_that_all_integers_are_within_do_nothing) {
  using Whole = std::optional<Scalar>;
  for (DType dtype : {kInt64, kInt32, kUInt8}) {
    const Integers most = {0, 100, 255, dtype == kUInt8 ? 7 : dtype == kInt32 ? INT32_MAX : INT64_MAX};
    const Tensor x = from_vector(most, {4}, {.dtype = dtype});
    for (auto [low, high] : {std::pair<Whole, Whole>{INT64_MIN, INT64_MAX}, {INT64_MIN, {}}, {{}, INT64_MAX}}) {
      BOOST_TEST(integers(x.clamp(low, high)) == most, boost::test_tools::per_element());
      BOOST_TEST(!x.clamp(low, high).is_same(x));
      BOOST_TEST(x.clamp(low, high).dtype() == dtype);
    }
  }
  const Tensor x = tensor({0, 100, 255}, {.dtype = kUInt8});
  BOOST_TEST(integers(x.clamp(-1, {})) == (Integers{0, 100, 255}));
  BOOST_TEST(integers(x.clamp(-1, 300)) == (Integers{0, 100, 255}));
  BOOST_TEST(integers(x.clamp(5, 300)) == (Integers{5, 100, 255}));
  BOOST_TEST(integers(x.clamp(255, {})) == (Integers{255, 255, 255}));
}

BOOST_AUTO_TEST_CASE(bounds_at_the_ends_of_int64_are_exact) {
  const Tensor x = from_vector(Integers{INT64_MIN, 0, INT64_MAX}, {3});
  BOOST_TEST(integers(x.clamp(INT64_MIN, INT64_MAX)) == (Integers{INT64_MIN, 0, INT64_MAX}));
  BOOST_TEST(integers(x.clamp(INT64_MIN + 1, INT64_MAX - 1)) == (Integers{INT64_MIN + 1, 0, INT64_MAX - 1}));
  BOOST_TEST(integers(x.clamp(INT64_MAX, {})) == (Integers{INT64_MAX, INT64_MAX, INT64_MAX}));
  BOOST_TEST(integers(x.clamp({}, INT64_MIN)) == (Integers{INT64_MIN, INT64_MIN, INT64_MIN}));
}

BOOST_AUTO_TEST_CASE(floating_bounds_of_integers_give_float32) {
  const Tensor x = tensor({-2, -1, 0, 1, 2, 3});
  const auto check = [](const Tensor& y, const std::vector<float>& expected) {
    BOOST_TEST(y.dtype() == kFloat32);
    BOOST_TEST(y.to_vector<float>() == expected, boost::test_tools::per_element());
  };
  check(x.clamp(-1.5, 2.5), {-1.5, -1, 0, 1, 2, 2.5});
  check(x.clamp(0.5, {}), {0.5, 0.5, 0.5, 1, 2, 3});
  check(x.clamp({}, 1.0), {-2, -1, 0, 1, 1, 1});
  check(x.clamp(0, 1.5), {0, 0, 0, 1, 1.5, 1.5});
  check(x.clamp(-kInf, kInf), {-2, -1, 0, 1, 2, 3});
  CHECK_RAISES(DTypeError, "clamp_: result type float32 can't be cast to the desired output type int64",
               x.clamp_(0.5, {}));
  BOOST_TEST(integers(x) == (Integers{-2, -1, 0, 1, 2, 3}));
}

BOOST_AUTO_TEST_CASE(bounds_that_no_integer_is_within_are_refused) {
  const Tensor x = tensor({0, 100, 255}, {.dtype = kUInt8});
  CHECK_RAISES(DTypeError, "clamp: a lower bound of 300 is out of range for uint8", x.clamp(300, {}));
  CHECK_RAISES(DTypeError, "clamp: an upper bound of -1 is out of range for uint8", x.clamp({}, -1));
  BOOST_TEST(integers(x) == (Integers{0, 100, 255}));
}

BOOST_AUTO_TEST_CASE(a_nan_as_bound_makes_all_nan_with_gradient_0) {
  for (auto [low, high] : {std::pair<Bound, Bound>{kNaN, {}}, {{}, kNaN}, {0, kNaN}, {kNaN, 1}}) {
    const Tensor x = tensor({-1., 0.5, 2.}, {.requires_grad = true});
    const Tensor y = x.clamp(low, high);
    for (float value : y.to_vector<float>()) BOOST_TEST(std::isnan(value));
    y.sum().backward();
    BOOST_TEST(x.grad().to_vector<float>() == (std::vector<float>{0, 0, 0}), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(the_gradient_is_0_on_a_bound_and_passes_at_nan) {
  const auto gradient = [](Bound low, Bound high) {
    const Tensor x = tensor({-1., 0., 0.5, 1., 2., kNaN}, {.requires_grad = true});
    x.clamp(low, high).sum().backward();
    return x.grad().to_vector<float>();
  };
  using Values = std::vector<float>;  // PyTorch 2.15's, except at NaN
  BOOST_TEST(gradient(0, 1) == (Values{0, 0, 1, 0, 0, 1}), boost::test_tools::per_element());
  BOOST_TEST(gradient(0, {}) == (Values{0, 0, 1, 1, 1, 1}), boost::test_tools::per_element());
  BOOST_TEST(gradient({}, 1) == (Values{1, 1, 1, 0, 0, 1}), boost::test_tools::per_element());
  BOOST_TEST(gradient(1, 0) == (Values{0, 0, 0, 0, 0, 1}), boost::test_tools::per_element());
  BOOST_TEST(gradient(-kInf, kInf) == (Values{1, 1, 1, 1, 1, 1}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
