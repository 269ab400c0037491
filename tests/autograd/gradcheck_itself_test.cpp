// Does the check itself find what it is there to find?
#include "tendril/autograd/gradcheck.h"

#include "tendril/autograd/function.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/raises.h"

BOOST_AUTO_TEST_SUITE(gradcheck_itself)

using namespace tendril;
using autograd::FunctionContext;
using autograd::gradcheck;
using autograd::gradgradcheck;

namespace {

using Tensors = std::vector<Tensor>;

Tensor leaf() { return tensor({0.5, -1.5, 2.}, {.dtype = kFloat64, .requires_grad = true}); }

/// x^2 whose derivative is off by a factor in one element.
struct WrongAtOne : autograd::Function<WrongAtOne> {
  static Tensor forward(FunctionContext& ctx, const Tensor& x) {
    ctx.save_for_backward({x});
    return x * x;
  }
  static Tensors backward(FunctionContext& ctx, const Tensors& grads) {
    return {grads[0] * ctx.saved_tensors()[0] * tensor({2., 2., 2.01}, {.dtype = kFloat64})};
  }
};

/// Right, but its backward is cut off from the graph.
struct NotTwice : autograd::Function<NotTwice> {
  static Tensor forward(FunctionContext& ctx, const Tensor& x) {
    ctx.save_for_backward({x});
    return x * x;
  }
  static Tensors backward(FunctionContext& ctx, const Tensors& grads) {
    return {grads[0] * ctx.saved_tensors()[0].detach() * 2};
  }
};

/// Adds a constant to the gradient, which shows where the gradient is zero.
struct Affine : autograd::Function<Affine> {
  static Tensor forward(FunctionContext&, const Tensor& x) { return x * 1; }
  static Tensors backward(FunctionContext&, const Tensors& grads) { return {grads[0] + 1e-7}; }
};

/// Reads the gradient as if it were contiguous.
struct AssumesContiguous : autograd::Function<AssumesContiguous> {
  static Tensor forward(FunctionContext&, const Tensor& x) { return x * 1; }
  static Tensors backward(FunctionContext&, const Tensors& grads) {
    return {grads[0].is_contiguous() ? grads[0] * 1 : grads[0] * 1.1};
  }
};

int calls = 0;
struct Unsteady : autograd::Function<Unsteady> {
  static Tensor forward(FunctionContext&, const Tensor& x) { return x * 1; }
  static Tensors backward(FunctionContext&, const Tensors& grads) { return {grads[0] * (1 + 1e-8 * ++calls)}; }
};

template <class F>
autograd::DifferentiableFunction calling() {
  return [](const Tensors& x) { return Tensors{F::apply(x[0])}; };
}

void check_message(const autograd::GradcheckResult& result, const std::string& text) {
  BOOST_TEST(!result.ok);
  BOOST_TEST(result.message.find(text) != std::string::npos, result.message);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_wrong_element_is_named_with_both_values) {
  check_message(gradcheck(calling<WrongAtOne>(), {leaf()}),
                "the derivative of output 0, element 2, by input 0, element 2: backward says 4.02, differences say 4");
}

BOOST_AUTO_TEST_CASE(a_backward_that_cannot_be_differentiated_fails_the_second_check_only) {
  BOOST_TEST(gradcheck(calling<NotTwice>(), {leaf()}).ok);
  check_message(gradgradcheck(calling<NotTwice>(), {leaf()}), "second derivative: ");
}

BOOST_AUTO_TEST_CASE(a_gradient_that_is_not_zero_for_zero_fails) {
  check_message(gradcheck(calling<Affine>(), {leaf()}), "a zero gradient");
}

BOOST_AUTO_TEST_CASE(a_backward_that_depends_on_the_layout_fails) {
  const Tensor x = ones({2, 3}, {.dtype = kFloat64, .requires_grad = true});
  check_message(gradcheck(calling<AssumesContiguous>(), {x}), "a transposed gradient");
  check_message(gradcheck(calling<AssumesContiguous>(), {leaf()}), "a broadcast gradient");
}

BOOST_AUTO_TEST_CASE(two_runs_that_differ_fail_unless_that_is_allowed) {
  check_message(gradcheck(calling<Unsteady>(), {leaf()}), "a second run");
  BOOST_TEST(gradcheck([](const Tensors& x) { return Tensors{x[0] * 2}; }, {leaf()}, {.nondeterminism = 1e-6}).ok);
}

BOOST_AUTO_TEST_CASE(a_result_cut_off_from_the_graph_fails) {
  check_message(gradcheck([](const Tensors& x) { return Tensors{x[0].detach() * 2}; }, {leaf()}),
                "backward says 0, differences say 2");
}

BOOST_AUTO_TEST_CASE(right_derivatives_pass_whatever_the_number_of_inputs_and_outputs) {
  const auto f = [](const Tensors& x) { return Tensors{x[0] * x[1], (x[0] + 3).log(), x[0].gt(0)}; };
  BOOST_TEST(gradcheck(f, {leaf(), leaf()}).message == "");
  BOOST_TEST(gradgradcheck(f, {leaf(), leaf()}).message == "");
  const Tensor constant = tensor({1., 2., 3.}, {.dtype = kFloat64});
  BOOST_TEST(gradcheck(f, {leaf(), constant}).message == "");
}

BOOST_AUTO_TEST_CASE(the_inputs_come_back_unchanged_and_without_gradients) {
  const Tensor x = leaf();
  gradcheck(calling<WrongAtOne>(), {x});
  BOOST_TEST(x.to_vector<double>() == std::vector<double>({0.5, -1.5, 2}));
  BOOST_TEST(!x.grad().defined());
}

BOOST_AUTO_TEST_CASE(what_cannot_be_checked_is_refused) {
  CHECK_RAISES(DTypeError, "input 0 is float32; differences need float64",
               gradcheck(calling<NotTwice>(), {ones({2}, {.requires_grad = true})}));
  CHECK_RAISES(Error, "no input requires a gradient", gradcheck(calling<NotTwice>(), {ones({2})}));
}

BOOST_AUTO_TEST_SUITE_END()
