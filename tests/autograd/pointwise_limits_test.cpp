// Every unary operation and its gradient at 0, denormal numbers, large numbers, infinities and NaN, beside references
// in float64 that are right in the limit.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numbers>
#include <string>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/raw.h"
#include "tests/autograd/raises.h"

BOOST_AUTO_TEST_SUITE(pointwise_limits)

using namespace tendril;

namespace {

const double kNaN = std::nan(""), kInfinity = HUGE_VAL;

struct Reference {
  std::function<Tensor(const Tensor&)> op;
  std::function<double(double)> value, slope;
  bool from_result = false;  ///< the gradient is computed from the result, to whose precision it is right
};

double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double soft_plus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
double normal_cdf(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }
double density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }
/// x times a factor that vanishes faster than an infinite x grows.
double vanishing(double x, double factor) { return factor == 0 ? 0 : x * factor; }
double sign(double x) { return std::isnan(x) ? x : (x > 0) - (x < 0); }
/// The gradient that arrives, which operations made of straight lines pass on at NaN.
double passes(double x, bool inside) { return std::isnan(x) || inside ? 1 : 0; }
double zero(double) { return 0; }
double tanh_exponent(double x) { return std::sqrt(8 / std::numbers::pi) * (x + 0.044715 * x * x * x); }
double tanh_exponent_slope(double x) { return std::sqrt(8 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x); }
double elu_slope(double x, double alpha) { return std::isnan(x) ? x : x > 0 ? 1 : alpha * std::exp(x); }
constexpr double kSeluScale = 1.0507009873554804934193349852946, kSeluAlpha = 1.6732632423543772848170429916717;

#define OP(name) [](const Tensor& x) { return x.name(); }
const std::map<std::string, Reference>& references() {
  static const std::map<std::string, Reference> all = {
      {"neg", {OP(neg), [](double x) { return -x; }, [](double) { return -1.; }}},
      {"abs", {OP(abs), [](double x) { return std::abs(x); }, sign}},
      {"sign", {OP(sign), sign, zero}},
      {"square", {OP(square), [](double x) { return x * x; }, [](double x) { return 2 * x; }}},
      {"relu",
       {OP(relu), [](double x) { return std::isnan(x) ? x : std::max(x, 0.); },
        [](double x) { return passes(x, x > 0); }}},
      {"floor", {OP(floor), [](double x) { return std::floor(x); }, zero}},
      {"ceil", {OP(ceil), [](double x) { return std::ceil(x); }, zero}},
      {"trunc", {OP(trunc), [](double x) { return std::trunc(x); }, zero}},
      {"round", {OP(round), [](double x) { return std::nearbyint(x); }, zero}},
      {"reciprocal", {OP(reciprocal), [](double x) { return 1 / x; }, [](double x) { return -1 / x / x; }}},
      {"sqrt", {OP(sqrt), [](double x) { return std::sqrt(x); }, [](double x) { return 0.5 / std::sqrt(x); }}},
      {"rsqrt",
       {OP(rsqrt), [](double x) { return 1 / std::sqrt(x); },
        [](double x) { return -0.5 / (std::sqrt(x) * std::sqrt(x) * std::sqrt(x)); }}},
      {"exp", {OP(exp), [](double x) { return std::exp(x); }, [](double x) { return std::exp(x); }}},
      {"expm1", {OP(expm1), [](double x) { return std::expm1(x); }, [](double x) { return std::exp(x); }, true}},
      {"exp2",
       {OP(exp2), [](double x) { return std::exp2(x); }, [](double x) { return std::exp2(x) * std::numbers::ln2; }}},
      {"log", {OP(log), [](double x) { return std::log(x); }, [](double x) { return 1 / x; }}},
      {"log1p", {OP(log1p), [](double x) { return std::log1p(x); }, [](double x) { return 1 / (1 + x); }}},
      {"log2", {OP(log2), [](double x) { return std::log2(x); }, [](double x) { return 1 / (x * std::numbers::ln2); }}},
      {"log10",
       {OP(log10), [](double x) { return std::log10(x); }, [](double x) { return 1 / (x * std::numbers::ln10); }}},
      {"sin", {OP(sin), [](double x) { return std::sin(x); }, [](double x) { return std::cos(x); }}},
      {"cos", {OP(cos), [](double x) { return std::cos(x); }, [](double x) { return -std::sin(x); }}},
      {"asin",
       {OP(asin), [](double x) { return std::asin(x); }, [](double x) { return 1 / std::sqrt((1 - x) * (1 + x)); }}},
      {"acos",
       {OP(acos), [](double x) { return std::acos(x); }, [](double x) { return -1 / std::sqrt((1 - x) * (1 + x)); }}},
      {"atan", {OP(atan), [](double x) { return std::atan(x); }, [](double x) { return 1 / (1 + x * x); }}},
      {"sinh", {OP(sinh), [](double x) { return std::sinh(x); }, [](double x) { return std::cosh(x); }}},
      {"cosh", {OP(cosh), [](double x) { return std::cosh(x); }, [](double x) { return std::sinh(x); }}},
      {"tanh",
       {OP(tanh), [](double x) { return std::tanh(x); }, [](double x) { return 1 - std::tanh(x) * std::tanh(x); }}},
      {"asinh", {OP(asinh), [](double x) { return std::asinh(x); }, [](double x) { return 1 / std::hypot(x, 1); }}},
      {"acosh",
       {OP(acosh), [](double x) { return std::acosh(x); },
        [](double x) { return x < 1 ? kNaN : 1 / std::sqrt(x - 1) / std::sqrt(x + 1); }}},
      {"atanh", {OP(atanh), [](double x) { return std::atanh(x); }, [](double x) { return 1 / (1 - x) / (1 + x); }}},
      {"erf",
       {OP(erf), [](double x) { return std::erf(x); },
        [](double x) { return 2 / std::sqrt(std::numbers::pi) * std::exp(-x * x); }}},
      {"erfc",
       {OP(erfc), [](double x) { return std::erfc(x); },
        [](double x) { return -2 / std::sqrt(std::numbers::pi) * std::exp(-x * x); }}},
      {"frac", {OP(frac), [](double x) { return x - std::trunc(x); }, [](double) { return 1.; }}},
      {"sigmoid", {OP(sigmoid), logistic, [](double x) { return logistic(x) * logistic(-x); }, true}},
      {"logsigmoid", {OP(logsigmoid), [](double x) { return -soft_plus(-x); }, [](double x) { return logistic(-x); }}},
      {"softplus", {OP(softplus), soft_plus, logistic}},
      {"silu",
       {OP(silu), [](double x) { return vanishing(x, logistic(x)); },
        [](double x) { return logistic(x) + vanishing(x, logistic(x) * logistic(-x)); }}},
      {"gelu",
       {OP(gelu), [](double x) { return vanishing(x, normal_cdf(x)); },
        [](double x) { return normal_cdf(x) + vanishing(x, density(x)); }}},
      {"gelu_tanh",
       {OP(gelu_tanh), [](double x) { return vanishing(x, logistic(tanh_exponent(x))); },
        [](double x) {
          const double v = tanh_exponent(x);
          return logistic(v) + vanishing(x * tanh_exponent_slope(x), logistic(v) * logistic(-v));
        }}},
      {"mish",
       {OP(mish), [](double x) { return vanishing(x, std::tanh(soft_plus(x))); },
        [](double x) {
          const double t = std::tanh(soft_plus(x));
          return t + vanishing(x, (1 - t * t) * logistic(x));
        }}},
      {"selu",
       {OP(selu), [](double x) { return kSeluScale * (x > 0 ? x : kSeluAlpha * std::expm1(x)); },
        [](double x) { return kSeluScale * elu_slope(x, kSeluAlpha); }}},
      {"softsign",
       {OP(softsign), [](double x) { return std::isinf(x) ? sign(x) : x / (1 + std::abs(x)); },
        [](double x) { return 1 / (1 + std::abs(x)) / (1 + std::abs(x)); }}},
      {"tanhshrink",
       {OP(tanhshrink), [](double x) { return x - std::tanh(x); },
        [](double x) { return std::tanh(x) * std::tanh(x); }}},
      {"relu6",
       {OP(relu6), [](double x) { return std::isnan(x) ? x : std::clamp(x, 0., 6.); },
        [](double x) { return passes(x, x > 0 && x < 6); }}},
      {"hardsigmoid",
       {OP(hardsigmoid), [](double x) { return std::isnan(x) ? x : std::clamp((x + 3) / 6, 0., 1.); },
        [](double x) { return passes(x, x > -3 && x < 3) / 6; }}},
      {"hardswish",
       {OP(hardswish), [](double x) { return x <= -3  ? 0
                                             : x >= 3 ? x
                                                      : x * (x + 3) / 6; },
        [](double x) { return x <= -3 ? 0
                              : x < 3 ? x / 3 + 0.5
                                      : 1; }}},
      {"leaky_relu",
       {OP(leaky_relu), [](double x) { return x > 0 ? x : 0.01 * x; }, [](double x) { return x > 0 ? 1 : 0.01; }}},
      {"elu", {OP(elu), [](double x) { return x > 0 ? x : std::expm1(x); }, [](double x) { return elu_slope(x, 1); }}},
      {"celu",
       {OP(celu), [](double x) { return x > 0 ? x : std::expm1(x); }, [](double x) { return elu_slope(x, 1); }}},
      {"hardshrink",
       {OP(hardshrink), [](double x) { return std::abs(x) <= 0.5 ? 0 : x; },
        [](double x) { return passes(x, std::abs(x) > 0.5); }}},
      {"softshrink",
       {OP(softshrink), [](double x) { return std::isnan(x) ? x
                                              : x > 0.5     ? x - 0.5
                                              : x < -0.5    ? x + 0.5
                                                            : 0; },
        [](double x) { return passes(x, std::abs(x) > 0.5); }}},
      {"hardtanh",
       {[](const Tensor& x) { return x.clamp(-1, 1); },
        [](double x) { return std::isnan(x) ? x : std::clamp(x, -1., 1.); },
        [](double x) { return passes(x, x > -1 && x < 1); }}},
  };
  return all;
}

Tensor leaf(const std::vector<double>& values, DType dtype) {
  return raw::cast(raw::from_data(values, {std::ssize(values)}), dtype).requires_grad_();
}

/// Equal up to rounding, where both are NaN, and where the difference is below the smallest number of the dtype.
bool close(double found, double expected, DType dtype, double atol = 1e-35) {
  const double rtol = dtype == kFloat64 ? 1e-12 : 2e-5;
  if (std::isnan(expected) || std::isnan(found)) return std::isnan(expected) && std::isnan(found);
  const double largest =
      dtype == kFloat64 ? std::numeric_limits<double>::max() : static_cast<double>(std::numeric_limits<float>::max());
  if (std::abs(expected) > largest) return std::isinf(found) && (found > 0) == (expected > 0);
  return std::abs(found - expected) <= rtol * std::abs(expected) + atol;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_unary_operation_of_the_table_has_a_reference) {
  int rows = 0;
#define TENDRIL_UNARY(op, ...)                                                                        \
  BOOST_TEST((references().contains(#op) || std::string(#op) == "tan"), #op); /* tan has no limits */ \
  ++rows;
#include "tendril/tensor/pointwise.def"
  BOOST_TEST(rows > 40);
}

BOOST_AUTO_TEST_CASE(values_and_gradients_are_right_at_the_limits) {
  for (const DType dtype : {kFloat32, kFloat64}) {
    const bool narrow = dtype == kFloat32;
    const double most =
        narrow ? static_cast<double>(std::numeric_limits<float>::max()) : std::numeric_limits<double>::max();
    const double denormal = narrow ? 0x1p-140 : 0x1p-1060;
    std::vector<double> inputs = {0., -0., kInfinity, -kInfinity, kNaN, 1., -1., 50., -50., 1e4, -1e4};
    for (const double x : {denormal, most, narrow ? 1e30 : 1e300, narrow ? 1e15 : 1e100}) {
      inputs.push_back(x);
      inputs.push_back(-x);
    }
    for (const auto& [name, reference] : references()) {
      for (const bool graph : {false, true}) {  // the gradient that is recorded is another formula
        const Tensor x = leaf(inputs, dtype);
        const Tensor y = reference.op(x);
        Tensor slopes;
        if (y.requires_grad()) {
          slopes = autograd::grad({y}, {x}, {ones_like(y)}, {.create_graph = graph})[0].detach();
        }
        const std::vector<double> found = y.detach().to(kFloat64).to_vector<double>();
        const std::vector<double> given = x.detach().to(kFloat64).to_vector<double>();
        for (std::size_t i = 0; i < given.size(); ++i) {
          const double expected = reference.value(given[i]);
          BOOST_TEST(close(found[i], expected, dtype),
                     name << "(" << given[i] << ") of " << dtype << " is " << found[i] << ", expected " << expected);
          if (!slopes.defined()) continue;
          const double slope = slopes.to(kFloat64).to_vector<double>()[i], expected_slope = reference.slope(given[i]);
          BOOST_TEST(close(slope, expected_slope, dtype, reference.from_result ? (narrow ? 1e-7 : 1e-15) : 1e-35),
                     name << "'(" << given[i] << ") of " << dtype << " is " << slope << ", expected " << expected_slope
                          << ", create_graph " << graph);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(logsumexp_has_a_gradient_where_it_is_infinite) {
  const auto gradient = [](std::vector<double> values) {
    const Tensor x = leaf(values, kFloat64);
    x.logsumexp({0}).backward();
    return x.grad().to_vector<double>();
  };
  using V = std::vector<double>;
  BOOST_TEST(gradient({-kInfinity, -kInfinity}) == (V{0, 0}));
  BOOST_TEST(gradient({kInfinity, 0}) == (V{1, 0}));
  BOOST_TEST(gradient({kInfinity, -kInfinity, kInfinity}) == (V{0.5, 0, 0.5}));
  BOOST_TEST(gradient({-kInfinity, 0}) == (V{0, 1}));
  const Tensor rows = tensor({{kInfinity, 0.}, {0., 0.}}, {.dtype = kFloat64, .requires_grad = true});
  rows.logsumexp({1}).sum().backward();
  BOOST_TEST(rows.grad().to_vector<double>() == (V{1, 0, 0.5, 0.5}));
}

BOOST_AUTO_TEST_SUITE_END()
