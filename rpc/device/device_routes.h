#pragma once

#include <cstddef>
#include <utility>

#include "tendril/rpc/device_map.h"
#include "tendril/rpc/wire/message.h"

namespace tendril::rpc::detail {

/// Selects the target devices of tensors sent to one peer. Requests use this worker's map. Replies use the inverse of
/// the peer's, so that a result returns to the devices of the arguments. Immutable.
class DeviceRoutes {
 public:
  DeviceRoutes(WorkerInfo peer, DeviceReport mine, DeviceReport theirs)
      : peer_(std::move(peer)), mine_(std::move(mine)), theirs_(std::move(theirs)) {}

  /// Fills in `message.placements`, or leaves it empty if all tensors go from CPU to CPU. Existing placements keep
  /// their `to` (gradients return to the devices of their tensors), and only their `from` is filled in. If a tensor has
  /// no target device at the peer, throws a UsageError that names the worker, the device and the map.
  void place(Message& message) const;

  /// Whether lending of device memory is enabled on both sides.
  bool lend() const noexcept { return mine_.cuda_ipc && theirs_.cuda_ipc; }

 private:
  Device target(const Message& message, std::size_t index) const;
  template <class Why>
  [[noreturn]] void refuse(const Message& message, std::size_t index, Why why) const;

  const WorkerInfo peer_;
  const DeviceReport mine_, theirs_;
};

}  // namespace tendril::rpc::detail
