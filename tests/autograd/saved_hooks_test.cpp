#include "tendril/autograd/saved_hooks.h"

#include "tendril/autograd/backward.h"
#include "tendril/autograd/function.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/gradcheck.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/conv.h"
#include "tendril/autograd/ops/einsum.h"
#include "tendril/autograd/ops/indexing.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/pool.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/leaves.h"
#include "tests/autograd/raises.h"

BOOST_AUTO_TEST_SUITE(saved_hooks)

using namespace tendril;
using autograd::SavedTensorHooks;
using testing::leaf;
using testing::Values;
using testing::values;

namespace {

std::any as_it_is(const Tensor& x) { return x; }
Tensor back(const std::any& kept) { return std::any_cast<Tensor>(kept); }

/// Keeps x and its own result.
struct Product : autograd::Function<Product> {
  static Tensor forward(autograd::FunctionContext& ctx, const Tensor& x) {
    Tensor y = x * x;
    ctx.save_for_backward({x, y});
    return y;
  }
  static std::vector<Tensor> backward(autograd::FunctionContext& ctx, const std::vector<Tensor>& grads) {
    const auto saved = ctx.saved_tensors();
    return {grads[0] * saved[0] * 2 + saved[1] * 0};
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_saved_goes_through_them_and_only_while_they_live) {
  const Tensor x = leaf({1, 2});
  int packed = 0, unpacked = 0;
  Tensor y;
  {
    const SavedTensorHooks hooks(
        [&](const Tensor& kept) {
          BOOST_TEST(!kept.requires_grad());
          BOOST_TEST(!autograd::grad_enabled());
          ++packed;
          return std::any(values(kept));
        },
        [&](const std::any& kept) {
          ++unpacked;
          return tensor(0., {.dtype = kFloat64}).expand({2}) + from_vector(std::any_cast<Values>(kept), {2});
        });
    y = x.exp() * x;  // the result of the first, both operands of the second
  }
  const Tensor z = y * y;
  BOOST_TEST(packed == 3);
  z.sum().backward();
  BOOST_TEST(unpacked == 3);
  const Tensor twin = leaf({1, 2});
  (twin.exp() * twin).square().sum().backward();
  BOOST_TEST(values(x.grad()) == values(twin.grad()), boost::test_tools::per_element());
  CHECK_RAISES(AutogradError, "second time", y.sum().backward());
}

BOOST_AUTO_TEST_CASE(errors_of_a_hook_keep_their_text) {
  const std::pair<const char*, std::function<void()>> operations[] = {
      {"conv1d",
       [] {
         (void)conv1d(leaf({1, 2, 3}).view({1, 1, 3}), leaf({1, 2}).view({1, 1, 2}));
       }},
      {"max_pool1d",
       [] {
         (void)max_pool1d(leaf({1, 2, 3, 4}).view({1, 4}), 2);
       }},
      {"adaptive_max_pool1d",
       [] {
         (void)adaptive_max_pool1d(leaf({1, 2, 3, 4}).view({1, 4}), 2);
       }},
      {"einsum",
       [] {
         (void)einsum("ij,jk->ik", {leaf({1, 2}).view({1, 2}), leaf({1, 2}).view({2, 1})});
       }},
      {"take_along_dim",
       [] {
         (void)take_along_dim(leaf({1, 2}), tensor({0}), 0);
       }},
  };
  for (const auto& [name, operation] : operations) {
    BOOST_TEST_CONTEXT(name) {
      const SavedTensorHooks hooks([](const Tensor&) -> std::any { throw ShapeError("my_hook: no room: for it"); },
                                   back);
      BOOST_CHECK_EXCEPTION(operation(), ShapeError, [](const ShapeError& error) {
        return std::string(error.what()) == "my_hook: no room: for it";
      });
    }
  }
  // The operations' own errors name the function that was called.
  CHECK_RAISES(ShapeError, "conv1d: a kernel of", conv1d(ones({1, 1, 2}), ones({1, 1, 3})));
  CHECK_RAISES(ShapeError, "max_pool1d: a window of", max_pool1d(ones({1, 2}), 3));
  CHECK_RAISES(IndexError, "take_along_dim: ", take_along_dim(ones({2}), tensor({5}), 0).sum().item<float>());
}

BOOST_AUTO_TEST_CASE(second_derivatives_are_those_without_them) {
  const auto f = [](const std::vector<Tensor>& in) {
    const SavedTensorHooks hooks([](const Tensor& x) { return std::any(x.clone()); }, back);
    return std::vector<Tensor>{(in[0] * in[1]).tanh() * in[0].exp(), Product::apply(in[0] * in[1])};
  };
  const std::vector<Tensor> at{leaf({0.5, -1}), leaf({2, 0.3})};
  const auto first = autograd::gradcheck(f, at), second = autograd::gradgradcheck(f, at);
  BOOST_TEST(first.ok, first.message);
  BOOST_TEST(second.ok, second.message);
}

BOOST_AUTO_TEST_CASE(the_innermost_counts) {
  std::string order;
  const auto pack = [&order](char name) {
    return [&order, name](const Tensor& x) {
      order += name;
      return std::any(x);
    };
  };
  const Tensor x = leaf({1});
  const SavedTensorHooks outer(pack('o'), back);
  const Tensor a = x.exp();
  {
    const SavedTensorHooks inner(pack('i'), back);
    (void)a.exp();
  }
  (void)a.exp();
  BOOST_TEST(order == "oio");
}

BOOST_AUTO_TEST_CASE(a_tensor_that_is_handed_through_is_still_checked) {
  const Tensor x = leaf({1, 2});
  Tensor y = x * 1;
  Tensor z;
  {
    const SavedTensorHooks hooks(as_it_is, back);
    z = y.sin();
  }
  y.add_(1);
  CHECK_RAISES(AutogradError, "is at version 1; expected version 0", z.sum().backward());
}

BOOST_AUTO_TEST_CASE(what_a_hook_does_wrong_is_named) {
  const Tensor x = leaf({1, 2});
  const auto saved_by = [&](SavedTensorHooks::Pack pack, SavedTensorHooks::Unpack unpack) {
    const SavedTensorHooks hooks(std::move(pack), std::move(unpack));
    return x.sin().sum();
  };
  CHECK_RAISES(AutogradError, "pack is empty", saved_by({}, back));
  CHECK_RAISES(AutogradError, "unpack is empty", saved_by(as_it_is, {}));
  const auto write = [](const Tensor& kept) { return std::any(Tensor(kept).add_(1)); };
  CHECK_RAISES(AutogradError, "changed in place the tensor", saved_by(write, back));
  const Tensor larger = saved_by(as_it_is, [](const std::any&) { return zeros({3}, {.dtype = kFloat64}); });
  CHECK_RAISES(AutogradError, "unpacked float64 [3]", larger.backward());
  const Tensor nothing = saved_by(as_it_is, [](const std::any&) { return Tensor(); });
  CHECK_RAISES(AutogradError, "undefined tensor for SinBackward", nothing.backward());
  const Tensor thrower = saved_by(as_it_is, [](const std::any&) -> Tensor { throw std::runtime_error("lost"); });
  CHECK_RAISES(std::runtime_error, "lost", thrower.backward());
}

BOOST_AUTO_TEST_CASE(save_on_cpu_keeps_nothing_on_the_device) {
  const Tensor x = leaf({0.5, 2}), twin = leaf({0.5, 2});
  Tensor y;
  {
    const autograd::SaveOnCpu offload;
    y = (x.exp() * x).tanh();
  }
  y.sum().backward();
  (twin.exp() * twin).tanh().sum().backward();
  BOOST_TEST(x.grad().device() == x.device());
  BOOST_TEST(values(x.grad()) == values(twin.grad()), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
