// Collectives through NVIDIA's NCCL, skipped if the library or a device is missing. The first case calls its functions
// for a single member, because a process group of one does not use NCCL. The second uses a group of two where NCCL
// allows two members on one device (2.30 does, 2.28 does not). Members are threads that share the first device, each
// with its own stream.
#include <dlfcn.h>

#include <cstdlib>
#include <utility>

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/dist/collectives/detail/nccl_comm.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/kernels.h"
#include "tests/dist/collectives/trains_alike.h"

namespace real_nccl {

using namespace dist_test;

constexpr Device kDevice{DeviceType::cuda, 0};
const ProcessGroup::Options kByNccl{.timeout = 60s, .backend = dist::Backend::nccl};

boost::test_tools::assertion_result has_nccl(boost::unit_test::test_unit_id) {
#ifdef TENDRIL_EMULATED_DEVICES
  return false;
#else
  ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
  return device_count(DeviceType::cuda) >= 1 && ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL) != nullptr;
#endif
}

Tensor mine(int rank, DType dtype = kFloat32) {
  return (arange(0, 12, 1, {.dtype = kFloat64, .device = kCPU}) * (rank + 1.)).to(dtype).to(kDevice);
}
Values on_cpu(const Tensor& x) { return values(x.to(kCPU)); }
Values times(double factor) {
  Values all;
  for (int i = 0; i < 12; ++i) all.push_back(factor * i);
  return all;
}

/// Whether NCCL allows groups of this size on one device. Reports any error other than NCCL's refusal.
bool allows(int size) {
  const Group group{size};
  const auto said = outcomes(size, [&](int rank) { ProcessGroup members(group[rank], names(size), kByNccl); });
  bool all = true;
  for (const std::string& one : said) {
    if (one.empty()) continue;
    all = false;
    BOOST_TEST(has(one, "Duplicate GPU detected"), one);
  }
  return all;
}

/// Checks an operation of a communicator with one member, whose result must equal its input.
template <class F>
void check_alone(const char* what, const F& f) {
  const Tensor x = mine(0);
  const cuda::Stream stream = cuda::Stream::current(0);
  cuda::Event end;
  bool recorded = false;
  f(x, stream.native(), [&] {
    if (!std::exchange(recorded, true)) end.record(stream);
    return end.done();
  });
  BOOST_TEST(on_cpu(x) == times(1), what);
}

/// Runs every collective once, then checks that data-parallel training matches the ring.
void check_group(int size) {
  const Group group{size};
  const double sum = size * (size + 1) / 2.;
  at_all(size, [&](int rank) {
    const cuda::Stream own(0);  // NCCL's kernels wait for each other, so they must not share a queue
    const cuda::StreamGuard guard(own);
    ProcessGroup members(group[rank], names(size), kByNccl), ring(group[rank], names(size), {.tag = "ring"});
    check(members.backend() == dist::Backend::nccl);
    for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kFloat16, kInt64, kInt32, kUInt8}) {
      const Tensor x = mine(rank, dtype);
      members.all_reduce(x, ReduceOp::sum, {.deterministic = false});
      check(on_cpu(x) == times(sum));
    }
    const Tensor mean = mine(rank);
    members.all_reduce(mean, ReduceOp::average, {.deterministic = false});
    check(on_cpu(mean) == times(sum / size));
    const Tensor largest = mine(rank);
    members.all_reduce(largest, ReduceOp::max, {.deterministic = false});
    check(on_cpu(largest) == times(size));
    const Tensor last = mine(rank);
    members.broadcast(last, size - 1);
    check(on_cpu(last) == times(size));
    const auto all = members.all_gather(mine(rank));
    for (int r = 0; r < size; ++r) check(on_cpu(all[static_cast<std::size_t>(r)]) == times(r + 1));
    const Tensor part = members.reduce_scatter(mine(rank), ReduceOp::sum, {.deterministic = false});
    const auto whole = times(sum);
    check(on_cpu(part) == Values(whole.begin() + 12 / size * rank, whole.begin() + 12 / size * (rank + 1)));
    members.barrier();
    check_trains_alike(members, ring, mine(rank).reshape({3, 4}) / 12);
  });
}

}  // namespace real_nccl

BOOST_AUTO_TEST_SUITE(real_nccl, *boost::unit_test::precondition(real_nccl::has_nccl))

BOOST_AUTO_TEST_CASE(single_member_gets_its_own_input) {
  using namespace real_nccl;
  using dist::detail::NcclComm;
  NcclComm::load();
  const rpc::Clock::time_point deadline = rpc::Clock::now() + 60s;
  const auto look = [&] {
    if (rpc::Clock::now() > deadline) throw rpc::TimeoutError("NCCL takes too long");
  };
  const DeviceKernels current = kernels({DeviceType::cuda, 0});  // sets the current device, which NCCL reads
  NcclComm comm(NcclComm::new_id(), 0, 1, look);
  const std::size_t bytes = 12 * sizeof(float);
  check_alone("all_reduce", [&](const Tensor& x, void* stream, const auto& done) {
    comm.all_reduce(x.raw_data(), 12, kFloat32, ReduceOp::sum, stream, done, look);
  });
  check_alone("broadcast", [&](const Tensor& x, void* stream, const auto& done) {
    comm.broadcast(x.raw_data(), bytes, 0, stream, done, look);
  });
  check_alone("all_gather", [&](const Tensor& x, void* stream, const auto& done) {
    comm.all_gather(x.raw_data(), bytes, 0, stream, done, look);
  });
  check_alone("reduce_scatter", [&](const Tensor& x, void* stream, const auto& done) {
    comm.reduce_scatter(x.raw_data(), 12, 0, kFloat32, ReduceOp::sum, stream, done, look);
  });
}

BOOST_AUTO_TEST_CASE(two_members_share_a_device_if_allowed) {
  if (real_nccl::allows(2)) {
    real_nccl::check_group(2);
  } else {
    BOOST_TEST_MESSAGE("NCCL requires one device per member, but there is only one");
  }
}

BOOST_AUTO_TEST_SUITE_END()
