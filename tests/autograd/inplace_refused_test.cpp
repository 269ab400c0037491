// What an in-place operation must not change, and what must fit: each says why.
#include "tendril/autograd/backward.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/inplace_cases.h"
#include "tests/autograd/raises.h"
#include "tests/golden.h"

BOOST_AUTO_TEST_SUITE(inplace_refused)

using namespace tendril;
using namespace inplace_cases;

BOOST_AUTO_TEST_CASE(a_leaf_that_requires_a_gradient_is_not_changed) {
  for (const Change& change : changes()) {
    Tensor x = leaf();
    BOOST_TEST_CONTEXT(change.name) {
      CHECK_RAISES(AutogradError, "a leaf Variable that requires grad is being used in an in-place operation.",
                   change.in_place(x, other_leaf()));
      BOOST_TEST(x.version() == 0);
      BOOST_TEST(testing::difference(x, leaf(), 0) == "");
    }
  }
}

BOOST_AUTO_TEST_CASE(nor_is_a_view_of_one) {
  for (const Part& part : parts()) {
    for (const Change& change : changes()) {
      const Tensor x = leaf();
      Tensor view = part.see(x);
      BOOST_TEST_CONTEXT(change.name << " on " << part.name) {
        CHECK_RAISES(AutogradError,
                     "a view of a leaf Variable that requires grad is being used in an in-place operation.",
                     change.in_place(view, part.see(other_leaf())));
        BOOST_TEST(x.version() == 0);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(under_no_grad_leaves_may_be_changed) {
  for (const Change& change : changes()) {
    Tensor x = leaf();
    const NoGrad no_grad;
    change.in_place(x, other_leaf());
    BOOST_TEST(x.version() == 1);
    BOOST_TEST(x.is_leaf());
    BOOST_TEST(x.requires_grad());
    BOOST_TEST(testing::difference(x, change.out_of_place(leaf(), other_leaf()), 1e-15) == "");
    Tensor row = x[0];
    row.zero_();
  }
}

BOOST_AUTO_TEST_CASE(one_of_several_views_is_not_changed) {
  const Tensor w = other_leaf();
  for (const Change& change : changes()) {
    const Tensor x = leaf() * 2;
    Tensor part = x.unbind()[1];
    CHECK_RAISES(AutogradError,
                 "Output 1 of UnbindBackward is a view and is being modified inplace. This view is the output of a "
                 "function that returns multiple views. Such functions do not allow the output views to be modified "
                 "inplace. You should replace the inplace operation by an out-of-place one.",
                 change.in_place(part, w[0]));
    Tensor half = x.split(1)[0];
    CHECK_RAISES(AutogradError, "Output 0 of SplitBackward is a view", change.in_place(half, w.slice(0, 0, 1)));
    Tensor inner = x.chunk(2)[1][0];
    CHECK_RAISES(AutogradError, "returns multiple views", change.in_place(inner, w[0]));
    BOOST_TEST(x.version() == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_view_made_without_recording_is_not_changed_while_recording) {
  const Tensor x = leaf() * 2;
  Tensor view;
  {
    const NoGrad no_grad;
    view = x[0];
    view.add_(1);
  }
  CHECK_RAISES(AutogradError,
               "A view was created in no_grad mode and is being modified inplace with grad mode enabled.",
               view.mul_(other_leaf()[0]));
}

BOOST_AUTO_TEST_CASE(an_expanded_tensor_is_not_written_to) {
  Tensor wide = ones({1, 3}).expand({2, 3});
  CHECK_RAISES(Error, "more than one element of the written-to tensor refers to a single memory location",
               wide.add_(1));
  CHECK_RAISES(Error, "Please clone() the tensor", wide.zero_());
}

BOOST_AUTO_TEST_CASE(shapes_and_dtypes_must_fit_the_target) {
  Tensor x = ones({3});
  CHECK_RAISES(ShapeError, "output with shape [3] doesn't match the broadcast shape [2, 3]", x.add_(ones({2, 3})));
  CHECK_RAISES(ShapeError, "output with shape [3] doesn't match the broadcast shape [2, 3]",
               x.requires_grad_().clone().mul_(ones({2, 3})));
  Tensor n = arange(3);
  CHECK_RAISES(DTypeError, "result type float32 can't be cast to the desired output type int64", n.add_(ones({3})));
  CHECK_RAISES(DTypeError, "int64", n.mul_(tensor({1.5, 2., 3.}, {.requires_grad = true})));
  BOOST_TEST(n.version() == 0);
}

BOOST_AUTO_TEST_SUITE_END()
