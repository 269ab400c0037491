// What only mutants showed to be untested: each case was written for a wrong line that no other test minded.
#include <boost/test/unit_test.hpp>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/ops/embedding.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/batch_norm.h"
#include "tendril/nn/module.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/tensor/creation.h"
#include "tests/make.h"

BOOST_AUTO_TEST_SUITE(survivors)

using namespace tendril;

namespace {

struct Leaf : nn::Module {
  explicit Leaf(const Tensor& x) : buffer(x) { register_buffer("buffer", buffer); }
  Tensor buffer;
};

struct Twice : nn::Module {
  Twice() {
    register_module("first", leaf);
    register_module("second", leaf);
  }
  Leaf leaf{make::ones({1})};
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_parameter_whose_first_gradient_comes_late_starts_its_own_momentum) {
  const Tensor early = make::zeros({1}).requires_grad_(), late = make::zeros({1}).requires_grad_();
  optim::SGD sgd({early, late}, {.lr = 1, .momentum = 0.5, .dampening = 0.75});
  const Tensor g = make::ones({1});
  sgd.step({g, Tensor()});
  sgd.step({g, g});
  BOOST_TEST(early.item<float>() == -1.75F);
  BOOST_TEST(late.item<float>() == -1);  // not dampened, as its neighbour is
}

BOOST_AUTO_TEST_CASE(training_changes_the_version_of_the_running_statistics) {
  nn::BatchNorm2d layer(1);
  const auto mean = layer.running_mean.version(), var = layer.running_var.version();
  layer(make::ones({2, 1, 2, 2}));
  BOOST_TEST(layer.running_mean.version() == mean + 1);
  BOOST_TEST(layer.running_var.version() == var + 1);
}

BOOST_AUTO_TEST_CASE(a_padding_row_counted_from_the_end_gets_no_gradient) {
  const Tensor weight = make::ones({3, 1}).requires_grad_();
  tendril::embedding(tensor({0, 2, 2}), weight, -1).sum().backward();
  BOOST_TEST(weight.grad().to_vector<float>() == std::vector<float>({1, 0, 0}));
}

BOOST_AUTO_TEST_CASE(a_converted_buffer_is_no_view_of_what_it_was_made_from) {
  const Tensor base = make::zeros({4});
  Leaf module(base.narrow(0, 0, 2));
  module.to(kFloat64);
  module.buffer.add_(make::ones({2}, kFloat64).requires_grad_());
  BOOST_TEST(module.buffer.requires_grad());
  BOOST_TEST(!base.requires_grad());
}

BOOST_AUTO_TEST_CASE(a_module_below_two_names_is_visited_once) {
  Twice module;
  BOOST_TEST(module.modules().size() == 2u);
}

BOOST_AUTO_TEST_SUITE_END()
