// Gradients where a formula divides by zero, cancels, or meets another dtype: PyTorch 2.15's values.
#include <cmath>
#include <limits>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/reduce.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/raises.h"

BOOST_AUTO_TEST_SUITE(singular)

using namespace tendril;
using boost::test_tools::per_element;

namespace {
using Values = std::vector<double>;
Values values(const Tensor& x) { return x.to_vector<double>(); }
constexpr double kInf = std::numeric_limits<double>::infinity();
}  // namespace

BOOST_AUTO_TEST_CASE(std_of_equal_elements_has_gradient_0_of_every_order) {
  for (bool unbiased : {true, false}) {
    const Tensor x = tensor({{1., 1., 1.}, {1., 2., 3.}}, {.requires_grad = true});
    const Tensor g = autograd::grad({x.std({1}, unbiased).sum()}, {x}, {}, {.create_graph = true})[0];
    const double slope = unbiased ? 0.5 : 1 / (3 * std::sqrt(2. / 3));
    BOOST_TEST(values(g[0]) == (Values{0, 0, 0}), per_element());
    BOOST_TEST(std::abs(values(g)[5] - slope) < 1e-6);
    const Tensor second = autograd::grad({(g * g).sum() + g.select(1, 0).sum()}, {x})[0];
    BOOST_TEST(values(second[0]) == (Values{0, 0, 0}), per_element());
    for (double value : values(second)) BOOST_TEST(std::isfinite(value));
  }
  const Tensor one = ones({1, 1}, {.requires_grad = true});
  one.std({1}, false).sum().backward();
  BOOST_TEST(one.grad().item<double>() == 0);
}

BOOST_AUTO_TEST_CASE(a_variance_of_equal_elements_is_0_however_the_mean_is_rounded) {
  for (DType dtype : {kFloat32, kFloat64}) {
    for (double value : {0.1, 1. / 3, -1.7e16, 3e-30}) {
      for (int64_t n : {3, 5, 7, 10, 1000, 12345}) {
        const Tensor x = full({2, n}, value, {.dtype = dtype, .requires_grad = true});
        BOOST_TEST(x.var(Dims{0, 1}).item<double>() == 0);
        const Tensor deviation = x.std({1});
        BOOST_TEST(values(deviation) == (Values{0, 0}), per_element());
        deviation.sum().backward();
        BOOST_TEST(values(x.grad().abs().sum()) == Values{0}, per_element());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_variance_is_seen_from_the_mean_whatever_the_first_element_is) {
  BOOST_TEST(tensor({-2e38, 2e38}, {.dtype = kFloat32}).var(Dims{0}).item<double>() == kInf);
  // Beside one large element the small ones have gradients of their own, and lose no digits to it.
  Tensor x = linspace(0, 1, 100000, {.dtype = kFloat32});
  x[0] = 1e8;
  Tensor wide = x.to(kFloat64);
  x.requires_grad_();
  wide.requires_grad_();
  x.var(Dims{0}).backward();
  wide.var(Dims{0}).backward();
  const Tensor difference = (x.grad().to(kFloat64) - wide.grad()).abs() / wide.grad().abs();
  BOOST_TEST(difference.max().item<double>() < 1e-5);
}

BOOST_AUTO_TEST_CASE(atan2_at_the_origin_has_gradient_0_of_every_order) {
  const Tensor y = tensor({0., -0., 0., 1.}, {.requires_grad = true});
  const Tensor x = tensor({0., 0., 2., 0.}, {.requires_grad = true});
  const auto g = autograd::grad({atan2(y, x).sum()}, {y, x}, {}, {.create_graph = true});
  BOOST_TEST(values(g[0]) == (Values{0, 0, 0.5, 0}), per_element());
  BOOST_TEST(values(g[1]) == (Values{0, 0, 0, -1}), per_element());
  const auto second = autograd::grad({g[0].sum() + g[1].sum()}, {y, x});
  BOOST_TEST(values(second[0]) == (Values{0, 0, -0.25, 1}), per_element());
  BOOST_TEST(values(second[1]) == (Values{0, 0, -0.25, 1}), per_element());
}

BOOST_AUTO_TEST_CASE(the_power_0_has_gradient_0_of_every_order) {
  const Tensor x = tensor({0., -0., 2., kInf, -kInf}, {.requires_grad = true});
  const Tensor g = ones({5}, {.requires_grad = true});
  for (const Tensor& y : {x.pow(0), x.pow(zeros({5})), x.pow(zeros({1}))}) {
    BOOST_TEST(values(y) == Values(5, 1), per_element());
    const Tensor first = autograd::grad({y}, {x}, {g}, {.create_graph = true})[0];
    BOOST_TEST(values(first) == Values(5, 0), per_element());
    for (const Tensor& second : autograd::grad({first}, {x, g}, {ones({5})})) {
      BOOST_TEST(values(second) == Values(5, 0), per_element());
    }
  }
  const Tensor slope = autograd::grad({x.pow(1).sum()}, {x}, {}, {.create_graph = true})[0];
  BOOST_TEST(values(autograd::grad({slope.slice(0, 0, 3).sum()}, {x})[0])[0] == 0);
}

BOOST_AUTO_TEST_CASE(cumsum_adds_gradients_up_from_the_end) {
  Tensor x = zeros({3}, {.requires_grad = true});
  x.cumsum(0).backward(tensor({1e8, 1., 1.}));
  BOOST_TEST(values(x.grad()) == (Values{1e8, 2, 1}), per_element());
  x.zero_grad();
  x.cumsum(0).backward(tensor({kInf, 1., 1.}));
  BOOST_TEST(values(x.grad()) == (Values{kInf, 2, 1}), per_element());
}

BOOST_AUTO_TEST_CASE(cumsum_of_any_shape_and_layout_adds_up_from_the_end) {
  for (const Dims& sizes :
       {Dims{}, Dims{1}, Dims{5}, Dims{3, 700}, Dims{700, 3}, Dims{2, 9, 4}, Dims{20000}, Dims{0, 3}}) {
    for (int dim = 0; dim < std::max(1, sizes.size()); ++dim) {
      const Tensor x = zeros(sizes, {.requires_grad = true});
      Tensor g = randint(-50, 50, sizes).to(kFloat32);
      if (sizes.size() > 1) g = g.transpose(0, 1).contiguous().transpose(0, 1);
      x.cumsum(dim).backward(g);
      const Tensor total = sizes.size() == 0 ? g : g.sum({dim}, true);
      const Tensor expected = sizes.size() == 0 ? g : total - g.cumsum(dim) + g;
      BOOST_TEST(values(x.grad()) == values(expected), per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(a_gradient_has_the_precision_of_the_result) {
  const auto f64 = [](std::initializer_list<double> v) {
    return tensor(v, {.dtype = kFloat64, .requires_grad = true});
  };
  {  // an integer base: its logarithm is a float64
    const Tensor y = f64({2.5, 0.}), x = tensor({3, 0});
    x.pow(y).sum().backward();
    BOOST_TEST(std::abs(values(y.grad())[0] - std::pow(3, 2.5) * std::log(3.)) < 1e-12);
    BOOST_TEST(values(y.grad())[1] == 0);
  }
  {  // an integer exponent that float32 has not
    const Tensor x = f64({1.}), y = tensor({(1 << 24) + 1});
    x.pow(y).sum().backward();
    BOOST_TEST(values(x.grad())[0] == (1 << 24) + 1);
  }
  {
    const Tensor x = f64({3.1, 0., 0.});
    x.pow(tensor({3, 0, 1}, {.dtype = kUInt8})).sum().backward();
    BOOST_TEST(std::abs(values(x.grad())[0] - 3 * 3.1 * 3.1) < 1e-12);
    BOOST_TEST(values(x.grad())[1] == 0);
    BOOST_TEST(values(x.grad())[2] == 1);
  }
  {  // integers on both sides of the quotient
    const Tensor y = f64({3.});
    (tensor({1}) / y).sum().backward();
    BOOST_TEST(std::abs(values(y.grad())[0] + 1 / 9.) < 1e-16);
  }
  {  // whose squares int32 has not
    const Tensor y = f64({100000.}), x = tensor({100000}, {.dtype = kInt32});
    atan2(y, x).sum().backward();
    BOOST_TEST(std::abs(values(y.grad())[0] - 0.5e-5) < 1e-18);
  }
  {
    const Tensor x = tensor({3., 0., 0.}, {.dtype = kFloat16, .requires_grad = true});
    x.pow(tensor({3, 0, 1})).sum().backward();
    BOOST_TEST((x.grad().dtype() == kFloat16));
    BOOST_TEST(values(x.grad()) == (Values{27, 0, 1}), per_element());
  }
}

BOOST_AUTO_TEST_CASE(the_gradient_of_the_largest_of_all_goes_to_every_nan_if_there_is_one) {
  for (const bool largest : {true, false}) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const Tensor x = tensor({1., nan, 3., nan}, {.requires_grad = true});
    (largest ? x.max() : x.min()).backward();
    BOOST_TEST(values(x.grad()) == (Values{0, 0.5, 0, 0.5}), per_element());
  }
}

BOOST_AUTO_TEST_CASE(norms_below_1_have_gradient_0_at_0) {
  for (double p : {0.5, 0.0}) {
    const Tensor x = tensor({4., 0., 0.}, {.requires_grad = true});
    x.norm(p).backward();
    BOOST_TEST(values(x.grad()) == (Values{p > 0 ? 1.0 : 0.0, 0, 0}), per_element());
  }
  const Tensor x = tensor({4., 0.}, {.requires_grad = true});
  const Tensor y = x.norm(-1);
  BOOST_TEST(y.item<double>() == 0);
  y.backward();
  BOOST_TEST(values(x.grad()) == (Values{0, 0}), per_element());
}

BOOST_AUTO_TEST_CASE(a_product_of_nothing_is_1_and_has_a_gradient) {
  const Tensor x = zeros({2, 0}, {.requires_grad = true});
  for (const Tensor& y : {x.prod(), x.prod(1), x.prod(1, true)}) {
    BOOST_TEST(y.requires_grad());
    BOOST_TEST(values(y)[0] == 1);
    BOOST_TEST((autograd::grad({y.sum()}, {x})[0].sizes() == Dims{2, 0}));
  }
}

BOOST_AUTO_TEST_CASE(elements_that_tie_for_an_infinite_norm_share_its_gradient) {
  const Tensor x = tensor({{1., -3., 3.}, {2., 2., 0.}}, {.requires_grad = true});
  for (const Dims& dims : {Dims{}, Dims{1}}) {
    const Tensor y = x.norm(kInf, dims);
    const double second_row = dims.empty() ? 0 : 0.5;
    BOOST_TEST(values(autograd::grad({y.sum()}, {x})[0]) == (Values{0, -0.5, 0.5, second_row, second_row, 0}),
               per_element());
  }
  const Tensor least = autograd::grad({x.norm(-kInf, {0, 1})}, {x})[0];
  BOOST_TEST(values(least) == (Values{0, 0, 0, 0, 0, 0}), per_element());  // of |x| at 0
}

BOOST_AUTO_TEST_CASE(a_running_product_is_right_where_products_of_later_elements_leave_the_range) {
  const Tensor special = tensor({2., 0., kInf, 3.}).cumprod(0);
  BOOST_TEST(values(special)[1] == 0);
  BOOST_TEST(std::isnan(values(special)[3]));
  if (!default_device().is_cpu()) return;  // elsewhere nobody waits for the products to look at them
  const Tensor small = tensor({1e30, 1e-30, 1e-30, 1e30}, {.dtype = kFloat32, .requires_grad = true});
  const Tensor product = small.cumprod(0);
  const Tensor apart = product.detach() / tensor({1e30, 1., 1e-30, 1.}, {.dtype = kFloat32}) - 1.0;
  BOOST_TEST(apart.abs().max().item<double>() < 1e-6);
  const Tensor g = autograd::grad({product.sum()}, {small})[0];
  BOOST_TEST(std::abs(g[1].item<double>() / 2e30 - 1) < 1e-6);
  const Tensor large = tensor({{1e-200, 1e200}, {1e200, 1e-200}, {1e200, 1e-200}}, {.dtype = kFloat64}).cumprod(0);
  const Tensor expected = tensor({{1e-200, 1e200}, {1., 1.}, {1e200, 1e-200}}, {.dtype = kFloat64});
  BOOST_TEST(allclose(large, expected, 1e-12, 0));
  const Tensor factors = tensor({1e200, 1e-200, 1e200, 1e-200}, {.dtype = kFloat64});
  BOOST_TEST(std::abs(factors.clone().requires_grad_().prod().item<double>() - 1) < 1e-12);
}

BOOST_AUTO_TEST_SUITE_END()
