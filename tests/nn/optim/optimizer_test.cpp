// What all optimizers share, shown with SGD.
#include "tendril/nn/optim/optimizer.h"

#include <boost/test/unit_test.hpp>
#include <vector>

#include "tendril/nn/linear.h"
#include "tendril/nn/optim/adam.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/make.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(optimizer)

using tendril::AutogradError;
using tendril::DTypeError;
using tendril::Error;
using tendril::IndexError;
using tendril::ShapeError;
using tendril::Tensor;
using tendril::optim::SGD;
using tendril::testing::says;
using tendril::testing::test_seed;
namespace make = tendril::make;
namespace raw = tendril::raw;

namespace {

using Values = std::vector<double>;

Tensor leaf(const Values& values, tendril::DType dtype = tendril::kFloat64) {
  return raw::cast(make::from_data(values, {static_cast<int64_t>(values.size())}), dtype).requires_grad_();
}

Values values_of(const Tensor& x) { return x.to_vector<double>(); }

}  // namespace

BOOST_AUTO_TEST_CASE(parameters_without_a_gradient_stay_as_they_are) {
  Tensor a = leaf({1, 2}), b = leaf({3});
  SGD sgd({a, b}, {.lr = 0.5, .momentum = 0.9, .weight_decay = 0.1});
  a.set_grad(make::ones({2}, tendril::kFloat64));
  sgd.step();
  BOOST_TEST((values_of(b) == Values{3}));
  BOOST_TEST((values_of(a) != Values{1, 2}));
  BOOST_TEST(!sgd.state(b).momentum_buffer.defined());
}

BOOST_AUTO_TEST_CASE(a_step_records_nothing_and_keeps_leaves) {
  Tensor a = leaf({1, 2});
  SGD sgd({a}, {.lr = 0.5});
  a.mul(a).sum().backward();
  sgd.step();
  BOOST_TEST((values_of(a) == Values{0, 0}));
  BOOST_TEST(a.is_leaf());
  BOOST_TEST(a.requires_grad());
}

BOOST_AUTO_TEST_CASE(a_backward_through_what_a_step_changed_is_refused) {
  Tensor a = leaf({1, 2});
  SGD sgd({a}, {.lr = 0.5});
  const Tensor loss = a.mul(a).sum();
  sgd.step({make::ones({2}, tendril::kFloat64)});
  BOOST_CHECK_THROW(loss.backward(), AutogradError);
}

BOOST_AUTO_TEST_CASE(zero_grad_drops_gradients) {
  Tensor a = leaf({1});
  a.set_grad(make::ones({1}, tendril::kFloat64));
  SGD sgd({a}, {.lr = 0.5});
  sgd.zero_grad();
  BOOST_TEST(!a.grad().defined());
  sgd.step();
  BOOST_TEST((values_of(a) == Values{1}));
}

BOOST_AUTO_TEST_CASE(parameters_and_gradients_may_have_gaps) {
  const Tensor matrix = make::from_data(Values{0, 1, 2, 3, 4, 5}, {2, 3});
  Tensor column = raw::select(matrix, 1, 1).requires_grad_();
  Tensor turned = raw::transpose(make::from_data(Values{1, 2, 3, 4}, {2, 2}), 0, 1).requires_grad_();
  const Tensor gradient = make::from_data(Values{1, 10, 100, 1000}, {2, 2});
  SGD sgd({column, turned}, {.lr = 1, .momentum = 0.5});
  sgd.step({raw::expand(make::ones({1}, tendril::kFloat64), {2}), raw::transpose(gradient, 0, 1)});
  BOOST_TEST((values_of(matrix) == Values{0, 0, 2, 3, 3, 5}));
  BOOST_TEST((values_of(turned) == Values{0, -97, -8, -996}));
  const Tensor buffer = sgd.state(turned).momentum_buffer;
  BOOST_TEST((values_of(buffer) == Values{1, 100, 10, 1000}));
}

BOOST_AUTO_TEST_CASE(a_gradient_may_overlap_its_parameter) {
  const Tensor buffer = make::from_data(Values{1, 2, 4, 8}, {4});
  Tensor param = buffer.slice(0, 1).requires_grad_();
  SGD sgd({param}, {.lr = 1});
  sgd.step({buffer.slice(0, 0, 3)});
  BOOST_TEST((values_of(buffer) == Values{1, 1, 2, 4}));
}

BOOST_AUTO_TEST_CASE(empty_parameters_are_legal) {
  Tensor a = leaf({});
  SGD sgd({a}, {.lr = 0.5, .momentum = 0.9});
  sgd.step({make::zeros({0}, tendril::kFloat64)});
  BOOST_TEST(a.numel() == 0);
}

BOOST_AUTO_TEST_CASE(learning_rates_can_be_read_and_set) {
  const Tensor a = leaf({1}), b = leaf({1});
  SGD sgd({{.params = {a}, .options = {.lr = 0.5}}, {.params = {b}, .options = {.lr = 0.25}}});
  BOOST_TEST(sgd.lr() == 0.5);
  BOOST_TEST(sgd.lr(1) == 0.25);
  sgd.set_lr(1, 2.0);
  BOOST_TEST(sgd.lr(0) == 0.5);
  sgd.set_lr(4.0);
  BOOST_TEST(sgd.lr(1) == 4.0);
  sgd.step({make::ones({1}, tendril::kFloat64), make::ones({1}, tendril::kFloat64)});
  BOOST_TEST((values_of(a) == Values{-3}));
  BOOST_CHECK_EXCEPTION(sgd.set_lr(-1), Error, says("SGD", "lr", "-1"));
  BOOST_TEST(sgd.lr() == 4.0);
  BOOST_CHECK_EXCEPTION(sgd.lr(2), IndexError, says("SGD", "group 2 of 2"));
  BOOST_CHECK_EXCEPTION(sgd.set_options(7, {}), IndexError, says("SGD", "group 7 of 2"));
}

BOOST_AUTO_TEST_CASE(parameters_that_cannot_be_stepped_are_refused) {
  const Tensor a = leaf({1}), b = leaf({2});
  const Tensor integers = make::zeros({2}, tendril::kInt64);
  BOOST_CHECK_EXCEPTION(SGD(std::vector<Tensor>{}), Error, says("SGD", "params", "empty", "at least one"));
  BOOST_CHECK_EXCEPTION(SGD(std::vector<SGD::Group>{}), Error, says("SGD", "groups", "none"));
  BOOST_CHECK_EXCEPTION(SGD({{.params = {a}}, {.params = {}}}), Error, says("SGD", "params", "empty"));
  BOOST_CHECK_EXCEPTION(SGD({a, b, a}, {}), Error, says("SGD", "params[2]", "parameter 0", "once"));
  BOOST_CHECK_EXCEPTION(SGD({{.params = {a}}, {.params = {b, a}}}), Error, says("params[1] of group 1", "parameter 0"));
  BOOST_CHECK_EXCEPTION(SGD({a, a.mul(2.0)}, {}), Error, says("SGD", "params[1]", "leaf"));
  BOOST_CHECK_EXCEPTION(SGD({a, Tensor()}, {}), Error, says("SGD", "params[1]", "undefined"));
  const Tensor expanded = raw::expand(make::ones({1}, tendril::kFloat64), {3}).requires_grad_();
  BOOST_CHECK_EXCEPTION(SGD({a, expanded}, {}), Error, says("SGD", "params[1]", "expanded"));
  BOOST_CHECK_EXCEPTION(SGD({integers, a}, {}), DTypeError, says("SGD", "params[0]", "int64", "a floating one"));
}

BOOST_AUTO_TEST_CASE(gradients_that_do_not_fit_change_nothing) {
  const Tensor a = leaf({1}), b = leaf({2, 3});
  const Tensor one = make::ones({1}, tendril::kFloat64);
  SGD sgd({a, b}, {.lr = 1, .momentum = 0.9});
  BOOST_CHECK_EXCEPTION(sgd.step({one}), Error, says("SGD::step", "got 1", "expected 2"));
  BOOST_CHECK_EXCEPTION(sgd.step({one, one}), ShapeError, says("SGD::step", "gradient 1", "[1]", "[2]"));
  BOOST_CHECK_EXCEPTION(sgd.step({one, make::ones({2})}), DTypeError, says("gradient 1", "float32", "float64"));
  BOOST_TEST((values_of(a) == Values{1}));
  BOOST_TEST(!sgd.state(a).momentum_buffer.defined());
}

BOOST_AUTO_TEST_CASE(a_module_cast_after_the_optimizer_was_built_is_refused) {
  tendril::nn::Linear linear(2, 1);
  SGD sgd(linear.parameters(), {.lr = 1});
  linear.to(tendril::kFloat64);
  for (Tensor& p : linear.parameters()) p.set_grad(make::ones(p.sizes(), tendril::kFloat64));
  BOOST_CHECK_EXCEPTION(sgd.step(), DTypeError, says("SGD::step", "float64", "float32", "cast the module first"));
}

BOOST_AUTO_TEST_CASE(a_parameter_that_is_unfrozen_later_is_stepped_on) {
  tendril::nn::Linear linear(2, 1);
  linear.weight.requires_grad_(false);
  SGD sgd(linear.parameters(), {.lr = 1});
  const auto step = [&] {
    sgd.zero_grad();
    linear(make::ones({1, 2})).sum().backward();
    const Tensor before = raw::clone(linear.weight);
    sgd.step();
    return !raw::equal(linear.weight.detach(), before);
  };
  BOOST_TEST(!step());
  linear.weight.requires_grad_();
  BOOST_TEST(step());
}

BOOST_AUTO_TEST_CASE(the_state_of_a_stranger_is_refused) {
  const SGD sgd({leaf({1})}, {.lr = 1});
  BOOST_CHECK_EXCEPTION(sgd.state(leaf({1})), Error, says("SGD::state", "not one of"));
}

BOOST_AUTO_TEST_CASE(many_parameters_of_all_sizes_step_as_each_alone_would) {
  // More than one launch on a device names; more than a block of threads does; and elements that lie at odd addresses.
  std::vector<int64_t> sizes = {40000, 8192, 1, 0, 9};
  for (int64_t i = 0; i < 150; ++i) sizes.push_back(1 + i % 7);
  tendril::Generator generator(test_seed());
  std::vector<Tensor> params, starts;
  for (const int64_t size : sizes) {
    const Tensor room = make::empty({size + 1}, tendril::kFloat32);
    raw::uniform_(room, 0.25, 1, generator);
    params.push_back(raw::narrow(room, 0, size % 2, size).detach().requires_grad_());
    starts.push_back(raw::clone(params.back()));
    params.back().set_grad(raw::clone(starts.back()));
  }
  for (const bool adam : {false, true}) {
    if (adam) {
      tendril::optim::Adam optimizer(params, {.lr = 0.25});
      optimizer.step();
    } else {
      SGD optimizer(params, {.lr = 0.5});
      optimizer.step();
    }
    for (std::size_t i = 0; i < params.size(); ++i) {
      const auto start = starts[i].to_vector<double>(), stepped = params[i].to_vector<double>();
      for (std::size_t j = 0; j < start.size(); ++j) {
        // Halved by SGD; then moved by the learning rate against the gradient.
        const double expected = start[j] / 2 - (adam ? 0.25 : 0);
        BOOST_REQUIRE_SMALL(stepped[j] - expected, 1e-4);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(parameters_of_one_group_may_be_on_several_devices) {
  const auto device = tendril::default_device();
  const Tensor values = raw::from_data(Values{1, 2}, {2});
  std::vector<Tensor> params;
  for (const auto at : {device, tendril::kCPU, device}) params.push_back(raw::to(raw::clone(values), at));
  for (Tensor& param : params) {
    param.requires_grad_();
    param.set_grad(raw::clone(param));
  }
  SGD sgd(params, {.lr = 0.5, .momentum = 0.5});
  sgd.step();
  for (const Tensor& param : params) {
    BOOST_TEST((values_of(param) == Values{0.5, 1}));
    BOOST_TEST((sgd.state(param).momentum_buffer.device() == param.device()));
  }
}

BOOST_AUTO_TEST_CASE(a_gradient_on_another_device_than_its_parameter_is_refused) {
  if (tendril::default_device().is_cpu()) return;  // there is no other
  Tensor a = leaf({1, 2}), b = leaf({3});
  SGD sgd({a, b}, {.lr = 0.5});
  const Tensor here = make::ones({2}, tendril::kFloat64), there = raw::ones({1}, tendril::kFloat64);
  BOOST_CHECK_EXCEPTION(sgd.step({here, there}), Error, says("SGD::step", "gradient 1", "cpu", "cuda:0"));
  BOOST_TEST((values_of(a) == Values{1, 2}));
}

BOOST_AUTO_TEST_SUITE_END()
