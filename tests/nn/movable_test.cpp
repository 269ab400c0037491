#include <boost/test/unit_test.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tendril/nn/activation.h"
#include "tendril/nn/batch_norm.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/lstm.h"
#include "tendril/nn/sequential.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/make.h"

BOOST_AUTO_TEST_SUITE(movable)

using tendril::Error;
using tendril::Tensor;
using tendril::testing::says;
namespace nn = tendril::nn;
namespace make = tendril::make;
namespace raw = tendril::raw;

namespace {

std::string names_of(const nn::Module& module) {
  std::string names;
  for (const auto& [name, tensor] : module.named_parameters()) names += name + " ";
  for (const auto& [name, tensor] : module.named_buffers()) names += name + " ";
  return names;
}

struct Pair : nn::Movable<Pair> {
  nn::Linear first{2, 3}, second{3, 1};
  Tensor scale = make::ones({1});
  Pair() {
    register_module("first", first);
    register_module("second", second);
    register_parameter("scale", scale);
  }
};

struct Net : nn::Module {
  nn::Sequential body{nn::Linear(2, 3), nn::ReLU()};
  Net() { register_module("body", body); }
};

struct Forgetful : nn::Movable<Forgetful> {
  nn::Linear known{2, 2}, forgotten{2, 2};
  Forgetful() { register_module("known", known); }
};

struct Larger : nn::Linear {
  Tensor more = make::ones({1});
  Larger() : nn::Linear(2, 2) { register_parameter("more", more); }
};

}  // namespace

BOOST_AUTO_TEST_CASE(layers_stand_in_one_expression) {
  nn::Sequential head(nn::Linear(2, 3), nn::ReLU(), nn::Sequential(nn::Linear(3, 1), nn::Sigmoid()));
  BOOST_TEST(names_of(head) == "0.weight 0.bias 2.0.weight 2.0.bias ");
  BOOST_TEST((head(make::ones({4, 2})).sizes() == tendril::Dims{4, 1}));
  const Tensor& weight = static_cast<nn::Linear&>(head[0]).weight;
  BOOST_TEST(head.parameters()[0].is_same(weight));
  BOOST_TEST(weight.requires_grad());
  head.eval();
  BOOST_TEST(!head[2].is_training());
  Net net;
  BOOST_TEST(names_of(net) == "body.0.weight body.0.bias ");
}

BOOST_AUTO_TEST_CASE(a_moved_module_is_the_one_it_was) {
  nn::BatchNorm2d norm(2);
  norm.eval();
  const std::vector<Tensor> before = norm.parameters();
  nn::BatchNorm2d moved(std::move(norm));
  BOOST_TEST(names_of(moved) == "weight bias running_mean running_var num_batches_tracked ");
  BOOST_TEST(moved.parameters()[0].is_same(before[0]));
  BOOST_TEST(!moved.is_training());
  BOOST_TEST(norm.parameters().empty());  // NOLINT(bugprone-use-after-move): that is asked here
  moved.to(tendril::kFloat64);
  BOOST_TEST((moved.weight.dtype() == tendril::kFloat64));

  nn::LSTM lstm(2, 3);
  const Tensor x = make::ones({4, 1, 2}), y = lstm(x).output;
  nn::LSTM other(std::move(lstm));
  BOOST_TEST(names_of(other) == "weight_ih_l0 weight_hh_l0 bias_ih_l0 bias_hh_l0 ");
  BOOST_TEST(raw::equal(other(x).output, y));
}

BOOST_AUTO_TEST_CASE(modules_with_members_move_too) {
  Pair pair;
  const std::vector<Tensor> before = pair.parameters();
  Pair moved(std::move(pair));
  BOOST_TEST(names_of(moved) == "scale first.weight first.bias second.weight second.bias ");
  for (std::size_t i = 0; i < before.size(); ++i) BOOST_TEST(moved.parameters()[i].is_same(before[i]));
  BOOST_TEST(moved.children()[1] == &moved.second);
  moved.second.weight = make::ones({1, 3});
  BOOST_TEST(moved.parameters()[3].is_same(moved.second.weight));
}

BOOST_AUTO_TEST_CASE(a_vector_of_layers_grows) {
  std::vector<nn::Linear> layers;
  for (int i = 0; i < 9; ++i) layers.emplace_back(2, 2);
  for (nn::Linear& layer : layers) {
    BOOST_TEST(names_of(layer) == "weight bias ");
    BOOST_TEST(layer.parameters()[0].is_same(layer.weight));
  }
}

BOOST_AUTO_TEST_CASE(a_list_knows_its_modules) {
  nn::ModuleList list(nn::Linear(2, 3), nn::ReLU());
  list.emplace<nn::Linear>(3, 1);
  BOOST_TEST(list.size() == 3u);
  BOOST_TEST(names_of(list) == "0.weight 0.bias 2.weight 2.bias ");
  BOOST_TEST((list.at<nn::Linear>(2)(make::ones({3})).sizes() == tendril::Dims{1}));
  BOOST_CHECK_EXCEPTION(list.at<nn::Linear>(1), Error, says("ModuleList", "1", "ReLU"));
  BOOST_CHECK_EXCEPTION(list[3], tendril::IndexError, says("ModuleList", "3"));
  nn::ModuleList moved(std::move(list));
  BOOST_TEST(names_of(moved) == "0.weight 0.bias 2.weight 2.bias ");
}

BOOST_AUTO_TEST_CASE(what_would_lose_a_registration_is_refused) {
  const auto move = [](auto from) { [[maybe_unused]] const auto to(std::move(from)); };
  BOOST_CHECK_EXCEPTION(move(Forgetful()), Error, says("Forgetful", "not registered"));
  BOOST_CHECK_EXCEPTION(move(Larger()), Error, says("Larger", "Movable"));
  static_assert(!std::is_move_constructible_v<Net> && !std::is_copy_constructible_v<nn::Linear>);
}

BOOST_AUTO_TEST_SUITE_END()
