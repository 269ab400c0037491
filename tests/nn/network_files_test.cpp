#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdlib>
#include <string>

#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/models/resnet.h"
#include "tendril/nn/optim/adam.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/tensor/files/numpy.h"
#include "tendril/tensor/files/pytorch.h"
#include "tendril/tensor/files/safetensors.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/golden.h"
#include "tests/temporary_folder.h"

BOOST_AUTO_TEST_SUITE(network_files)

using tendril::StateDict;
using tendril::Tensor;
using tendril::testing::difference;
using tendril::testing::read_bytes;
using tendril::testing::says;
using tendril::testing::TemporaryFolder;
namespace nn = tendril::nn;
namespace optim = tendril::optim;
namespace raw = tendril::raw;

namespace {

std::string golden_file(const std::string& name) { return TENDRIL_TEST_DATA "/files/" + name; }

/// A network of torchvision's structure with weights of PyTorch's gives PyTorch's logits.
template <class Block>
void check_logits(const std::string& name) {
  const StateDict run = tendril::load_npz(golden_file(name + "_run.npz"));
  for (const StateDict& weights : {tendril::load_pytorch(golden_file(name + ".pt")),
                                   tendril::load_safetensors(golden_file(name + ".safetensors"))}) {
    nn::ResNet<Block> model({1, 1, 1, 1}, {.num_classes = 3, .base = 2});
    model.load_state_dict(weights);
    model.eval();
    const tendril::NoGrad no_grad;
    BOOST_TEST(difference(model(run.at("images")), run.at("logits"), 1e-4, 1e-4) == "", name);
  }
}

/// Two steps more of an optimizer that PyTorch has saved.
template <class Optimizer>
void check_goes_on(const std::string& name) {
  const StateDict saved = tendril::load_pytorch(golden_file(name + ".pt"));
  const StateDict later = tendril::load_pytorch(golden_file(name + "_later.pt"));
  const std::vector<Tensor> params = {Tensor(saved.at("parameters.0")).requires_grad_(),
                                      Tensor(saved.at("parameters.1")).requires_grad_()};
  Optimizer optimizer(params);
  const auto report = optimizer.load_state_dict(saved.section("optimizer"), {.strict = false});
  BOOST_TEST(report.missing.empty());
  BOOST_TEST(optimizer.lr() == 0.1);
  for (int step = 0; step < 2; ++step) {
    const tendril::NoGrad no_grad;
    optimizer.step({params[0] * 0.1 + 0.3, params[1] * 0.1 + 0.3});
  }
  for (std::size_t i = 0; i < 2; ++i) {
    BOOST_TEST(difference(params[i], later.at("parameters." + std::to_string(i)), 1e-5, 1e-6) == "", name);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(networks_with_pytorchs_weights_give_pytorchs_logits) {
  check_logits<nn::BasicBlock>("basic");
  check_logits<nn::Bottleneck>("bottleneck");
}

BOOST_AUTO_TEST_CASE(what_a_network_saves_is_what_pytorch_saves_of_it) {
  const TemporaryFolder folder;
  nn::ResNet<nn::BasicBlock> model({1, 1, 1, 1}, {.num_classes = 3, .base = 2});
  model.load_state_dict(tendril::load_pytorch(golden_file("basic.pt")));
  tendril::save_safetensors(model.state_dict(), folder / "basic.safetensors");
  BOOST_TEST((read_bytes(folder / "basic.safetensors") == read_bytes(golden_file("basic.safetensors"))));
}

BOOST_AUTO_TEST_CASE(optimizers_of_pytorchs_go_on_here) {
  check_goes_on<optim::SGD>("sgd");
  check_goes_on<optim::Adam>("adam");
}

BOOST_AUTO_TEST_CASE(weights_of_another_network_are_refused_by_name) {
  nn::ResNet<nn::Bottleneck> model({1, 1, 1, 1}, {.num_classes = 3, .base = 2});
  BOOST_CHECK_EXCEPTION(model.load_state_dict(tendril::load_safetensors(golden_file("basic.safetensors"))),
                        tendril::Error,
                        says("missing: layer1.0.conv3.weight", "layer1.0.conv1.weight: got shape [2, 2, 3, 3]",
                             "expected [2, 2, 1, 1]", "nothing was loaded"));
}

BOOST_AUTO_TEST_SUITE_END()
