// Autograd graphs that span workers and devices.
#include <cmath>

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/dist/nn/data_parallel.h"
#include "tendril/rpc/rref.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tests/dist/collectives/members.h"

BOOST_AUTO_TEST_SUITE(gpu)

using namespace dist_test;

Device cuda_device(int index) { return {DeviceType::cuda, static_cast<int8_t>(index)}; }

Tensor squared(const Tensor& x) { return x * x; }
/// Computes on the CPU of the serving worker; the result is on the device of x.
Tensor cube_on_cpu(const Tensor& x) {
  const Tensor y = x.to(kCPU);
  return (y * y * y).to(x.device());
}
Tensor squared_at_w2(const Tensor& x) { return rpc::rpc_sync<&squared>(Cluster::agent(1), 2, x) * x; }
namespace {

boost::test_tools::assertion_result devices_there(int count) { return device_count(DeviceType::cuda) >= count; }
boost::test_tools::assertion_result has_device(boost::unit_test::test_unit_id) { return devices_there(1); }
boost::test_tools::assertion_result has_two(boost::unit_test::test_unit_id) { return devices_there(2); }

Tensor leaf_on(Device device) { return tensor({3.}, {.dtype = kFloat64, .device = device, .requires_grad = true}); }

/// Returns the gradient of `f(x)` at x = 3, which must be on the device of x.
template <class F>
double slope(const Group& group, const Tensor& x, F f) {
  const Context context(group[0]);
  const Tensor y = f(x);
  backward(context, {y});
  const Tensor gradient = get_gradients(context).at(x);
  BOOST_TEST(gradient.device() == x.device());
  return gradient.item<double>();
}

rpc::AgentOptions mapped(std::map<std::string, rpc::DeviceMap> maps) {
  rpc::AgentOptions options;
  options.device_maps = std::move(maps);
  return options;
}

}  // namespace

BOOST_TEST_DECORATOR(*boost::unit_test::precondition(has_device))

BOOST_AUTO_TEST_CASE(gradient_arrives_on_the_leafs_device) {
  const Group group(3);
  const Tensor x = leaf_on(cuda_device(0));
  BOOST_TEST(slope(group, x, [&](const Tensor& t) { return rpc::rpc_sync<&squared>(group[0], 1, t); }) == 6);
  BOOST_TEST(slope(group, x, [&](const Tensor& t) { return rpc::rpc_sync<&squared>(group[0], 0, t); }) == 6);
  BOOST_TEST(slope(group, x, [&](const Tensor& t) { return rpc::rpc_sync<&cube_on_cpu>(group[0], 1, t); }) == 27);
  BOOST_TEST(slope(group, x, [&](const Tensor& t) { return rpc::rpc_sync<&squared_at_w2>(group[0], 1, t); }) == 27);
  BOOST_TEST(
      slope(group, x, [&](const Tensor& t) { return rpc::remote<&squared>(group[0], 1, t).to_here().to(kCPU); }) == 6);
}

BOOST_AUTO_TEST_CASE(device_map_is_reversed_in_backward, *boost::unit_test::precondition(has_two)) {
  const Group group(3, mapped({{"w1", {{0, 1}}}, {"w2", {{1, 0}}}}));
  const Tensor x = leaf_on(cuda_device(0));
  BOOST_TEST(slope(group, x, [&](const Tensor& t) { return rpc::rpc_sync<&squared>(group[0], 1, t); }) == 6);
  BOOST_TEST(slope(group, x, [&](const Tensor& t) { return rpc::rpc_sync<&squared_at_w2>(group[0], 1, t); }) == 27);
}

BOOST_AUTO_TEST_CASE(cpu_to_gpu_map_is_reversed_too) {
  const Group group(2, mapped({{"w1", {{kCPU, cuda_device(0)}}}}));
  const Tensor x = leaf_on(kCPU);
  BOOST_TEST(slope(group, x, [&](const Tensor& t) { return rpc::rpc_sync<&squared>(group[0], 1, t); }) == 6);
}

BOOST_AUTO_TEST_CASE(averaged_gradients_are_on_parameter_device) {
  const Group group(3);
  at_all(2, [&](int rank) {
    struct Net : nn::Module {
      Net() { register_parameter("w", w); }
      Tensor w = leaf_on(cuda_device(0));
    } net;
    ProcessGroup members(group[rank], names(2));
    dist::DistributedDataParallel ddp(net, members);
    const Context context(group[rank]);
    ddp.backward(context, rpc::rpc_sync<&squared>(group[rank], 2, net.w * (rank + 1)));  // slopes 6 and 24
    const Tensor gradient = get_gradients(context).at(net.w);
    check(gradient.device() == net.w.device());
    check(gradient.item<double>() == 15);
  });
}

BOOST_AUTO_TEST_CASE(gradients_are_ready_on_the_callers_stream) {
  const Group group(2);
  const cuda::Stream stream(0);
  const cuda::StreamGuard guard(stream);
  for (int i = 1; i <= 10; ++i) {
    for (const Mode mode : {Mode::smart, Mode::fast}) {
      const TensorOptions options{.dtype = kFloat64, .device = cuda_device(0)};
      const Tensor x = full({100'000}, i, options).requires_grad_();
      const Context context(group[0]);
      const Tensor h = x * x;
      const Tensor y = rpc::rpc_sync<&squared>(group[0], 1, h);
      cuda::Event arrived;  // RPC delivers tensors on the default stream
      arrived.record(cuda::Stream::default_of(0));
      stream.wait(arrived);
      backward(context, {(y * h).sum()}, {.mode = mode});  // x to the sixth; its backward passes through w1
      BOOST_TEST(equal(get_gradients(context).at(x), full({100'000}, 6 * std::pow(i, 5), options)));
    }
  }
}

BOOST_AUTO_TEST_CASE(released_contexts_free_device_memory) {
  const int64_t before = cuda::memory_stats(0).live_bytes;
  {
    const Group group(2);
    const Tensor x = leaf_on(cuda_device(0));
    for (int i = 0; i < 3; ++i) {
      slope(group, x, [&](const Tensor& t) { return rpc::rpc_sync<&squared>(group[0], 1, t); });
    }
  }
  BOOST_TEST(Cluster::eventually([&] { return cuda::memory_stats(0).live_bytes == before; }));
}

BOOST_AUTO_TEST_SUITE_END()
