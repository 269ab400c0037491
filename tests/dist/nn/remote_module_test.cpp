// Modules on another worker, and backwards whose root is on another worker.
#include "tendril/dist/nn/remote_module.h"

#include "tendril/autograd/backward.h"
#include "tendril/autograd/ops/reduce.h"
#include "tendril/nn/dropout.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/rpc/task.h"
#include "tendril/tensor/raw.h"
#include "tests/dist/group.h"

BOOST_AUTO_TEST_SUITE(remote_module)

using namespace dist_test;
using dist::RemoteModule;

namespace dist_remote_module {

/// A linear layer followed by dropout.
struct Encoder : nn::Module {
  Encoder(int64_t in, int64_t out) : linear(in, out, {.dtype = kFloat64}) {
    register_module("linear", linear);
    register_module("drop", drop);
  }
  Tensor forward(const Tensor& x) const { return drop(linear(x)); }
  Tensor loss(const Tensor& x) const { return linear(x).square().sum(); }
  nn::Linear linear;
  nn::Dropout drop{0.5};
};

rpc::Task<double> coroutine(RemoteModule<Encoder> module, Tensor x) {
  const Tensor y = co_await module.forward_async(x);
  co_return y.sum().item<double>();
}

Tensor encode_with(const RemoteModule<Encoder>& module, const Tensor& x) { return module.forward(x); }
RemoteModule<Encoder> make_for_another() { return {Cluster::agent(1), "w2", 3, 2}; }

}  // namespace dist_remote_module
using namespace dist_remote_module;

BOOST_AUTO_TEST_CASE(remote_module_trains_like_a_local_one) {
  const Group group(2);
  const RemoteModule<Encoder> remote(group[0], "w1", 3, 2);
  Encoder local(3, 2);
  local.load_state_dict(remote.state_dict());
  BOOST_TEST(remote.owner().name == "w1");
  BOOST_TEST(remote.is_training());
  remote.eval();
  local.eval();
  BOOST_TEST(!remote.is_training());
  const Tensor x = tensor({{1.0, -2.0, 0.5}, {0.25, 1.0, 3.0}}, {.dtype = kFloat64});
  const Tensor y = local.forward(x);
  BOOST_TEST(values(remote.forward(x)) == values(y), boost::test_tools::per_element());
  BOOST_TEST(values(remote.forward_async(x).wait()) == values(y), boost::test_tools::per_element());
  BOOST_TEST(coroutine(remote, x).wait() == y.sum().item<double>());
  BOOST_TEST(values(remote.forward<&Encoder::loss>(x)) == values(local.loss(x)), boost::test_tools::per_element());

  dist::DistributedOptimizer<optim::SGD> opt(group[0], remote.remote_parameters(), {.lr = 0.1});
  optim::SGD sgd(local.parameters(), {.lr = 0.1});
  {
    const Context context(group[0]);
    backward(context, {remote.forward(x).square().sum()});
    opt.step(context);
  }
  local.forward(x).square().sum().backward();
  sgd.step();
  const StateDict after = remote.state_dict();
  BOOST_TEST(after.size() == local.state_dict().size());
  for (const auto& [name, entry] : local.state_dict()) {
    BOOST_TEST(values(after.at(name)) == values(entry), boost::test_tools::per_element());
  }
  raw::fill_(after.at("linear.bias"), 7);  // state_dict returns a copy
  BOOST_TEST(values(remote.state_dict().at("linear.bias"))[0] != 7);
  BOOST_TEST(remote.load_state_dict(after).missing.empty());
  BOOST_TEST(values(remote.state_dict().at("linear.bias"))[0] == 7);
  remote.to(kFloat32);
  BOOST_TEST((remote.state_dict().at("linear.weight").dtype() == kFloat32));
  remote.to(kCPU, kFloat64);
  BOOST_TEST((remote.state_dict().at("linear.weight").dtype() == kFloat64));
}

BOOST_AUTO_TEST_CASE(third_worker_may_use_the_module) {
  const Group group(3);
  const Tensor x = leaf({0.5, -1, 2});
  const RemoteModule<Encoder> remote = rpc::rpc_sync<&make_for_another>(group[0], 1);
  BOOST_TEST(remote.owner().name == "w2");
  remote.eval();
  Encoder local(3, 2);
  local.load_state_dict(remote.state_dict());
  local.eval();
  local.forward(x).sum().backward();
  BOOST_TEST(values(rpc::rpc_sync<&encode_with>(group[0], 1, remote, x)) == values(local.forward(x)),
             boost::test_tools::per_element());
  const RemoteModule<Encoder> same(remote.module_rref());
  BOOST_TEST(values(rpc::rpc_sync<&encode_with>(group[0], 1, same, x)) == values(local.forward(x)),
             boost::test_tools::per_element());
  const Context context(group[0]);
  backward(context, {rpc::rpc_sync<&encode_with>(group[0], 1, remote, x).sum()});  // through all three workers
  BOOST_TEST(values(get_gradients(context).at(x)) == values(x.grad()), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(missing_device_leaves_the_module_in_place) {
  const Group group(2);
  const RemoteModule<Encoder> remote(group[0], "w1", 3, 2);
  remote.eval();
  const Tensor x = tensor({{1.0, -2.0, 0.5}}, {.dtype = kFloat64});
  const Values before = values(remote.forward(x));
  BOOST_CHECK_EXCEPTION(remote.to(Device{DeviceType::cuda, 99}), rpc::RemoteError, says("worker 'w1'"));
  BOOST_TEST(values(remote.forward(x)) == before, boost::test_tools::per_element());
  remote.to(kCPU);
  BOOST_TEST((remote.state_dict().at("linear.weight").device() == kCPU));
  remote.to(default_device());
  BOOST_TEST(values(remote.forward(x)) == before, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(owner_errors_reach_the_caller) {
  const Group group(2);
  const RemoteModule<Encoder> remote(group[0], "w1", 3, 2);
  BOOST_CHECK_EXCEPTION(remote.forward(ones({1, 4}, {.dtype = kFloat64})), rpc::RemoteError, says("worker 'w1'"));
  StateDict dict = remote.state_dict();
  dict.insert("more", 1);
  BOOST_CHECK_EXCEPTION(remote.load_state_dict(dict), rpc::RemoteError, says("worker 'w1'", "more"));
  BOOST_TEST(remote.load_state_dict(dict, {.strict = false}).unexpected == std::vector<std::string>{"more"},
             boost::test_tools::per_element());
  BOOST_CHECK_EXCEPTION(remote.to(kInt64), rpc::RemoteError, says("RemoteModule::to", "floating"));
  const RemoteModule<Encoder> broken(group[0], "w1", 0, 2);
  BOOST_CHECK_EXCEPTION(broken.remote_parameters(), rpc::RpcError, says("in_features: got 0"));
}

BOOST_AUTO_TEST_CASE(backward_starts_at_a_remote_root) {
  const Group group(2);
  const RemoteModule<Encoder> remote(group[0], "w1", 3, 2);
  const Tensor x = leaf({0.5, -1, 2});
  Encoder local(3, 2);
  local.load_state_dict(remote.state_dict());
  local.loss(x).backward();
  const std::vector<rpc::RRef<Tensor>> params = remote.remote_parameters();
  {
    const Context context(group[0]);
    const rpc::RRef<Tensor> loss = remote.module_rref().remote<&Encoder::loss>(x * 1);
    backward(context, loss);
    BOOST_TEST(values(get_gradients(context).at(x)) == values(x.grad()), boost::test_tools::per_element());
    dist::DistributedOptimizer<optim::SGD> opt(group[0], params, {.lr = 1});
    opt.step(context);
    BOOST_CHECK_EXCEPTION(backward(context, loss), rpc::RemoteError, says("worker 'w1'"));  // its graph was freed
    BOOST_CHECK_EXCEPTION(backward(context, rpc::RRef<Tensor>()), AutogradError, says("refers to nothing"));
    BOOST_CHECK_EXCEPTION(backward(context, loss, {.create_graph = true}), AutogradError,
                          says("create_graph is not supported across workers"));
    backward(context, rpc::RRef<Tensor>(group[0], x.sum()));  // a root on this worker
    BOOST_TEST(values(get_gradients(context).at(x))[0] == values(x.grad())[0] + 1);
  }
  const Values bias = values(local.linear.bias), step = values(local.linear.bias.grad());
  const Values after = values(remote.state_dict().at("linear.bias"));
  for (std::size_t i = 0; i < 2; ++i) BOOST_TEST(std::abs(after[i] - (bias[i] - step[i])) < 1e-14);
}

BOOST_AUTO_TEST_CASE(second_derivatives_across_workers_are_rejected) {
  const Group group(2);
  const RemoteModule<Encoder> remote(group[0], "w1", 3, 2);
  const Tensor x = leaf({0.5, -1, 2});
  const Context context(group[0]);
  const Tensor loss = remote.forward<&Encoder::loss>(x * 1);
  BOOST_CHECK_EXCEPTION(backward(context, {loss}, {.create_graph = true}), AutogradError,
                        says("create_graph is not supported across workers"));
  BOOST_CHECK_EXCEPTION(autograd::grad({loss}, {x}, {}, {.create_graph = true}), AutogradError,
                        says("dist::autograd::backward"));
}

BOOST_AUTO_TEST_SUITE_END()
