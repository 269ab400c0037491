// Module::to(Device): made on the CPU, moved to the default device. On the CPU it shows that nothing moves.
#include <boost/test/unit_test.hpp>

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/batch_norm.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/module.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"

BOOST_AUTO_TEST_SUITE(module_device)

using namespace tendril;
using testing::says;

namespace {

struct Net : nn::Module {
  nn::Linear encoder{3, 3, {.device = kCPU}};
  nn::Linear decoder{3, 3, {.device = kCPU}};
  nn::BatchNorm2d norm{2, {.device = kCPU}};

  Net() {
    register_module("encoder", encoder);
    register_module("decoder", decoder);
    register_module("norm", norm);
    decoder.weight = encoder.weight;
  }
};

bool all_on(nn::Module& module, Device device) {
  for (const auto& tensors : {module.parameters(), module.buffers()}) {
    for (const Tensor& tensor : tensors) {
      if (tensor.device() != device) return false;
      if (tensor.grad().defined() && tensor.grad().device() != device) return false;
    }
  }
  return true;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_move_takes_parameters_gradients_and_buffers_along_and_keeps_ties) {
  Net net;
  const Tensor weight = net.encoder.weight;
  const auto values = weight.to_vector<float>();
  weight.sum().backward();
  BOOST_TEST((&net.to(default_device()) == &net));

  BOOST_TEST(all_on(net, default_device()));
  BOOST_TEST(weight.is_same(net.decoder.weight));
  BOOST_TEST((net.norm.num_batches_tracked.device() == default_device()));
  BOOST_TEST(weight.to_vector<float>() == values);
  BOOST_TEST(weight.requires_grad());
  BOOST_TEST(weight.grad().to_vector<float>() == std::vector<float>(9, 1));

  net.to(kCPU);
  BOOST_TEST(all_on(net, kCPU));
  BOOST_TEST(weight.to_vector<float>() == values);
}

BOOST_AUTO_TEST_CASE(gradients_flow_after_a_move) {
  Net net;
  net.to(default_device());
  (net.encoder(ones({2, 3})) * 2).sum().backward();
  BOOST_TEST(net.encoder.bias.grad().to_vector<float>() == std::vector<float>(3, 4));
  BOOST_TEST((net.encoder.bias.grad().device() == default_device()));
}

BOOST_AUTO_TEST_CASE(a_move_may_cast_as_well) {
  Net net;
  net.to(default_device(), kFloat64);
  BOOST_TEST(all_on(net, default_device()));
  BOOST_TEST((net.encoder.weight.dtype() == kFloat64));
  BOOST_TEST((net.norm.running_var.dtype() == kFloat64));
  BOOST_TEST((net.norm.num_batches_tracked.dtype() == kInt64));
}

BOOST_AUTO_TEST_CASE(a_device_that_is_not_there_is_refused_and_nothing_moves) {
  Net net;
  const Device absent{DeviceType::cuda, static_cast<int8_t>(device_count(DeviceType::cuda))};
  BOOST_CHECK_EXCEPTION(net.to(absent), Error, says("Module::to", "cuda:", "this process has"));
  BOOST_CHECK_EXCEPTION(net.to(absent, kFloat64), Error, says("Module::to", "cuda:"));
  BOOST_TEST(all_on(net, kCPU));
  BOOST_TEST((net.encoder.weight.dtype() == kFloat32));
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_into_memory_changes_nothing) {
  struct Huge : nn::Module {
    nn::Linear small{2, 2, {.device = kCPU}};
    Tensor huge = raw::expand(raw::ones({1}), {int64_t{1} << 44});  // one element here, 64 TiB as a copy
    Huge() {
      register_module("small", small);
      register_buffer("huge", huge);
    }
  } net;
  const void* const before = net.small.weight.raw_data();
  BOOST_CHECK_EXCEPTION(net.to(default_device(), kFloat64), Error, says("out of memory"));
  BOOST_TEST(all_on(net, kCPU));
  BOOST_TEST(net.small.weight.raw_data() == before);
  BOOST_TEST((net.small.weight.dtype() == kFloat32));
}

BOOST_AUTO_TEST_CASE(an_optimizer_refuses_parameters_that_were_moved_since) {
  Net net;
  optim::SGD sgd(net.parameters(), {.lr = 0.1});
  net.to(default_device());
  net.encoder.weight.sum().backward();
  if (default_device().is_cpu()) {
    BOOST_CHECK_NO_THROW(sgd.step());
    return;
  }
  const auto before = net.encoder.weight.to_vector<float>();
  BOOST_CHECK_EXCEPTION(sgd.step(), Error, says("SGD::step", "cuda:0", "expected cpu", "move the module first"));
  BOOST_TEST(net.encoder.weight.to_vector<float>() == before);
}

BOOST_AUTO_TEST_SUITE_END()
