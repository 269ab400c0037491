#include "tendril/dist/collectives/detail/nccl.h"

#include <cstring>
#include <string>
#include <utility>

#include "tendril/dist/collectives/detail/operation.h"
#include "tendril/dist/collectives/detail/ring.h"
#include "tendril/rpc/executor.h"
#include "tendril/tensor/detail/replay.h"
#include "tendril/tensor/kernels.h"
#include "tendril/tensor/raw.h"

namespace tendril::dist::detail {

namespace {

Device device_of_group() {
  const Device device = default_device();
  return device.type == DeviceType::cuda ? device : cuda::local_device();
}

}  // namespace

std::unique_ptr<CollectiveBackend> NcclGroup::make(Channel& channel, rpc::Clock::time_point deadline) {
  const int size = channel.size(), rank = channel.rank();
  std::string problem;
  Device device;
  nccl::Id id{};
  try {
    NcclComm::load();
    device = device_of_group();
    (void)raw::zeros({1}, kUInt8, device);  // throws if the device cannot be used
    if (rank == 0) id = NcclComm::new_id();
  } catch (const Error& error) {
    problem = error.what();
  }
  std::unique_ptr<NcclComm> comm;
  in_operation(channel, "ProcessGroup by NCCL", deadline, [&] {
    const Tensor there = raw::zeros({size}, kUInt8, kCPU), bytes = raw::zeros({sizeof id.bytes}, kUInt8, kCPU);
    there.mutable_data<uint8_t>()[rank] = problem.empty();
    std::memcpy(bytes.mutable_data<uint8_t>(), id.bytes, sizeof id.bytes);
    if (size > 1) {
      ring_all_gather(channel, there, 1);
      chain_broadcast(channel, bytes, 0, sizeof id.bytes);
    }
    if (!problem.empty()) throw CollectiveError("ProcessGroup: backend NCCL: " + problem);
    for (int i = 0; i < size; ++i) {
      const std::string& name = channel.members()[static_cast<std::size_t>(i)].name;
      if (there.data<uint8_t>()[i] == 0)
        throw CollectiveError("ProcessGroup: backend NCCL: worker '" + name + "' cannot use NCCL");
    }
    std::memcpy(id.bytes, bytes.data<uint8_t>(), sizeof id.bytes);
    rpc::blocking([&] {
      const DeviceKernels current = kernels(device);  // the communicator will belong to this device
      comm = std::make_unique<NcclComm>(id, rank, size, [&] { channel.check_time(); });
    });
  });
  return std::unique_ptr<CollectiveBackend>(new NcclGroup(device, std::move(comm)));
}

Tensor NcclGroup::flat(const Tensor& x) const { return raw::reshape(raw::contiguous(x), {x.numel()}); }

template <class F>
void NcclGroup::run(Channel& channel, const Tensor& flat, const F& f) {
  TENDRIL_CHECK(!tendril::detail::recorder(), "ProcessGroup: backend NCCL: cannot be recorded in a cuda::Graph");
  agree(channel);
  if (flat.numel() == 0) return;
  const cuda::Stream stream = cuda::Stream::current(device_.index);
  cuda::record_stream(flat, stream);  // keeps the memory from reuse while NCCL works on it
  cuda::Event end;
  bool recorded = false;
  const auto done = [&] {
    if (!std::exchange(recorded, true)) end.record(stream);
    return end.done();
  };
  rpc::blocking([&] {
    const DeviceKernels current = kernels(device_);
    f(stream.native(), done, [&] { channel.check_time(); });
  });
}

void NcclGroup::all_reduce(Channel& channel, const Tensor& flat, ReduceOp op) {
  run(channel, flat, [&](void* stream, const auto& done, const auto& look) {
    comm_->all_reduce(flat.raw_data(), static_cast<std::size_t>(flat.numel()), flat.dtype(), op, stream, done, look);
  });
}

void NcclGroup::broadcast(Channel& channel, const Tensor& flat, int root) {
  run(channel, flat, [&](void* stream, const auto& done, const auto& look) {
    const std::size_t bytes = static_cast<std::size_t>(flat.numel()) * size_of(flat.dtype());
    comm_->broadcast(flat.raw_data(), bytes, root, stream, done, look);
  });
}

void NcclGroup::all_gather(Channel& channel, const Tensor& flat) {
  run(channel, flat, [&](void* stream, const auto& done, const auto& look) {
    const std::size_t each = static_cast<std::size_t>(flat.numel() / channel.size()) * size_of(flat.dtype());
    comm_->all_gather(flat.raw_data(), each, channel.rank(), stream, done, look);
  });
}

void NcclGroup::reduce_scatter(Channel& channel, const Tensor& flat, ReduceOp op) {
  run(channel, flat, [&](void* stream, const auto& done, const auto& look) {
    const auto each = static_cast<std::size_t>(flat.numel() / channel.size());
    comm_->reduce_scatter(flat.raw_data(), each, channel.rank(), flat.dtype(), op, stream, done, look);
  });
}

}  // namespace tendril::dist::detail
