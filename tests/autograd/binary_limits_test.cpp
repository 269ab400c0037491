// Every pair of 0, denormal numbers, large numbers, infinities and NaN in the binary operations that have a gradient,
// beside references in a wider type that are right in the limit.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/raw.h"

BOOST_AUTO_TEST_SUITE(binary_limits)

using namespace tendril;

namespace {

using Real = long double;  // squares of float64 numbers are in its range
using OfTwo = Real (*)(Real x, Real y);
const Real kNaN = std::nanl(""), kInfinity = HUGE_VALL;

struct Reference {
  std::string name;
  Tensor (*op)(const Tensor& x, const Tensor& y);
  OfTwo value, by_x, by_y;
};

Real one(Real, Real) { return 1; }
/// The share of x in a maximum's gradient: ties divide it, and at NaN both operands get it.
Real chosen(Real x, Real y) { return x < y ? 0 : x == y ? 0.5 : 1; }
Real product(Real factor, Real vanishing) { return vanishing == 0 ? 0 : factor * vanishing; }
Real angle_slope(Real x, Real y) {
  const Real square = x * x + y * y;
  return std::isnan(x) || std::isnan(y)      ? (std::isinf(x) || std::isinf(y) ? 0 : kNaN)
         : square == 0 || std::isinf(square) ? 0
                                             : x / square;
}
Real distance_slope(Real x, Real y) {
  if (std::isinf(x)) return std::copysign(Real(1), x);
  return x == 0 && y == 0 ? 0 : x / std::hypot(x, y);
}
Real power_slope(Real x, Real y) {
  const Real slope = y == 0 ? 0 : product(y, std::pow(x, y - 1));
  // Such a y is even and y - 1 odd, but Real may be too narrow to represent y - 1.
  return std::abs(y) >= 0x1p53L && std::isfinite(y) ? std::copysign(slope, std::copysign(Real(1), x) * y) : slope;
}
Real exponent_slope(Real x, Real y) {
  if (x == 0 && y >= 0) return 0;
  return x >= 0 ? product(std::log(x), std::pow(x, y)) : std::pow(x, y) * std::log(x);
}

const std::vector<Reference>& references() {
  static const std::vector<Reference> all = {
      {"add", [](const Tensor& x, const Tensor& y) { return x + y; }, [](Real x, Real y) { return x + y; }, one, one},
      {"sub", [](const Tensor& x, const Tensor& y) { return x - y; }, [](Real x, Real y) { return x - y; }, one,
       [](Real, Real) { return Real(-1); }},
      {"mul", [](const Tensor& x, const Tensor& y) { return x * y; }, [](Real x, Real y) { return x * y; },
       [](Real, Real y) { return y; }, [](Real x, Real) { return x; }},
      {"div", [](const Tensor& x, const Tensor& y) { return x / y; }, [](Real x, Real y) { return x / y; },
       [](Real, Real y) { return 1 / y; }, [](Real x, Real y) { return -x / y / y; }},
      {"maximum", [](const Tensor& x, const Tensor& y) { return maximum(x, y); },
       [](Real x, Real y) { return std::isnan(x) || std::isnan(y) ? kNaN : std::max(x, y); }, chosen,
       [](Real x, Real y) { return chosen(y, x); }},
      {"minimum", [](const Tensor& x, const Tensor& y) { return minimum(x, y); },
       [](Real x, Real y) { return std::isnan(x) || std::isnan(y) ? kNaN : std::min(x, y); },
       [](Real x, Real y) { return chosen(-x, -y); }, [](Real x, Real y) { return chosen(-y, -x); }},
      {"atan2", [](const Tensor& x, const Tensor& y) { return atan2(x, y); },
       [](Real x, Real y) { return std::atan2(x, y); }, [](Real x, Real y) { return angle_slope(y, x); },
       [](Real x, Real y) { return -angle_slope(x, y); }},
      {"hypot", [](const Tensor& x, const Tensor& y) { return hypot(x, y); },
       [](Real x, Real y) { return std::hypot(x, y); }, distance_slope,
       [](Real x, Real y) { return distance_slope(y, x); }},
      {"pow", [](const Tensor& x, const Tensor& y) { return pow(x, y); }, [](Real x, Real y) { return std::pow(x, y); },
       power_slope, exponent_slope},
  };
  return all;
}

/// Equal up to rounding to a number of `dtype`; NaN equals NaN.
bool close(double found, Real expected, DType dtype) {
  if (std::isnan(expected) || std::isnan(found)) return std::isnan(expected) && std::isnan(found);
  const bool narrow = dtype == kFloat32;
  const Real largest = narrow ? Real(std::numeric_limits<float>::max()) : Real(std::numeric_limits<double>::max());
  if (std::isinf(found)) return std::abs(expected) > largest * Real(0.999) && (found > 0) == (expected > 0);
  // Results below the smallest normal number may be flushed or keep few digits.
  const Real smallest = narrow ? 1e-36L : 1e-300L;
  return std::abs(Real(found) - expected) <= (narrow ? 2e-4L : 1e-11L) * std::abs(expected) + smallest;
}

}  // namespace

BOOST_AUTO_TEST_CASE(values_and_gradients_are_right_at_the_limits) {
  for (const DType dtype : {kFloat32, kFloat64}) {
    const bool narrow = dtype == kFloat32;
    const double infinity = HUGE_VAL, denormal = narrow ? 0x1p-140 : 0x1p-1060;
    std::vector<double> numbers = {0., 1., 2., 0.5, denormal, narrow ? 1e30 : 1e250, infinity};
    for (const std::size_t i : {0, 1, 4, 5, 6}) numbers.push_back(-numbers[i]);
    numbers.push_back(std::nan(""));
    std::vector<double> xs, ys;
    for (const double x : numbers) {
      for (const double y : numbers) {
        xs.push_back(x);
        ys.push_back(y);
      }
    }
    for (const auto& [name, op, value, by_x, by_y] : references()) {
      for (const bool graph : {false, true}) {  // the gradient that is recorded is another formula
        const auto leaf = [&](const std::vector<double>& values) {
          return raw::cast(raw::from_data(values, {std::ssize(values)}), dtype).requires_grad_();
        };
        const Tensor x = leaf(xs), y = leaf(ys), out = op(x, y);
        const auto slopes = autograd::grad({out}, {x, y}, {ones_like(out)}, {.create_graph = graph});
        const auto read = [](const Tensor& t) { return t.detach().to(kFloat64).to_vector<double>(); };
        const auto found = read(out), found_x = read(slopes[0]), found_y = read(slopes[1]);
        const auto given_x = read(x), given_y = read(y);
        for (std::size_t i = 0; i < xs.size(); ++i) {
          const Real a = given_x[i], b = given_y[i];
          if (a != 0 && std::abs(a) == denormal && std::abs(b) == denormal) continue;  // few digits, and y - 1 is -1
          BOOST_TEST_CONTEXT(name << "(" << given_x[i] << ", " << given_y[i] << ") of " << dtype
                                  << (graph ? ", create_graph" : "")) {
            BOOST_TEST(close(found[i], value(a, b), dtype), found[i] << ", expected " << value(a, b));
            BOOST_TEST(close(found_x[i], by_x(a, b), dtype), "by x: " << found_x[i] << ", expected " << by_x(a, b));
            BOOST_TEST(close(found_y[i], by_y(a, b), dtype), "by y: " << found_y[i] << ", expected " << by_y(a, b));
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(pow_gradient_has_right_sign_at_huge_exponents) {
  for (const DType dtype : {kFloat32, kFloat64}) {
    const double even = dtype == kFloat32 ? 0x1p24 : 0x1p53;  // all numbers of at least this magnitude are even
    for (const double y : {2., 3., even - 1, even, even + 2, 4 * even, -2., -3., 1 - even, -even, -even - 2}) {
      const bool odd = std::fmod(y, 2) != 0;
      for (const bool graph : {false, true}) {
        const Tensor x = raw::full({2}, -1, dtype, kCPU).requires_grad_();
        for (const Tensor& out :
             {x.pow(y), x.pow(raw::full({1}, y, dtype, kCPU)), x.pow(raw::full({2}, y, dtype, kCPU))}) {
          const auto slope = autograd::grad({out}, {x}, {ones_like(out)}, {.create_graph = graph})[0].detach();
          for (const double found : slope.to(kFloat64).to_vector<double>()) {
            BOOST_TEST(found == (odd ? y : -y), "pow(-1, " << y << ") of " << dtype << ": " << found);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
