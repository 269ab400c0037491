#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/hooks.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/raises.h"

BOOST_AUTO_TEST_SUITE(leaves)

using namespace tendril;

namespace {
using Values = std::vector<float>;
Values values(const Tensor& x) { return x.to_vector<float>(); }
Tensor leaf() { return tensor({1., 2.}, {.requires_grad = true}); }
}  // namespace

BOOST_AUTO_TEST_CASE(a_tensor_that_the_user_made_is_a_leaf) {
  const Tensor x = leaf();
  BOOST_TEST(x.is_leaf());
  BOOST_TEST(x.requires_grad());
  BOOST_TEST(!x.grad().defined());
  const Tensor y = x * 2;
  BOOST_TEST(!y.is_leaf());
  BOOST_TEST(y.requires_grad());
  const Tensor constant = ones({2});
  BOOST_TEST(constant.is_leaf());
  BOOST_TEST(!constant.requires_grad());
  BOOST_TEST((constant * 2).is_leaf());
}

BOOST_AUTO_TEST_CASE(only_floating_leaves_can_require_a_gradient) {
  Tensor n = arange(3);
  CHECK_RAISES(DTypeError, "only Tensors of floating point dtype can require gradients", n.requires_grad_());
  Tensor y = leaf() * 2;
  CHECK_RAISES(AutogradError, "you can only change requires_grad flags of leaf variables", y.requires_grad_(false));
  BOOST_TEST(y.requires_grad_(true).requires_grad());
}

BOOST_AUTO_TEST_CASE(a_frozen_leaf_gets_no_gradient) {
  Tensor x = leaf();
  const Tensor w = leaf();
  x.requires_grad_(false);
  (x * w).sum().backward();
  BOOST_TEST(!x.grad().defined());
  BOOST_TEST(values(w.grad()) == Values({1, 2}));
}

BOOST_AUTO_TEST_CASE(a_frozen_leaf_keeps_its_gradient_and_its_hooks) {
  const Tensor x = leaf();
  int calls = 0;
  autograd::register_hook(x, [&](const Tensor& g) { return ++calls, g * 2; });
  const Tensor before = (x * 3).sum();
  (x * 2).sum().backward();
  x.requires_grad_(false);
  BOOST_TEST(!x.requires_grad());
  BOOST_TEST(values(x.grad()) == Values({4, 4}));
  before.backward();  // recorded when it still required one
  BOOST_TEST(values(x.grad()) == Values({4, 4}));
  BOOST_TEST(calls == 2);
  x.requires_grad_();
  (x * 2).sum().backward();
  BOOST_TEST(values(x.grad()) == Values({8, 8}));
  BOOST_TEST(calls == 3);
}

BOOST_AUTO_TEST_CASE(the_gradient_of_a_frozen_leaf_can_be_changed) {
  const Tensor x = leaf();
  x.sum().backward();
  x.requires_grad_(false);
  x.set_grad(tensor({5., 6.}));
  BOOST_TEST(values(x.grad()) == Values({5, 6}));
  x.detach_();
  BOOST_TEST(values(x.grad()) == Values({5, 6}));
  x.zero_grad();
  BOOST_TEST(!x.grad().defined());
  x.requires_grad_();
  x.sum().backward();
  x.detach_();
  BOOST_TEST(!x.requires_grad());
  BOOST_TEST(values(x.grad()) == Values({1, 1}));
}

BOOST_AUTO_TEST_CASE(a_frozen_leaf_that_a_recorded_change_makes_a_result_keeps_no_gradient) {
  const Tensor x = leaf(), w = leaf();
  x.sum().backward();
  x.detach_();
  x.mul_(w);
  BOOST_TEST(!x.is_leaf());
  BOOST_TEST(!x.grad().defined());
  x.detach_();
  x.requires_grad_();
  x.sum().backward();
  BOOST_TEST(values(x.grad()) == Values({1, 1}));
}

BOOST_AUTO_TEST_CASE(detach_shares_elements_and_versions_but_no_history) {
  const Tensor x = leaf();
  Tensor y = x * 2, d = y.detach();
  BOOST_TEST(!d.requires_grad());
  BOOST_TEST(d.is_leaf());
  d.add_(1);
  BOOST_TEST(values(y) == Values({3, 5}));
  BOOST_TEST(y.version() == 1);
  BOOST_TEST(y.requires_grad());
}

BOOST_AUTO_TEST_CASE(detach_in_place_makes_a_leaf) {
  const Tensor x = leaf();
  Tensor y = x * 2;
  y.detach_();
  BOOST_TEST(y.is_leaf());
  BOOST_TEST(!y.requires_grad());
  Tensor base = x * 2, view = base[0];
  CHECK_RAISES(AutogradError, "Can't detach views in-place. Use detach() instead.", view.detach_());
}

BOOST_AUTO_TEST_CASE(an_assigned_gradient_must_fit) {
  Tensor x = leaf();
  x.set_grad(tensor({5., 6.}));
  (x * 2).sum().backward();
  BOOST_TEST(values(x.grad()) == Values({7, 8}));
  CHECK_RAISES(ShapeError, "assigned grad has data of a different size", x.set_grad(ones({3})));
  CHECK_RAISES(DTypeError, "assigned grad has data of a different type", x.set_grad(ones({2}, {.dtype = kFloat64})));
  CHECK_RAISES(AutogradError, "can't assign Variable as its own grad", x.set_grad(x));
  x.set_grad({});
  BOOST_TEST(!x.grad().defined());
  Tensor y = x * 2;
  CHECK_RAISES(AutogradError, "only a leaf that requires a gradient", y.set_grad(ones({2})));
}

BOOST_AUTO_TEST_CASE(zero_grad_drops_the_gradient) {
  Tensor x = leaf();
  (x * 2).sum().backward();
  x.zero_grad();
  BOOST_TEST(!x.grad().defined());
}

BOOST_AUTO_TEST_CASE(an_intermediate_result_keeps_its_gradient_when_asked) {
  const Tensor x = leaf();
  Tensor y = x * 2;
  BOOST_TEST(!y.grad().defined());
  y.retain_grad();
  (y * y).sum().backward();
  BOOST_TEST(values(y.grad()) == Values({4, 8}));
  BOOST_TEST(values(x.grad()) == Values({8, 16}));
  Tensor constant = ones({2});
  CHECK_RAISES(AutogradError, "can't retain_grad on Tensor that has requires_grad=False", constant.retain_grad());
}

BOOST_AUTO_TEST_CASE(a_view_retains_its_gradient_also_after_its_base_was_changed) {
  const Tensor x = tensor({1., 2., 3., 4.}, {.requires_grad = true});
  Tensor y = x * 2;
  Tensor part = y.slice(0, 0, 2), half = y.split(2)[1];
  part.retain_grad();
  half.retain_grad();
  y.mul_(3);
  part.mul_(5);
  (part.sum() + (half * 7).sum()).backward();
  BOOST_TEST(values(part.grad()) == (Values{1, 1}), boost::test_tools::per_element());
  BOOST_TEST(values(half.grad()) == (Values{7, 7}), boost::test_tools::per_element());
  BOOST_TEST(values(x.grad()) == (Values{30, 30, 42, 42}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_retained_gradient_follows_in_place_changes) {
  const Tensor x = leaf();
  Tensor y = x * 2;
  y.retain_grad();
  y.add_(1);
  (y * 3).sum().backward();
  BOOST_TEST(values(y.grad()) == Values({3, 3}));
}

BOOST_AUTO_TEST_CASE(a_view_of_a_plain_tensor_may_become_a_leaf) {
  const Tensor base = ones({2, 2});
  Tensor row = base[0];
  row.requires_grad_();
  (row * 3).sum().backward();
  BOOST_TEST(values(row.grad()) == Values({3, 3}));
  BOOST_TEST(!base.requires_grad());
}

BOOST_AUTO_TEST_CASE(gradients_add_up_beside_an_expanded_one_that_was_given) {
  const Tensor x = leaf(), given = ones({1}).expand({2});
  x.set_grad(given);
  (x * tensor({1.f, 2.f})).sum().backward();
  BOOST_TEST(values(x.grad()) == Values({2, 3}));
  BOOST_TEST(values(given) == Values({1, 1}));
}

BOOST_AUTO_TEST_SUITE_END()
