// Linear layers with an activation, beside the two operations that each stands for.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tendril/autograd/autocast.h"
#include "tendril/autograd/backward.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/matmul.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tests/errors.h"

BOOST_AUTO_TEST_SUITE(linear_activation)

using namespace tendril;
using tendril::testing::says;

namespace {

using Tensors = std::vector<Tensor>;
struct Operation {
  std::string name;
  Tensor (*together)(const Tensor& x, const Tensor& weight, const Tensor& bias);
  Tensor (*activation)(const Tensor& x);
};
const Operation kOperations[] = {{"linear_relu", linear_relu, [](const Tensor& x) { return x.relu(); }},
                                 {"linear_gelu_tanh", linear_gelu_tanh, [](const Tensor& x) { return x.gelu_tanh(); }}};
const DType kFloating[] = {kFloat32, kFloat64, kFloat16, kBFloat16};

Tensor numbers(const Dims& sizes, DType dtype = kFloat32) {
  return (arange(numel_of(sizes)).to(kFloat64).view(sizes) * 0.7).sin().to(dtype);
}

/// On the CPU, equal to the last bit. Elsewhere the activation may be of what was not rounded, and be another's.
void check_same(const Tensor& got, const Tensor& expected, const std::string& what) {
  BOOST_TEST_REQUIRE((got.dtype() == expected.dtype() && got.sizes() == expected.sizes()), what);
  if (got.device().is_cpu()) {
    BOOST_TEST(equal(got, expected), what);
    return;
  }
  const DType dtype = got.dtype();
  const double allowed = dtype == kBFloat16 ? 0x1p-6 : dtype == kFloat16 ? 0x1p-9 : 1e-5;
  BOOST_TEST(allclose(got.to(kFloat64), expected.to(kFloat64), allowed, allowed), what);
}

/// x, weight and bias that differ in how they lie, and in whether they are there.
std::vector<Tensors> operands(DType dtype) {
  return {{numbers({5, 16}, dtype), numbers({8, 16}, dtype), numbers({8}, dtype)},
          {numbers({2, 3, 16}, dtype), numbers({8, 16}, dtype), numbers({8}, dtype)},
          {numbers({16}, dtype), numbers({8, 16}, dtype), numbers({8}, dtype)},
          {numbers({5, 16}, dtype), numbers({8, 16}, dtype), Tensor()},
          {numbers({16, 5}, dtype).t(), numbers({16, 8}, dtype).t(), numbers({8, 2}, dtype).select(1, 0)},
          {numbers({5, 32}, dtype).slice(1, 0, 32, 2), numbers({8, 16}, dtype), numbers({1}, dtype).expand({8})},
          {numbers({0, 16}, dtype), numbers({8, 16}, dtype), numbers({8}, dtype)},
          {numbers({5, 0}, dtype), numbers({8, 0}, dtype), numbers({8}, dtype)}};
}

std::string name_of(const autograd::Node* node) { return node ? node->name() : ""; }

}  // namespace

BOOST_AUTO_TEST_CASE(values_are_those_of_the_two_operations) {
  for (const Operation& op : kOperations) {
    for (const DType dtype : kFloating) {
      for (const Tensors& in : operands(dtype)) {
        check_same(op.together(in[0], in[1], in[2]), op.activation(linear(in[0], in[1], in[2])), op.name);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(so_are_gradients_and_gradients_of_gradients) {
  for (const Operation& op : kOperations) {
    for (const DType dtype : {kFloat32, kFloat64}) {
      for (const Tensors& in : operands(dtype)) {
        const auto differentiate = [&](const auto& f) {
          Tensors leaves;
          for (const Tensor& t : in) leaves.push_back(t.defined() ? t.detach().clone().requires_grad_() : t);
          Tensors wanted = leaves;
          if (!wanted.back().defined()) wanted.pop_back();
          const Tensor y = f(leaves[0], leaves[1], leaves[2]);
          const Tensors first = autograd::grad({y.square().sum()}, wanted, {}, {.create_graph = true});
          Tensor sum = zeros({}, {.dtype = dtype});
          for (const Tensor& g : first) sum = sum + g.square().sum();
          Tensors all = autograd::grad({sum}, wanted);
          for (const Tensor& g : first) all.push_back(g.detach());
          all.push_back(y.detach());
          return all;
        };
        const Tensors got = differentiate(op.together),
                      expected = differentiate([&](const auto&... leaves) { return op.activation(linear(leaves...)); });
        for (std::size_t i = 0; i < got.size(); ++i) check_same(got[i], expected[i], op.name);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_relu_is_recorded_with_its_layer_and_a_gelu_by_itself) {
  const Tensor x = numbers({5, 16}), weight = numbers({8, 16}).requires_grad_(), bias = numbers({8});
  BOOST_TEST(name_of(autograd::grad_fn(linear_relu(x, weight, bias))) == "LinearReluBackward");
  BOOST_TEST(name_of(autograd::grad_fn(linear_gelu_tanh(x, weight, bias))) == "Gelu_tanhBackward");
  const NoGrad none;
  for (const Operation& op : kOperations) BOOST_TEST(!op.together(x, weight, bias).requires_grad(), op.name);
}

BOOST_AUTO_TEST_CASE(a_result_that_was_changed_is_an_error_of_backward) {
  Tensor y = linear_relu(numbers({5, 16}), numbers({8, 16}).requires_grad_());
  {
    const NoGrad none;
    y.add_(1);
  }
  BOOST_CHECK_THROW(y.sum().backward(), AutogradError);
}

BOOST_AUTO_TEST_CASE(autocast_lowers_them_as_it_does_linear) {
  const Tensor x = numbers({5, 16}), weight = numbers({8, 16}), bias = numbers({8});
  for (const Operation& op : kOperations) {
    for (const DType dtype : {kFloat16, kBFloat16}) {
      const Tensor expected = op.together(x.to(dtype), weight.to(dtype), bias.to(dtype));
      const autograd::Autocast mixed(dtype);
      check_same(op.together(x, weight, bias), expected, op.name);
    }
  }
}

BOOST_AUTO_TEST_CASE(nan_stays_on_the_cpu) {
  const DefaultDeviceGuard here(kCPU);
  const Tensor x = full({2, 3}, NAN), weight = ones({4, 3});
  for (const Operation& op : kOperations) BOOST_TEST(op.together(x, weight, {}).isnan().all().item<bool>(), op.name);
}

BOOST_AUTO_TEST_CASE(errors_name_the_operation_and_the_operand) {
  for (const Operation& op : kOperations) {
    const auto call = [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
      (void)op.together(x, weight, bias);
    };
    BOOST_CHECK_EXCEPTION(
        call(ones({3}), ones({3, 2}), {}), ShapeError,
        says(op.name + ": expected x of [..., in] and a weight of [out, in] or [in], got [3] and [3, 2]"));
    BOOST_CHECK_EXCEPTION(call(ones({2}), ones({4, 2}), ones({3})), ShapeError,
                          says(op.name + ": the bias has shape [3], expected [4]"));
    BOOST_CHECK_EXCEPTION(call(ones({2}), ones({4, 2}, {.dtype = kFloat64}), {}), DTypeError,
                          says(op.name + ": the weight is float64, expected float32, as x"));
    const Tensor whole = ones({2, 2}, {.dtype = kInt64});
    BOOST_CHECK_EXCEPTION(call(whole, whole, {}), DTypeError,
                          says(op.name + ": x has dtype int64, expected a floating one"));
    BOOST_CHECK_EXCEPTION(call(ones({2}), {}, {}), Error, says(op.name + ": the weight is"));
    BOOST_CHECK_EXCEPTION(call({}, ones({2, 2}), {}), Error, says(op.name + ": x is"));
  }
}

BOOST_AUTO_TEST_SUITE_END()
