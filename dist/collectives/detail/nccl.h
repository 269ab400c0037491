#pragma once

#include <memory>

#include "tendril/dist/collectives/detail/carrier.h"
#include "tendril/dist/collectives/detail/nccl_comm.h"
#include "tendril/tensor/cuda/runtime.h"

namespace tendril::dist::detail {

/// Runs a group's collectives with NCCL, on tensors of the device that the group was made on and on the thread's
/// current stream there. The calling thread polls until the stream has completed the operation. If the deadline passes
/// or the channel fails, it aborts the communicator and with it the running operation.
class NcclGroup final : public CollectiveBackend {
 public:
  /// Collective over the members of the channel. Throws CollectiveError that names a member without a CUDA device or
  /// NCCL's library, and errors of the channel.
  static std::unique_ptr<CollectiveBackend> make(Channel& channel, rpc::Clock::time_point deadline);

  const char* name() const noexcept override { return "NCCL"; }
  bool moves(const Tensor& x) const noexcept override { return x.device() == device_; }
  bool reduces(const Tensor& x) const noexcept override { return moves(x) && nccl::type_of(x.dtype()) >= 0; }
  Tensor flat(const Tensor& x) const override;
  void all_reduce(Channel& channel, const Tensor& flat, ReduceOp op) override;
  void broadcast(Channel& channel, const Tensor& flat, int root) override;
  void all_gather(Channel& channel, const Tensor& flat) override;
  void reduce_scatter(Channel& channel, const Tensor& flat, ReduceOp op) override;

 private:
  NcclGroup(Device device, std::unique_ptr<NcclComm> comm) : device_(device), comm_(std::move(comm)) {}
  template <class F>
  void run(Channel& channel, const Tensor& flat, const F& f);

  const Device device_;
  const std::unique_ptr<NcclComm> comm_;
};

}  // namespace tendril::dist::detail
