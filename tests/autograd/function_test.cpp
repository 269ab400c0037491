#include "tendril/autograd/function.h"

#include "tendril/autograd/backward.h"
#include "tendril/autograd/gradcheck.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/raises.h"

BOOST_AUTO_TEST_SUITE(function)

using namespace tendril;
using autograd::FunctionContext;

namespace {

using Tensors = std::vector<Tensor>;

struct Cube : autograd::Function<Cube> {
  static Tensor forward(FunctionContext& ctx, const Tensor& x) {
    ctx.save_for_backward({x});
    return x * x * x;
  }
  static Tensors backward(FunctionContext& ctx, const Tensors& grads) {
    const Tensor x = ctx.saved_tensors()[0];
    return {grads[0] * x * x * 3};
  }
};

/// Saves its output, takes a number, and keeps another in its own context.
struct ScaledExp : autograd::Function<ScaledExp> {
  static constexpr const char* kName = "ScaledExp";
  struct Context : FunctionContext {
    double scale = 0;
  };
  static Tensor forward(Context& ctx, const Tensor& x, double scale) {
    ctx.scale = scale;
    Tensor y = (x * scale).exp();
    ctx.save_for_backward({y});
    return y;
  }
  static Tensors backward(Context& ctx, const Tensors& grads) {
    return {grads[0] * ctx.saved_tensors()[0] * ctx.scale, {}};
  }
};

struct SumAndDifference : autograd::Function<SumAndDifference> {
  static Tensors forward(FunctionContext&, const Tensor& x, const Tensor& y) { return {x + y, x - y}; }
  static Tensors backward(FunctionContext& ctx, const Tensors& grads) {
    return {ctx.needs_input_grad(0) ? grads[0] + grads[1] : Tensor(),
            ctx.needs_input_grad(1) ? grads[0] - grads[1] : Tensor()};
  }
};

struct WithMask : autograd::Function<WithMask> {
  static Tensors forward(FunctionContext& ctx, const Tensor& x) {
    const Tensor sign = x.sign();
    ctx.mark_non_differentiable(sign);
    ctx.save_for_backward({sign});
    return {x * sign, sign};
  }
  static Tensors backward(FunctionContext& ctx, const Tensors& grads) { return {grads[0] * ctx.saved_tensors()[0]}; }
};

struct Identity : autograd::Function<Identity> {
  static Tensor forward(FunctionContext&, const Tensor& x) { return x; }
  static Tensors backward(FunctionContext&, const Tensors& grads) { return {grads[0] * 2}; }
};

/// e^x, in place, and its square.
struct ExpInPlace : autograd::Function<ExpInPlace> {
  static Tensors forward(FunctionContext& ctx, const Tensor& x) {
    const Tensor target = x;  // NOLINT(performance-unnecessary-copy-initialization): another handle of the same tensor
    ctx.mark_dirty({target});
    target.copy_(target.exp());
    ctx.save_for_backward({target});
    return {target, target * target};
  }
  static Tensors backward(FunctionContext& ctx, const Tensors& grads) {
    const Tensor y = ctx.saved_tensors()[0];
    return {(grads[0] + grads[1] * y * 2) * y};
  }
};

/// Marks what it does not return.
struct Forgets : autograd::Function<Forgets> {
  static Tensor forward(FunctionContext& ctx, const Tensor& x) {
    ctx.mark_dirty({x});
    return x * 1;
  }
  static Tensors backward(FunctionContext&, const Tensors& grads) { return grads; }
};

struct TooFew : autograd::Function<TooFew> {
  static Tensor forward(FunctionContext&, const Tensor& x, const Tensor&) { return x * 1; }
  static Tensors backward(FunctionContext&, const Tensors& grads) { return {grads[0]}; }
};

struct WrongShape : autograd::Function<WrongShape> {
  static constexpr const char* kName = "WrongShape";
  static Tensor forward(FunctionContext&, const Tensor& x) { return x.sum(); }
  static Tensors backward(FunctionContext&, const Tensors&) { return {ones({7}, {.dtype = kFloat64})}; }
};

Tensor leaf() { return tensor({0.5, -1.5, 2.}, {.dtype = kFloat64, .requires_grad = true}); }

}  // namespace

BOOST_AUTO_TEST_CASE(user_functions_pass_both_gradient_checks) {
  const auto check = [](const autograd::DifferentiableFunction& f, const Tensors& inputs) {
    const auto first = autograd::gradcheck(f, inputs);
    BOOST_TEST(first.ok, first.message);
    const auto second = autograd::gradgradcheck(f, inputs);
    BOOST_TEST(second.ok, second.message);
  };
  check([](const Tensors& x) { return Tensors{Cube::apply(x[0])}; }, {leaf()});
  check([](const Tensors& x) { return Tensors{ScaledExp::apply(x[0], 0.7)}; }, {leaf()});
  check([](const Tensors& x) { return SumAndDifference::apply(x[0], x[1]); }, {leaf(), leaf()});
  check([](const Tensors& x) { return WithMask::apply(x[0]); }, {leaf()});
}

BOOST_AUTO_TEST_CASE(nothing_is_recorded_without_need) {
  const Tensor plain = tensor({1., 2.});
  BOOST_TEST(!Cube::apply(plain).requires_grad());
  const NoGrad no_grad;
  BOOST_TEST(!Cube::apply(leaf()).requires_grad());
}

BOOST_AUTO_TEST_CASE(outputs_marked_so_have_no_gradient) {
  const auto outputs = WithMask::apply(leaf());
  BOOST_TEST(outputs[0].requires_grad());
  BOOST_TEST(!outputs[1].requires_grad());
}

BOOST_AUTO_TEST_CASE(an_input_handed_through_has_a_history_of_its_own) {
  const Tensor x = leaf();
  const Tensor y = Identity::apply(x);
  BOOST_TEST(x.is_leaf());
  y.sum().backward();
  BOOST_TEST(x.grad().to_vector<double>() == std::vector<double>(3, 2));
}

BOOST_AUTO_TEST_CASE(an_input_changed_in_place_is_the_result) {
  const auto check = [](const autograd::DifferentiableFunction& f) {
    const auto first = autograd::gradcheck(f, {leaf()}), second = autograd::gradgradcheck(f, {leaf()});
    BOOST_TEST(first.ok, first.message);
    BOOST_TEST(second.ok, second.message);
  };
  check([](const Tensors& x) { return ExpInPlace::apply(x[0] * 1); });
  check([](const Tensors& x) {  // through a view: the base and its other views follow
    const Tensor base = x[0] * 1;
    const Tensor part = base.slice(0, 1), other = base.slice(0, 0, 2);
    const auto outputs = ExpInPlace::apply(part);
    return Tensors{base, other * 1, part * part, outputs[1]};
  });
  const Tensor x = leaf() * 1;
  const Tensor before = x.sin();
  const auto outputs = ExpInPlace::apply(x);
  BOOST_TEST(outputs[0].is_same(x));
  BOOST_TEST(autograd::grad_fn(x) == autograd::grad_fn(outputs[1]));
  CHECK_RAISES(AutogradError, "modified by an inplace operation", before.sum().backward());
  const Tensor plain = tensor({1., 2.});
  BOOST_TEST(ExpInPlace::apply(plain)[0].is_same(plain));
}

BOOST_AUTO_TEST_CASE(what_must_not_be_changed_in_place_is_refused_before_it_is) {
  const Tensor x = leaf();
  CHECK_RAISES(AutogradError, "a leaf Variable that requires grad", ExpInPlace::apply(x));
  CHECK_RAISES(AutogradError, "a view of a leaf Variable", ExpInPlace::apply(x.slice(0, 1)));
  BOOST_TEST(x.to_vector<double>() == leaf().to_vector<double>());
  CHECK_RAISES(AutogradError, "marked as dirty is not among the outputs", Forgets::apply(x * 1));
}

BOOST_AUTO_TEST_CASE(saved_tensors_are_watched_and_freed) {
  const Tensor x = leaf();
  Tensor y = x * 1;
  const Tensor z = Cube::apply(y);
  y.add_(1);
  CHECK_RAISES(AutogradError, "modified by an inplace operation", z.sum().backward());
  const Tensor w = Cube::apply(x).sum();
  w.backward();
  CHECK_RAISES(AutogradError, "Trying to backward through the graph a second time", w.backward());
}

BOOST_AUTO_TEST_CASE(its_name_is_its_own_or_its_types) {
  BOOST_TEST(autograd::grad_fn(ScaledExp::apply(leaf(), 1.0))->name() == std::string("ScaledExp"));
  const std::string name = autograd::grad_fn(Cube::apply(leaf()))->name();
  BOOST_TEST(name.find("CubeBackward") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(wrong_results_of_backward_are_refused) {
  CHECK_RAISES(AutogradError, "returned an incorrect number of gradients (expected 2, got 1)",
               TooFew::apply(leaf(), leaf()).sum().backward());
  CHECK_RAISES(AutogradError,
               "Function WrongShape returned an invalid gradient at index 0 - got [7] but expected shape compatible "
               "with [3]",
               WrongShape::apply(leaf()).backward());
}

BOOST_AUTO_TEST_SUITE_END()
