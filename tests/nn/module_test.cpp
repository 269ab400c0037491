#include "tendril/nn/module.h"

#include <boost/test/unit_test.hpp>
#include <memory>
#include <sstream>

#include "tendril/autograd/hooks.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/make.h"

BOOST_AUTO_TEST_SUITE(module)

using tendril::DTypeError;
using tendril::Error;
using tendril::Tensor;
using tendril::nn::Module;
using tendril::testing::says;
namespace make = tendril::make;

namespace {

struct Affine : Module {
  Tensor weight, bias, count;

  explicit Affine(int64_t size) {
    weight = make::full({size, size}, 2.0);
    bias = make::ones({size});
    count = make::zeros({}, tendril::kInt64);
    register_parameter("weight", weight);
    register_parameter("bias", bias);
    register_buffer("count", count);
  }
  std::string extra_repr() const override { return "size=" + std::to_string(weight.size(0)); }
};

struct Block : Module {
  Affine first{2};
  Affine second{3};
  Block() {
    register_module("first", first);
    register_module("second", second);
  }
};

struct Net : Module {
  Affine head{1};
  Block block;
  Tensor scale = make::ones({});
  Net() {
    register_module("block", block);
    register_module("head", head);
    register_parameter("scale", scale);
  }
};

/// Opens registration, for what only constructors should do.
struct Open : Module {
  using Module::register_buffer;
  using Module::register_module;
  using Module::register_parameter;
};

template <class Named>
std::string names(const Named& named) {
  std::string joined;
  for (const auto& entry : named) joined += entry.first + " ";
  return joined;
}

}  // namespace

BOOST_AUTO_TEST_CASE(parameters_come_in_the_order_of_registration_own_ones_first) {
  Net net;
  BOOST_TEST(names(net.named_parameters()) ==
             "scale block.first.weight block.first.bias block.second.weight block.second.bias head.weight head.bias ");
  BOOST_TEST(names(net.named_parameters(false)) == "scale ");
  BOOST_TEST(net.parameters().size() == 7u);
  BOOST_TEST(net.parameters()[1].is_same(net.block.first.weight));
  BOOST_TEST(net.num_parameters() == 1 + (4 + 2) + (9 + 3) + (1 + 1));
}

BOOST_AUTO_TEST_CASE(buffers_are_listed_apart_from_parameters) {
  Net net;
  BOOST_TEST(names(net.named_buffers()) == "block.first.count block.second.count head.count ");
  BOOST_TEST(net.buffers(false).empty());
  BOOST_TEST(net.head.buffers()[0].is_same(net.head.count));
}

BOOST_AUTO_TEST_CASE(modules_are_listed_with_their_paths) {
  Net net;
  BOOST_TEST(names(net.named_children()) == "block head ");
  BOOST_TEST((net.children()[1] == &net.head));
  const Module::NamedModules all = net.named_modules();
  BOOST_TEST(names(all) == " block block.first block.second head ");
  BOOST_TEST((all[0].second == &net));
  BOOST_TEST((net.modules()[2] == &net.block.first));
}

BOOST_AUTO_TEST_CASE(a_module_with_two_names_is_listed_once) {
  Affine shared(2);
  Open net;
  net.register_module("encoder", shared);
  net.register_module("decoder", shared);
  BOOST_TEST(names(net.named_children()) == "encoder ");
  BOOST_TEST(names(net.named_parameters()) == "encoder.weight encoder.bias ");
}

BOOST_AUTO_TEST_CASE(assigning_a_parameter_is_seen_and_a_tie_counts_once) {
  Block block;
  block.first.weight = make::zeros({2, 2}).requires_grad_();
  BOOST_TEST(block.parameters()[0].is_same(block.first.weight));
  block.second.weight = block.first.weight;
  BOOST_TEST(names(block.named_parameters()) == "first.weight first.bias second.bias ");
  BOOST_TEST(block.num_parameters() == 4 + 2 + 3);
}

BOOST_AUTO_TEST_CASE(a_parameter_requires_a_gradient_once_registered) {
  Affine affine(2);
  BOOST_TEST(affine.weight.requires_grad());
  BOOST_TEST(!affine.count.requires_grad());
}

BOOST_AUTO_TEST_CASE(train_and_eval_reach_every_module) {
  Net net;
  BOOST_TEST(net.is_training());
  net.eval();
  for (Module* module : net.modules()) BOOST_TEST(!module->is_training());
  net.block.train();
  BOOST_TEST(!net.is_training());
  BOOST_TEST(net.block.second.is_training());
  BOOST_TEST(!net.head.is_training());
}

BOOST_AUTO_TEST_CASE(zero_grad_drops_every_gradient) {
  Net net;
  for (Tensor& p : net.parameters()) p.set_grad(make::ones(p.sizes()));
  net.zero_grad();
  for (const Tensor& p : net.parameters()) BOOST_TEST(!p.grad().defined());
}

BOOST_AUTO_TEST_CASE(requires_grad_freezes_and_thaws) {
  Net net;
  net.block.requires_grad_(false);
  BOOST_TEST(!net.block.first.weight.requires_grad());
  BOOST_TEST(net.head.weight.requires_grad());
  net.requires_grad_();
  BOOST_TEST(net.block.first.weight.requires_grad());
}

BOOST_AUTO_TEST_CASE(frozen_parameters_keep_gradients_and_hooks_through_a_cast) {
  Affine layer(2);
  int calls = 0;
  tendril::autograd::register_hook(layer.weight, [&](const Tensor& g) { return ++calls, g; });
  layer.weight.sum().backward();
  layer.requires_grad_(false);
  layer.to(tendril::kFloat64);
  BOOST_TEST(!layer.weight.requires_grad());
  BOOST_TEST((layer.weight.grad().dtype() == tendril::kFloat64));
  layer.requires_grad_(true);
  layer.weight.sum().backward();
  BOOST_TEST((layer.weight.grad().to_vector<double>() == std::vector<double>(4, 2.0)));
  BOOST_TEST(calls == 2);
}

BOOST_AUTO_TEST_CASE(hooks_on_parameters_stay_through_a_cast) {
  Affine layer(2);
  int calls = 0;
  tendril::autograd::HookHandle handle = tendril::autograd::register_hook(layer.weight, [&](const Tensor& g) {
    ++calls;
    return g * 2;
  });
  layer.to(tendril::kFloat64);
  layer.weight.sum().backward();
  BOOST_TEST(calls == 1);
  BOOST_TEST((layer.weight.grad().to_vector<double>() == std::vector<double>(4, 2.0)));
  handle.remove();
  layer.weight.sum().backward();
  BOOST_TEST(calls == 1);
}

BOOST_AUTO_TEST_CASE(a_cast_keeps_identity_ties_gradients_and_integers) {
  Block block;
  block.second.weight = block.first.weight;
  const Tensor weight = block.first.weight;
  block.first.weight.set_grad(make::full({2, 2}, 0.5));
  block.second.bias.requires_grad_(false);
  BOOST_TEST((&block.to(tendril::kFloat64) == &block));

  BOOST_TEST((weight.dtype() == tendril::kFloat64));
  BOOST_TEST(weight.is_same(block.second.weight));
  BOOST_TEST((weight.to_vector<double>() == std::vector<double>(4, 2.0)));
  BOOST_TEST(weight.requires_grad());
  BOOST_TEST((weight.grad().dtype() == tendril::kFloat64));
  BOOST_TEST((weight.grad().to_vector<double>() == std::vector<double>(4, 0.5)));
  BOOST_TEST(!block.second.bias.requires_grad());
  BOOST_TEST((block.second.bias.dtype() == tendril::kFloat64));
  BOOST_TEST((block.first.count.dtype() == tendril::kInt64));
}

BOOST_AUTO_TEST_CASE(a_recorded_result_is_refused_where_it_would_be_cast_and_only_there) {
  Affine affine(2);
  affine.weight = affine.weight * 2;
  affine.to(tendril::kFloat32);
  BOOST_CHECK_EXCEPTION(affine.to(tendril::kFloat64), tendril::AutogradError, says("Module::to", "Affine", "detach"));
  BOOST_TEST((affine.weight.dtype() == tendril::kFloat32));
}

BOOST_AUTO_TEST_CASE(gradients_flow_after_a_cast) {
  Affine affine(2);
  affine.weight.sum().backward();
  affine.to(tendril::kFloat64);
  affine.weight.sum().backward();
  BOOST_TEST((affine.weight.grad().to_vector<double>() == std::vector<double>(4, 2.0)));
}

BOOST_AUTO_TEST_CASE(a_cast_to_integers_is_refused) {
  Affine affine(2);
  BOOST_CHECK_EXCEPTION(affine.to(tendril::kInt64), DTypeError, says("Module::to", "int64", "floating"));
}

BOOST_AUTO_TEST_CASE(printing_shows_the_tree) {
  Block block;
  std::ostringstream out;
  out << block;
  BOOST_TEST(out.str() == "Block(\n  (first): Affine(size=2)\n  (second): Affine(size=3)\n)");
  BOOST_TEST(Open().to_string() == "Open()");
}

BOOST_AUTO_TEST_CASE(a_module_can_be_made_by_a_function_and_shared) {
  auto make = [] { return Block(); };
  Block block = make();
  BOOST_TEST((block.children()[0] == &block.first));
  BOOST_TEST(std::make_shared<Block>()->parameters().size() == 4u);
  static_assert(!std::is_copy_constructible_v<Block> && !std::is_move_constructible_v<Block>);
}

BOOST_AUTO_TEST_CASE(a_name_is_used_once) {
  Open net;
  Tensor parameter = make::ones({2}), buffer = make::ones({2});
  Affine child(1);
  net.register_parameter("p", parameter);
  net.register_buffer("b", buffer);
  net.register_module("m", child);
  BOOST_CHECK_EXCEPTION(net.register_parameter("p", buffer), Error,
                        says("register_parameter", "'p'", "Open", "parameter"));
  BOOST_CHECK_EXCEPTION(net.register_buffer("p", buffer), Error, says("register_buffer", "'p'", "parameter"));
  BOOST_CHECK_EXCEPTION(net.register_module("b", child), Error, says("register_module", "'b'", "buffer"));
  BOOST_CHECK_EXCEPTION(net.register_parameter("m", buffer), Error, says("register_parameter", "'m'", "module"));
  BOOST_TEST(names(net.named_parameters(false)) + names(net.named_buffers(false)) + names(net.named_children()) ==
             "p b m ");
}

BOOST_AUTO_TEST_CASE(a_name_is_neither_empty_nor_a_path) {
  Open net;
  Tensor tensor = make::ones({2});
  Affine child(1);
  BOOST_CHECK_EXCEPTION(net.register_parameter("", tensor), Error, says("register_parameter", "empty"));
  BOOST_CHECK_EXCEPTION(net.register_buffer("a.b", tensor), Error, says("register_buffer", "'a.b'", "dot"));
  BOOST_CHECK_EXCEPTION(net.register_module("a.", child), Error, says("register_module", "'a.'", "dot"));
}

BOOST_AUTO_TEST_CASE(a_tensor_that_cannot_be_trained_is_no_parameter) {
  Open net;
  Tensor undefined, integers = make::zeros({2}, tendril::kInt64);
  Tensor leaf = make::ones({2}).requires_grad_();
  Tensor computed = leaf.mul(2.0);
  BOOST_CHECK_EXCEPTION(net.register_parameter("w", undefined), Error, says("'w'", "undefined"));
  BOOST_CHECK_EXCEPTION(net.register_parameter("w", integers), DTypeError, says("'w'", "int64", "floating"));
  BOOST_CHECK_EXCEPTION(net.register_parameter("w", computed), Error, says("'w'", "leaf"));
  BOOST_CHECK_EXCEPTION(net.register_buffer("w", undefined), Error, says("'w'", "undefined"));
  BOOST_CHECK_EXCEPTION(net.register_buffer("w", leaf), Error, says("'w'", "requires a gradient"));
  BOOST_TEST(net.named_parameters().empty());
}

BOOST_AUTO_TEST_CASE(a_module_is_not_below_itself) {
  Open outer, inner;
  outer.register_module("inner", inner);
  BOOST_CHECK_EXCEPTION(outer.register_module("self", outer), Error, says("register_module", "'self'", "itself"));
  BOOST_CHECK_EXCEPTION(inner.register_module("back", outer), Error, says("register_module", "'back'", "holds it"));
}

BOOST_AUTO_TEST_SUITE_END()
