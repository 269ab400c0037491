#include <boost/test/unit_test.hpp>
#include <memory>

#include "tendril/autograd/grad_mode.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/models/resnet.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/make.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(module_state_dict)

using tendril::Error;
using tendril::Generator;
using tendril::LoadReport;
using tendril::StateDict;
using tendril::Tensor;
using tendril::testing::says;
using tendril::testing::test_seed;
namespace make = tendril::make;
namespace nn = tendril::nn;
namespace raw = tendril::raw;

namespace {

std::string names(const StateDict& dict) {
  std::string all;
  for (const auto& [name, tensor] : dict) all += name + " ";
  return all;
}

/// Two layers that share a weight, as a language model's embedding and decoder do.
struct Tied : nn::Module {
  nn::Linear encoder{3, 3};
  nn::Linear decoder{3, 3};
  Tied() {
    decoder.weight = encoder.weight;
    register_module("encoder", encoder);
    register_module("decoder", decoder);
  }
};

nn::ResNet<nn::BasicBlock> small_network(uint64_t seed) {
  static std::vector<std::unique_ptr<Generator>> generators;
  generators.push_back(std::make_unique<Generator>(test_seed(seed)));
  return nn::ResNet<nn::BasicBlock>({1, 1, 1, 1}, {.num_classes = 3, .base = 2, .generator = *generators.back()});
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_residual_network_has_torchvisions_names_in_its_order) {
  const StateDict dict = nn::resnet18({.base = 2}).state_dict();
  BOOST_TEST(dict.size() == 122u);  // len(torchvision.models.resnet18().state_dict())
  const std::string all = names(dict);
  BOOST_TEST(
      all.starts_with("conv1.weight bn1.weight bn1.bias bn1.running_mean bn1.running_var "
                      "bn1.num_batches_tracked layer1.0.conv1.weight layer1.0.bn1.weight "));
  BOOST_TEST(all.find(" layer2.0.downsample.0.weight layer2.0.downsample.1.weight ") != std::string::npos);
  BOOST_TEST(all.ends_with(" fc.weight fc.bias "));
}

BOOST_AUTO_TEST_CASE(a_network_that_loads_anothers_state_is_its_equal) {
  auto trained = small_network(1), fresh = small_network(2);
  const Tensor x = make::from_data(std::vector<float>(2 * 3 * 20 * 20, 0.5f), {2, 3, 20, 20});
  trained(x);  // changes running statistics
  const Tensor weight = fresh.conv1.weight;
  const LoadReport report = fresh.load_state_dict(trained.state_dict());
  BOOST_TEST(report.missing.empty());
  BOOST_TEST(report.unexpected.empty());
  const tendril::NoGrad no_grad;
  trained.eval();
  fresh.eval();
  BOOST_TEST(raw::equal(trained(x), fresh(x)));
  BOOST_TEST(fresh.conv1.weight.is_same(weight));
  BOOST_TEST(weight.requires_grad());
  BOOST_TEST(raw::equal(weight, trained.conv1.weight));
  BOOST_TEST((weight.storage() != trained.conv1.weight.storage()));
  BOOST_TEST(fresh.bn1.num_batches_tracked.item<int64_t>() == 1);
}

BOOST_AUTO_TEST_CASE(what_a_dict_holds_is_the_modules_own_elements_without_history) {
  nn::Linear layer(2, 2);
  const StateDict dict = layer.state_dict();
  BOOST_TEST(!dict.at("weight").requires_grad());
  BOOST_TEST((dict.at("weight").storage() == layer.weight.storage()));
  const LoadReport report = layer.load_state_dict(dict);  // a copy onto itself
  BOOST_TEST(report.missing.empty());
}

BOOST_AUTO_TEST_CASE(ties_are_saved_under_both_names_and_stay_tied) {
  Tied tied;
  BOOST_TEST(names(tied.state_dict()) == "encoder.weight encoder.bias decoder.weight decoder.bias ");
  Tied other;
  other.load_state_dict(tied.state_dict());
  BOOST_TEST(other.decoder.weight.is_same(other.encoder.weight));
  BOOST_TEST(raw::equal(other.encoder.weight, tied.encoder.weight));
}

BOOST_AUTO_TEST_CASE(all_that_does_not_fit_is_in_one_error_and_nothing_is_loaded) {
  nn::Linear layer(3, 2), other(3, 2);
  const StateDict before = layer.state_dict().clone();
  StateDict dict{{"weight", make::ones({3, 2})}, {"scale", make::ones({1})}, {"head.weight", make::ones({1})}};
  BOOST_CHECK_EXCEPTION(layer.load_state_dict(dict), Error,
                        says("Module::load_state_dict: Linear", "nothing was loaded", "missing: bias",
                             "unexpected: scale, head.weight", "weight: got shape [3, 2], expected [2, 3]"));
  const StateDict half{{"weight", make::ones({2, 3})}};  // fits, but is not all
  BOOST_CHECK_EXCEPTION(layer.load_state_dict(half), Error, says("missing: bias"));
  for (const auto& [name, tensor] : layer.state_dict()) BOOST_TEST(raw::equal(tensor, before.at(name)), name);
  auto network = small_network(1);
  StateDict counts;
  for (const auto& [name, tensor] : network.state_dict()) {
    counts.insert(name, name == "bn1.num_batches_tracked" ? make::scalar(0.5, tendril::kFloat32) : tensor);
  }
  BOOST_CHECK_EXCEPTION(network.load_state_dict(counts), Error,
                        says("bn1.num_batches_tracked: got dtype float32, expected int64"));
}

BOOST_AUTO_TEST_CASE(without_strictness_what_fits_is_loaded_and_the_rest_reported) {
  nn::Linear layer(2, 2);
  const LoadReport report =
      layer.load_state_dict({{"bias", make::full({2}, 7)}, {"extra", make::ones({1})}}, {.strict = false});
  BOOST_TEST(report.missing == std::vector<std::string>{"weight"}, boost::test_tools::per_element());
  BOOST_TEST(report.unexpected == std::vector<std::string>{"extra"}, boost::test_tools::per_element());
  BOOST_TEST(raw::equal(layer.bias, make::full({2}, 7)));
}

BOOST_AUTO_TEST_CASE(a_check_changes_nothing) {
  nn::Linear layer(2, 2);
  const StateDict before = layer.state_dict().clone();
  layer.load_state_dict({{"weight", make::ones({2, 2})}, {"bias", make::ones({2})}}, {.check_only = true});
  BOOST_TEST(raw::equal(layer.weight, before.at("weight")));
}

BOOST_AUTO_TEST_CASE(elements_are_converted_to_the_modules_dtype) {
  nn::Linear layer(2, 2);
  layer.load_state_dict(
      {{"weight", make::full({2, 2}, 0.5, tendril::kFloat64)}, {"bias", make::full({2}, 3, tendril::kFloat16)}});
  BOOST_TEST((layer.weight.dtype() == tendril::kFloat32));
  BOOST_TEST(raw::equal(layer.weight, make::full({2, 2}, 0.5)));
  BOOST_TEST(raw::equal(layer.bias, make::full({2}, 3)));
}

BOOST_AUTO_TEST_CASE(a_graph_from_before_loading_is_not_run_on_the_new_values) {
  nn::Linear layer(2, 2);
  const Tensor x = make::ones({1, 2}).requires_grad_();
  const Tensor loss = layer(x).sum();
  layer.load_state_dict(layer.state_dict().clone());
  BOOST_CHECK_THROW(loss.backward(), tendril::AutogradError);
}

BOOST_AUTO_TEST_CASE(two_names_of_one_tensor_must_agree) {
  Tied tied, other;
  const Tensor before = tied.encoder.weight.detach().clone();
  StateDict dict = other.state_dict().clone();
  raw::fill_(dict.at("decoder.weight"), 5);
  BOOST_CHECK_EXCEPTION(tied.load_state_dict(dict), Error,
                        says("decoder.weight: differs from encoder.weight, which is the same tensor in the module",
                             "nothing was loaded"));
  BOOST_TEST(raw::equal(tied.encoder.weight.detach(), before));
}

BOOST_AUTO_TEST_CASE(one_of_two_tied_names_is_enough) {
  for (const std::string lacking : {"encoder.weight", "decoder.weight"}) {
    Tied tied, other;
    StateDict dict;
    for (const auto& [name, tensor] : other.state_dict()) {
      if (name != lacking) dict.insert(name, tensor);
    }
    const LoadReport report = tied.load_state_dict(dict);
    BOOST_TEST(report.missing.empty());
    BOOST_TEST(raw::equal(tied.decoder.weight.detach(), other.decoder.weight.detach()));
  }
  Tied tied;
  StateDict dict{{"encoder.bias", make::ones({3})}, {"decoder.bias", make::ones({3})}};
  BOOST_CHECK_EXCEPTION(tied.load_state_dict(dict), Error, says("missing: encoder.weight, decoder.weight"));
}

BOOST_AUTO_TEST_SUITE_END()
