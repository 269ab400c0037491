#pragma once

#include <cstddef>
#include <utility>

#include "tendril/rpc/device_map.h"
#include "tendril/rpc/wire/message.h"

namespace tendril::rpc::detail {

/// Where tensors go on one connection. Requests go by this worker's map; replies by the inverse of the peer's, so that
/// a result comes back to where the arguments came from. Immutable.
class DeviceRoutes {
 public:
  DeviceRoutes(WorkerInfo peer, DeviceReport mine, DeviceReport theirs)
      : peer_(std::move(peer)), mine_(std::move(mine)), theirs_(std::move(theirs)) {}

  /// Fills in `message.placements`, unless everything goes from CPU to CPU. Placements that are there already say where
  /// to (gradients go back to where the tensors came from); their `from` is filled in. Throws UsageError, naming the
  /// worker, the device and the map, for a tensor that has no place at the peer.
  void place(Message& message) const;

  /// Whether both sides were told to take part in lending device memory.
  bool lend() const noexcept { return mine_.cuda_ipc && theirs_.cuda_ipc; }

 private:
  Device target(const Message& message, std::size_t index) const;
  template <class Why>
  [[noreturn]] void refuse(const Message& message, std::size_t index, Why why) const;

  const WorkerInfo peer_;
  const DeviceReport mine_, theirs_;
};

}  // namespace tendril::rpc::detail
