// Against torch.autograd.functional (tests/autograd/golden.py).
#include "tendril/autograd/functional.h"

#include "tendril/autograd/backward.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/gradcheck.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/leaves.h"
#include "tests/autograd/raises.h"
#include "tests/golden.h"

BOOST_AUTO_TEST_SUITE(functional)

using namespace tendril;
using testing::leaf;
namespace derivatives = autograd::functional;

namespace {

using Tensors = std::vector<Tensor>;

const testing::Golden& golden() {
  static const testing::Golden file(TENDRIL_TEST_DATA "/expressions.txt");
  return file;
}
Tensors inputs(int from, int count) {
  Tensors all;
  for (int i = 0; i < count; ++i) all.push_back(golden().get("functional.in" + std::to_string(from + i)));
  return all;
}
void check(const std::string& name, const Tensors& got) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    BOOST_TEST(!got[i].requires_grad());
    BOOST_TEST(testing::difference(got[i], golden().get("functional." + name + std::to_string(i)), 1e-11, 1e-12) == "",
               name << i);
  }
}
void check(const std::string& name, const std::vector<Tensors>& rows) {
  Tensors all;
  for (const Tensors& row : rows) all.insert(all.end(), row.begin(), row.end());
  check(name, all);
}

Tensors two_outputs(const Tensors& in) { return {(in[0] * in[1]).tanh(), (in[0].exp() * in[1]).sum({1})}; }
Tensors scalar(const Tensors& in) { return {(in[0] * in[0] * in[1]).sin().sum() + in[1].pow(3).sum()}; }
const auto cube = [](const Tensor& x) { return x * x * x; };
const auto sum_of_cubes = [](const Tensor& x) { return (x * x * x).sum(); };

}  // namespace

BOOST_AUTO_TEST_CASE(all_equal_pytorchs) {
  const Tensors at = inputs(0, 2), v_in = inputs(2, 2), v_out = inputs(4, 2);
  const NoGrad whatever_the_mode;
  check("jacobian", derivatives::jacobian(two_outputs, at));
  check("hessian", derivatives::hessian(scalar, at));
  check("vjp", derivatives::vjp(two_outputs, at, v_out).second);
  check("jvp", derivatives::jvp(two_outputs, at, v_in).second);
  check("vhp", derivatives::vhp(scalar, at, v_in).second);
  check("hvp", derivatives::hvp(scalar, at, v_in).second);
  const Tensors values = derivatives::jvp(two_outputs, at, v_in).first;
  for (std::size_t i = 0; i < 2; ++i) {
    BOOST_TEST(testing::difference(values[i], two_outputs(at)[i], 0) == "");
    BOOST_TEST(!values[i].requires_grad());
  }
}

BOOST_AUTO_TEST_CASE(one_tensor_needs_no_list) {
  using Values = std::vector<double>;
  const Tensor x = tensor({1., 2.}, {.dtype = kFloat64}), v = tensor({5., 7.}, {.dtype = kFloat64});
  BOOST_TEST(derivatives::jacobian(cube, x).to_vector<double>() == Values({3, 0, 0, 12}));
  BOOST_TEST(derivatives::hessian(sum_of_cubes, x).to_vector<double>() == Values({6, 0, 0, 12}));
  BOOST_TEST(derivatives::vjp(cube, x, v).second.to_vector<double>() == Values({15, 84}));
  BOOST_TEST(derivatives::vjp(sum_of_cubes, x).second.to_vector<double>() == Values({3, 12}));
  BOOST_TEST(derivatives::jvp(cube, x, v).second.to_vector<double>() == Values({15, 84}));
  BOOST_TEST(derivatives::vhp(sum_of_cubes, x, v).second.to_vector<double>() == Values({30, 84}));
  BOOST_TEST(derivatives::hvp(sum_of_cubes, x, v).second.to_vector<double>() == Values({30, 84}));
  BOOST_TEST(derivatives::hvp(sum_of_cubes, x, v).first.item<double>() == 9);
  BOOST_TEST((derivatives::jacobian(cube, zeros({0, 2}, {.dtype = kFloat64})).sizes() == Dims{0, 2, 0, 2}));
}

BOOST_AUTO_TEST_CASE(with_create_graph_they_are_differentiable) {
  const derivatives::Options recorded{.create_graph = true};
  const auto passes = [&](const autograd::DifferentiableFunction& f, const Tensors& at) {
    const auto first = autograd::gradcheck(f, at), second = autograd::gradgradcheck(f, at);
    BOOST_TEST(first.ok, first.message);
    BOOST_TEST(second.ok, second.message);
  };
  const auto f = [](const Tensor& x) { return (x.exp() * x).sin(); };
  const auto total = [&](const Tensor& x) { return f(x).sum(); };
  const Tensors x{leaf({0.5, -0.3})}, with_v{leaf({0.5, -0.3}), leaf({2, 1})};
  passes([&](const Tensors& in) { return Tensors{derivatives::jacobian(f, in[0], recorded)}; }, x);
  passes([&](const Tensors& in) { return Tensors{derivatives::hessian(total, in[0], recorded)}; }, x);
  passes([&](const Tensors& in) { return Tensors{derivatives::vjp(f, in[0], in[1], recorded).second}; }, with_v);
  passes([&](const Tensors& in) { return Tensors{derivatives::jvp(f, in[0], in[1], recorded).second}; }, with_v);
  passes([&](const Tensors& in) { return Tensors{derivatives::vhp(total, in[0], in[1], recorded).second}; }, with_v);
  passes([&](const Tensors& in) { return Tensors{derivatives::hvp(total, in[0], in[1], recorded).second}; }, with_v);
}

BOOST_AUTO_TEST_CASE(what_does_not_depend_has_derivative_zero_unless_strict) {
  const Tensors at{leaf({1, 2}), leaf({3})};
  const auto f = [](const Tensors& in) { return Tensors{in[0] * 2, ones({2}, {.dtype = kFloat64})}; };
  const auto rows = derivatives::jacobian(f, at);
  BOOST_TEST((rows[0][1].sizes() == Dims{2, 1} && rows[1][0].sizes() == Dims{2, 2}));
  BOOST_TEST(rows[0][1].abs().sum().item<double>() + rows[1][0].abs().sum().item<double>() == 0);
  const auto linear = [](const Tensor& x) { return (x * 2).sum(); };
  BOOST_TEST(derivatives::hessian(linear, at[0]).abs().sum().item<double>() == 0);
  BOOST_TEST(derivatives::hvp(linear, at[0], at[0].detach()).second.abs().sum().item<double>() == 0);
  CHECK_RAISES(AutogradError, "output 1 of the function is independent of all inputs",
               derivatives::jacobian(f, at, {.strict = true}));
  const auto first = [&](const Tensors& in) { return Tensors{f(in)[0]}; };
  CHECK_RAISES(AutogradError, "input 1 has no influence", derivatives::jacobian(first, at, {.strict = true}));
}

BOOST_AUTO_TEST_CASE(bad_requests_are_refused) {
  const Tensor x = leaf({1, 2}), three = leaf({1, 2, 3});
  CHECK_RAISES(Error, "jacobian: there are no inputs", derivatives::jacobian(two_outputs, Tensors{}));
  CHECK_RAISES(Error, "jvp: input 0 is undefined", derivatives::jvp(cube, Tensor(), x));
  CHECK_RAISES(DTypeError, "input 0 is int64, expected a floating dtype", derivatives::jacobian(cube, tensor({1, 2})));
  CHECK_RAISES(DTypeError, "output 0 is bool", derivatives::jacobian([](const Tensor& in) { return in.gt(0); }, x));
  CHECK_RAISES(ShapeError, "hessian: expected a function of one output of one element", derivatives::hessian(cube, x));
  CHECK_RAISES(ShapeError, "vjp: expected a function of one output of one element", derivatives::vjp(cube, x));
  CHECK_RAISES(ShapeError, "jvp: v[0] has shape [3], expected [2] as that of the inputs",
               derivatives::jvp(cube, x, three));
  CHECK_RAISES(ShapeError, "vjp: v[0] has shape [3]", derivatives::vjp(cube, x, three));
  CHECK_RAISES(DTypeError, "hvp: v[0] is float32", derivatives::hvp(sum_of_cubes, x, tensor({1., 2.})));
  CHECK_RAISES(Error, "vhp: v has 0 tensors, expected one for each of the 2 inputs",
               derivatives::vhp(scalar, Tensors{x, x}, Tensors{}));
}

BOOST_AUTO_TEST_CASE(rows_are_in_the_order_of_the_outputs_elements_however_these_lie) {
  const Tensor x = arange(0, 12, 1, {.dtype = kFloat64}).reshape({1, 3, 2, 2});
  const auto as_image = [](const Tensor& v) { return cube(v).to(MemoryFormat::channels_last); };
  BOOST_TEST(equal(derivatives::jacobian(as_image, x), derivatives::jacobian(cube, x)));
  const auto lie = x.to(MemoryFormat::channels_last);
  BOOST_TEST(equal(derivatives::hessian(sum_of_cubes, lie), derivatives::hessian(sum_of_cubes, x)));
}

BOOST_AUTO_TEST_SUITE_END()
