// The table gives a gradient twice: as scalar C++, for one pass where nothing is recorded, and as Tensor code, which
// create_graph records. They must agree.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/detail/columns.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/raw.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(fused_gradients)

using namespace tendril;

namespace {

using Function = std::function<Tensor(const std::vector<Tensor>&)>;
struct Range {
  double low, high;
};

const DType kFloating[] = {kFloat32, kFloat64, kFloat16, kBFloat16};

Generator& generator() { return testing::case_engine<Generator>(); }

/// Of a result computed in another order.
double tolerance(DType dtype) {
  return dtype == kFloat64 ? 1e-13 : dtype == kFloat32 ? 2e-6 : dtype == kFloat16 ? 0x1p-9 : 0x1p-6;
}

/// Random, with the numbers among them at which formulas have cases.
Tensor values(const Dims& sizes, const Range& range, DType dtype) {
  const Tensor x = raw::empty(sizes, kFloat64);
  raw::uniform_(x, range.low, range.high, generator());
  const double special[] = {0, 1, 2, 3, -1, NAN};
  const Tensor all = x.view({-1});
  for (int64_t i = 0; i < 6 && 3 * i < all.numel(); ++i) all[3 * i].fill_(special[i]);
  return x.to(dtype).to(default_device());
}

/// The same elements, lying otherwise.
std::vector<Tensor> layouts(const Tensor& x) {
  std::vector<Tensor> all = {x};
  if (x.dim() != 2 || x.numel() == 0) return all;
  all.push_back(x.t().contiguous().t());
  const Tensor wide = zeros({x.size(0), 2 * x.size(1)}, {.dtype = x.dtype()});
  Tensor every_other = wide.slice(1, 0, wide.size(1), 2);
  every_other.copy_(x);
  all.push_back(every_other);
  return all;
}

void check_same(const Tensor& got, const Tensor& expected, const std::string& what) {
  BOOST_TEST_REQUIRE((got.defined() && got.dtype() == expected.dtype() && got.sizes() == expected.sizes()), what);
  const auto a = got.to_vector<double>(), b = expected.to_vector<double>();
  double largest = 1;  // an element may be a sum of terms of the size of others, which cancel
  for (const double x : b) largest = std::isfinite(x) ? std::max(largest, std::abs(x)) : largest;
  const double allowed = 2 * tolerance(got.dtype()) * largest;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (std::abs(a[i] - b[i]) <= allowed) continue;
    BOOST_FAIL(what << ", element " << i << ": " << a[i] << ", the formula says " << b[i]);
  }
}

/// Gradients for every input, with and without a record.
void compare(const std::string& name, const Function& f, const std::vector<Tensor>& given, const Tensor& g) {
  std::vector<Tensor> inputs;
  for (const Tensor& x : given) inputs.push_back(x.detach().requires_grad_());
  const auto gradients = [&](bool create_graph) {
    const Tensor y = f(inputs);
    return autograd::grad({y}, inputs, {g}, {.create_graph = create_graph});
  };
  const auto fused = gradients(false), formulas = gradients(true);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    BOOST_TEST(!fused[i].requires_grad());
    check_same(fused[i], formulas[i], name + ", operand " + std::to_string(i));
  }
}

void check(const std::string& name, const Function& f, const std::vector<Range>& ranges) {
  for (const DType dtype : kFloating) {
    const std::string here = name + " of " + std::string(name_of(dtype));
    for (const Dims& sizes : {Dims{}, Dims{0, 3}, Dims{37}, Dims{9, 14}, Dims{3, 1, 2}}) {
      std::vector<Tensor> x;
      for (const Range& range : ranges) x.push_back(values(sizes, range, dtype));
      const Tensor g = values(sizes, {-2, 2}, dtype);
      for (const Tensor& laid_out : layouts(g)) compare(here, f, x, laid_out);
      for (const Tensor& laid_out : layouts(x[0])) {
        std::vector<Tensor> other = x;
        other[0] = laid_out;
        compare(here + ", strided", f, other, g);
      }
      compare(here + ", one gradient for all", f, x, full({}, 1.5, {.dtype = dtype}).expand(sizes));
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(of_one_operand_agree_with_the_formulas) {
#define TENDRIL_UNARY(op, doc, dtypes, expression, saves, gradient, fused, low, high, ...) \
  if (detail::is_fused(#fused)) check(#op, [](const auto& x) { return x[0].op(); }, {{low, high}});
#include "tendril/tensor/pointwise.def"
}

BOOST_AUTO_TEST_CASE(far_from_zero_are_what_they_tend_to_though_factors_overflow) {
  for (const auto& [name, f] :
       std::initializer_list<std::pair<const char*, Tensor (Tensor::*)() const>>{{"sigmoid", &Tensor::sigmoid},
                                                                                 {"tanh", &Tensor::tanh},
                                                                                 {"silu", &Tensor::silu},
                                                                                 {"gelu", &Tensor::gelu},
                                                                                 {"gelu_tanh", &Tensor::gelu_tanh},
                                                                                 {"softplus", &Tensor::softplus},
                                                                                 {"logsigmoid", &Tensor::logsigmoid}}) {
    for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
      for (const double x : {1e14, 1e18, 1e25, 1e38}) {
        for (const double sign : {-1., 1.}) {
          const auto gradient = [&, op = f](double at, bool create_graph) {
            const Tensor leaf = full({3}, sign * at, {.dtype = dtype}).requires_grad_();
            return autograd::grad({(leaf.*op)()}, {leaf}, {ones({3}, {.dtype = dtype})},
                                  {.create_graph = create_graph})[0]
                .to_vector<double>()[0];
          };
          BOOST_TEST(gradient(x, false) == gradient(1e4, false), name << " at " << sign * x << " in " << dtype);
          BOOST_TEST(gradient(x, true) == gradient(1e4, false),
                     name << ", recorded, at " << sign * x << " in " << dtype);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(of_a_number_agree_with_the_formulas) {
#define TENDRIL_UNARY(...)
#define TENDRIL_PARAMETRIC(op, doc, dtypes, expression, saves, gradient, fused, low, high, ...)          \
  for (const double p : {0.0, -0.7, 3.0}) {                                                              \
    if ((std::string(#op) == "celu" && p == 0) || (std::string(#op) == "softshrink" && p < 0)) continue; \
    check(#op, [p](const auto& x) { return x[0].op(p); }, {{low, high}});                                \
  }
#include "tendril/tensor/pointwise.def"
}

BOOST_AUTO_TEST_CASE(of_two_operands_agree_with_the_formulas) {
#define TENDRIL_BINARY(op, doc, dtypes, expression, saves, gx, gy, fused_x, fused_y, x_low, x_high, y_low, y_high) \
  if (detail::is_fused(#fused_x) || detail::is_fused(#fused_y)) {                                                  \
    check(#op, [](const auto& x) { return x[0].op(x[1]); }, {{x_low, x_high}, {y_low, y_high}});                   \
    for (const double number : {0.0, 0.5, 1.0, 2.0, 3.0, -1.0}) {                                                  \
      check(#op " by a number", [=](const auto& x) { return x[0].op(number); }, {{x_low, x_high}});                \
      check(#op " of a number", [=](const auto& x) { return op(number, x[0]); }, {{y_low, y_high}});               \
    }                                                                                                              \
  }
#define TENDRIL_INTEGRAL(...)
#include "tendril/tensor/pointwise.def"
}

BOOST_AUTO_TEST_CASE(of_operands_that_broadcast_or_promote_agree_with_the_formulas) {
  const auto power = [](const auto& x) { return x[0].pow(x[1]); };
  for (const DType dtype : kFloating) {
    const Tensor x = values({6, 5}, {0.2, 2}, dtype), g = values({6, 5}, {-2, 2}, dtype);
    compare("pow by a row", power, {x, values({5}, {-2, 2}, dtype)}, g);
    compare("pow by a column", power, {x, values({6, 1}, {-2, 2}, dtype)}, g);
    compare("pow by one", power, {x, values({}, {-2, 2}, dtype)}, g);
    compare("pow by one of another dtype", power, {x, values({}, {-2, 2}, kFloat64)}, g);
    compare("pow by one on the CPU", power, {x, values({}, {-2, 2}, dtype).to(kCPU)}, g);
  }
  const Tensor x = values({6, 5}, {0.2, 2}, kFloat32), y = values({6, 5}, {-2, 2}, kFloat64);
  compare("pow of two dtypes", power, {x, y}, values({6, 5}, {-2, 2}, kFloat64));
}

BOOST_AUTO_TEST_CASE(of_many_elements_that_several_threads_share_agree_with_the_formulas) {
  const Tensor x = values({200, 450}, {-2, 2}, kFloat32), column = values({200, 1}, {-2, 2}, kFloat32);
  compare(
      "tanh", [](const auto& t) { return t[0].tanh(); }, {x}, column.expand({200, 450}));
  compare(
      "leaky_relu", [](const auto& t) { return t[0].leaky_relu(0.2); }, {x}, x);
  compare(
      "maximum", [](const auto& t) { return t[0].maximum(t[1]); }, {x, column}, x);
}

BOOST_AUTO_TEST_CASE(a_gradient_that_others_hold_is_left_as_it_is) {
  const Tensor x = full({4}, 0.5, {.requires_grad = true}), g = full({4}, 2);
  const Tensor y = x.tanh(), z = y.tanh();
  z.backward(g);
  BOOST_TEST(g.to_vector<double>() == std::vector<double>(4, 2), boost::test_tools::per_element());
  // One gradient for two nodes, and a retained one.
  const Tensor u = full({4}, 0.5, {.requires_grad = true});
  Tensor a = u.tanh();
  const Tensor b = u.sigmoid();
  a.retain_grad();
  (a + b).backward(full({4}, 2));
  const double t = std::tanh(0.5), s = 1 / (1 + std::exp(-0.5));
  BOOST_TEST(a.grad()[0].item<double>() == 2);
  BOOST_TEST(std::abs(u.grad()[0].item<double>() - 2 * (1 - t * t) - 2 * s * (1 - s)) < 1e-6);
}

BOOST_AUTO_TEST_SUITE_END()
