// Collectives on device tensors through a fake NCCL library. Members are threads that share the first device.
#include <latch>

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tests/dist/collectives/nccl.h"
#include "tests/dist/collectives/trains_alike.h"

namespace nccl_group {

using namespace dist_test;

constexpr int kSize = 3;
constexpr Device kDevice{DeviceType::cuda, 0};

struct Fixture : WithFakeNccl {
  Fixture() {
    fake->read = [](void* host, const void* device, std::size_t bytes) {
      cuda::copy_async(host, kCPU, device, kDevice, bytes);
    };
    fake->write = [](void* device, const void* host, std::size_t bytes) {
      cuda::copy_async(device, kDevice, host, kCPU, bytes);
    };
  }
  const Group group{kSize};
};

boost::test_tools::assertion_result has_device(boost::unit_test::test_unit_id) {
  return device_count(DeviceType::cuda) >= 1;
}

const ProcessGroup::Options kByNccl{.backend = dist::Backend::nccl};

Tensor mine(int rank, const Dims& sizes, DType dtype = kFloat32) {
  return (arange(0, 12, 1, {.dtype = kFloat64, .device = kCPU}).reshape(sizes) * (rank + 1.)).to(dtype).to(kDevice);
}
Values on_cpu(const Tensor& x) {
  check(x.device() == kDevice);
  return values(x.to(kCPU));
}
Values times(double factor) {
  Values all;
  for (int i = 0; i < 12; ++i) all.push_back(factor * i);
  return all;
}

}  // namespace nccl_group

#ifdef TENDRIL_EMULATED_DEVICES
namespace tendril::cuda {
int current_device();  // declared in tensor/cuda/runtime/current.h, whose includes are unavailable here
}
#endif

BOOST_FIXTURE_TEST_SUITE(nccl_group, Fixture, *boost::unit_test::precondition(has_device))

BOOST_AUTO_TEST_CASE(collectives_run_on_device_tensors) {
  at_all(kSize, [&](int rank) {
    ProcessGroup members(group[rank], names(kSize), kByNccl);
    check(members.backend() == dist::Backend::nccl);
    const Tensor x = mine(rank, {3, 4});
    members.all_reduce(x, ReduceOp::average, {.deterministic = false});
    check(on_cpu(x) == times(2));
    const Tensor turned = mine(rank, {4, 3}, kInt64).transpose(0, 1);
    members.all_reduce(turned, ReduceOp::sum, {.deterministic = false});
    check(on_cpu(turned.transpose(0, 1)) == times(6));
    const Tensor root = mine(rank, {12});
    members.broadcast(root, 1);
    check(on_cpu(root) == times(2));
    const auto all = members.all_gather(mine(rank, {12}));
    for (int r = 0; r < kSize; ++r) check(on_cpu(all[static_cast<std::size_t>(r)]) == times(r + 1));
    const Tensor part = members.reduce_scatter(mine(rank, {3, 4}), ReduceOp::sum, {.deterministic = false});
    const auto sum = times(6);
    check(on_cpu(part) == Values(sum.begin() + 4 * rank, sum.begin() + 4 * rank + 4));
    members.all_reduce(zeros({0}, {.device = kDevice}), ReduceOp::sum, {.deterministic = false});
    members.barrier();
  });
}

#ifdef TENDRIL_EMULATED_DEVICES
// A communicator belongs to the device that is current when it is created.
BOOST_AUTO_TEST_CASE(group_device_is_current_during_nccl_calls) {
  static constexpr Device kSecond{DeviceType::cuda, 1};
  fake->current_device = &cuda::current_device;
  fake->read = [](void* host, const void* device, std::size_t bytes) {
    check(cuda::current_device() == kSecond.index);
    cuda::copy_async(host, kCPU, device, kSecond, bytes);
  };
  fake->write = [](void* device, const void* host, std::size_t bytes) {
    cuda::copy_async(device, kSecond, host, kCPU, bytes);
  };
  const DefaultDeviceGuard guard(kSecond);
  // Creates the context of kDevice, so that operations on the second device return to it.
  (void)ones({1}, {.device = kDevice});
  at_all(kSize, [&](int rank) {
    ProcessGroup members(group[rank], names(kSize), kByNccl);
    const Tensor x = mine(rank, {12}).to(kSecond);
    members.all_reduce(x, ReduceOp::sum, {.deterministic = false});
    check(values(x.to(kCPU)) == times(6));
  });
}
#endif

BOOST_AUTO_TEST_CASE(cpu_and_deterministic_operations_use_the_ring) {
  fake->refusing = true;
  at_all(kSize, [&](int rank) {
    ProcessGroup members(group[rank], names(kSize), kByNccl);
    const Tensor x = mine(rank, {12}), y = x.to(kCPU);
    members.all_reduce(x, ReduceOp::sum, {.deterministic = true});
    members.all_reduce(y, ReduceOp::sum, {.deterministic = false});
    check(on_cpu(x) == times(6));
    check(values(y) == times(6));
  });
}

BOOST_AUTO_TEST_CASE(async_operations_follow_queued_work) {
  at_all(kSize, [&](int rank) {
    ProcessGroup members(group[rank], names(kSize), kByNccl);
    const cuda::Stream stream(0);
    const cuda::StreamGuard guard(stream);
    std::vector<Tensor> xs;
    std::vector<rpc::Future<void>> done;
    for (int i = 0; i < 4; ++i) {
      xs.push_back(mine(rank, {12}) + i);
      done.push_back(members.all_reduce_async(xs.back(), ReduceOp::sum, {.deterministic = false}));
    }
    for (int i = 0; i < 4; ++i) {
      const auto at = static_cast<std::size_t>(i);
      done[at].wait();
      check(on_cpu(xs[at] - 3 * i) == times(6));
    }
  });
}

BOOST_AUTO_TEST_CASE(divergent_or_absent_members_are_named) {
  const auto differing = outcomes(kSize, [&](int rank) {
    ProcessGroup members(group[rank], names(kSize), kByNccl);
    const Tensor x = mine(rank, {12});
    members.all_reduce(rank == 1 ? x.to(kCPU) : x, ReduceOp::sum, {.deterministic = false});
  });
  for (const std::string& said : differing) {
    BOOST_TEST(has(said, "calls all_reduce(sum, by NCCL) of float32 [12]"), said);
    BOOST_TEST(has(said, "calls all_reduce(sum) of float32 [12]"), said);
  }
  std::latch others(2);
  const auto missing = outcomes(kSize, [&](int rank) {
    ProcessGroup members(group[rank], names(kSize), kByNccl);
    if (rank == 2) return others.wait();
    const struct Left {
      ~Left() { latch.count_down(); }
      std::latch& latch;
    } left{others};
    members.all_reduce(mine(rank, {12}), ReduceOp::sum, {.timeout = 300ms, .deterministic = false});
  });
  for (const std::size_t rank : {0u, 1u}) {
    BOOST_TEST(has(missing[rank], "TimeoutError: "), missing[rank]);
    BOOST_TEST(has(missing[rank], "worker 'w2' has not called it"), missing[rank]);
  }
}

BOOST_AUTO_TEST_CASE(nccl_error_reaches_all_members) {
  const auto said = outcomes(kSize, [&](int rank) {
    ProcessGroup members(group[rank], names(kSize), kByNccl);
    members.barrier();
    fake->broken = true;
    members.all_reduce(mine(rank, {12}), ReduceOp::sum, {.deterministic = false});
  });
  for (const std::string& mine : said) BOOST_TEST(has(mine, "(the cable is out)"), mine);
}

BOOST_AUTO_TEST_CASE(data_parallel_training_matches_the_ring) {
  at_all(kSize, [&](int rank) {
    ProcessGroup by_nccl(group[rank], names(kSize), {.tag = "nccl", .backend = dist::Backend::nccl}),
        ring(group[rank], names(kSize));
    check_trains_alike(by_nccl, ring, mine(rank, {3, 4}) / 12);
  });
}

BOOST_AUTO_TEST_SUITE_END()
