// Operations on an integer tensor and a number give the dtype and values of PyTorch 2.15.
#include <boost/test/unit_test.hpp>
#include <functional>

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/raises.h"
#include "tests/errors.h"

BOOST_AUTO_TEST_SUITE(numbers_beside_integers)

using namespace tendril;

namespace {

using Values = std::vector<double>;
constexpr auto per_element = boost::test_tools::per_element();
const DType kIntegers[] = {kInt64, kInt32, kUInt8};
Values values(const Tensor& x) { return x.to_vector<double>(); }

struct Row {
  std::string name;
  std::function<Tensor(const Tensor&, Scalar)> f;
  Values of_2, of_half;   // of 0, 1, 2, 5
  bool divides = false;   // float32 of integers too
  bool compares = false;  // bool
};

const Row kRows[] = {
    {"clamp_min", [](const Tensor& x, Scalar s) { return x.clamp_min(s); }, {2, 2, 2, 5}, {0.5, 1, 2, 5}},
    {"clamp_max", [](const Tensor& x, Scalar s) { return x.clamp_max(s); }, {0, 1, 2, 2}, {0, 0.5, 0.5, 0.5}},
    {"clamp", [](const Tensor& x, Scalar s) { return x.clamp(s, 3); }, {2, 2, 2, 3}, {0.5, 1, 2, 3}},
    {"clamp", [](const Tensor& x, Scalar s) { return x.clamp(0, s); }, {0, 1, 2, 2}, {0, 0.5, 0.5, 0.5}},
    {"maximum", [](const Tensor& x, Scalar s) { return x.maximum(s); }, {2, 2, 2, 5}, {0.5, 1, 2, 5}},
    {"minimum", [](const Tensor& x, Scalar s) { return x.minimum(s); }, {0, 1, 2, 2}, {0, 0.5, 0.5, 0.5}},
    {"remainder", [](const Tensor& x, Scalar s) { return x.remainder(s); }, {0, 1, 0, 1}, {0, 0, 0, 0}},
    {"fmod", [](const Tensor& x, Scalar s) { return x.fmod(s); }, {0, 1, 0, 1}, {0, 0, 0, 0}},
    {"floor_divide", [](const Tensor& x, Scalar s) { return x.floor_divide(s); }, {0, 0, 1, 2}, {0, 2, 4, 10}},
    {"pow", [](const Tensor& x, Scalar s) { return x.square().pow(s); }, {0, 1, 16, 113}, {0, 1, 2, 5}},
    {"pow", [](const Tensor& x, Scalar s) { return pow(s, x); }, {1, 2, 4, 32}, {1, 0.5, 0.25, 0.03125}},
    {"where", [](const Tensor& x, Scalar s) { return where(x > 1, x, s); }, {2, 2, 2, 5}, {0.5, 0.5, 2, 5}},
    {"add", [](const Tensor& x, Scalar s) { return x + s; }, {2, 3, 4, 7}, {0.5, 1.5, 2.5, 5.5}},
    {"sub", [](const Tensor& x, Scalar s) { return (x + 2) - s; }, {0, 1, 2, 5}, {1.5, 2.5, 3.5, 6.5}},
    {"mul", [](const Tensor& x, Scalar s) { return x * s; }, {0, 2, 4, 10}, {0, 0.5, 1, 2.5}},
    {"div", [](const Tensor& x, Scalar s) { return x / s; }, {0, 0.5, 1, 2.5}, {0, 2, 4, 10}, true},
    {"lt", [](const Tensor& x, Scalar s) { return x < s; }, {1, 1, 0, 0}, {1, 0, 0, 0}, false, true},
    {"eq", [](const Tensor& x, Scalar s) { return x == s; }, {0, 0, 1, 0}, {0, 0, 0, 0}, false, true},
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_floating_number_gives_float32) {
  for (const Row& row : kRows) {
    for (const DType dtype : kIntegers) {
      BOOST_TEST_CONTEXT(row.name << " of " << dtype) {
        const Tensor x = tensor({0, 1, 2, 5}, dtype);
        Values whole = row.of_2;
        if (row.name == "pow" && whole[3] == 113 && dtype != kUInt8) whole[3] = 625;  // 625 mod 256
        const Tensor by_integer = row.f(x, 2), by_whole = row.f(x, 2.0), by_half = row.f(x, 0.5);
        BOOST_TEST(by_integer.dtype() == (row.compares ? kBool : row.divides ? kFloat32 : dtype));
        BOOST_TEST(values(by_integer) == whole, per_element);
        BOOST_TEST(by_whole.dtype() == (row.compares ? kBool : kFloat32));
        BOOST_TEST(by_half.dtype() == (row.compares ? kBool : kFloat32));
        if (row.name != "pow") BOOST_TEST(values(by_whole) == whole, per_element);
        BOOST_TEST(values(by_half) == row.of_half, per_element);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(clamp_of_bool_takes_the_bounds_dtype) {
  const Tensor x = tensor({false, true});
  BOOST_TEST(x.clamp_min(2).dtype() == kInt64);
  BOOST_TEST(values(x.clamp_min(2)) == (Values{2, 2}), per_element);
  BOOST_TEST(values(x.clamp_max(0.5)) == (Values{0, 0.5}), per_element);
  CHECK_RAISES(DTypeError, "clamp: not for bool", x.clamp_min(true));
}

BOOST_AUTO_TEST_CASE(in_place_a_floating_number_is_refused) {
  const std::pair<const char*, std::function<void(const Tensor&, Scalar)>> steps[] = {
      {"clamp_", [](const Tensor& x, Scalar s) { x.clamp_(s, 3); }},
      {"clamp_", [](const Tensor& x, Scalar s) { x.clamp_min_(s); }},
      {"clamp_", [](const Tensor& x, Scalar s) { x.clamp_max_(s); }},
      {"maximum", [](const Tensor& x, Scalar s) { x.maximum_(s); }},
      {"minimum", [](const Tensor& x, Scalar s) { x.minimum_(s); }},
      {"remainder", [](const Tensor& x, Scalar s) { x.remainder_(s); }},
      {"fmod", [](const Tensor& x, Scalar s) { x.fmod_(s); }},
      {"floor_divide", [](const Tensor& x, Scalar s) { x.floor_divide_(s); }},
      {"pow", [](const Tensor& x, Scalar s) { x.pow_(s); }},
      {"add", [](const Tensor& x, Scalar s) { x.add_(s); }},
      {"sub", [](const Tensor& x, Scalar s) { x.sub_(s); }},
      {"mul", [](const Tensor& x, Scalar s) { x.mul_(s); }},
  };
  for (const auto& [name, step] : steps) {
    for (const DType dtype : kIntegers) {
      const Tensor x = tensor({0, 1, 2, 5}, dtype);
      for (const Scalar number : {Scalar(0.5), Scalar(2.0)})
        BOOST_CHECK_EXCEPTION(step(x, number), DTypeError, testing::says(name));
      BOOST_TEST(values(x) == (Values{0, 1, 2, 5}), per_element);
      BOOST_TEST(x.version() == 0);
      step(x, 2);
      BOOST_TEST(x.dtype() == dtype);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
