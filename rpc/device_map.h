#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "tendril/rpc/worker.h"
#include "tendril/tensor/device.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// Where tensors go on one peer: from a device of this worker to one of the peer's, one to one.
///
///     {.device_maps = {{"ps", {{0, 1}}}}}   // tensors on this worker's cuda:0 arrive at "ps" on its cuda:1
///
/// The results of calls, and gradients, come back the other way. A tensor on a CUDA device that the map does not
/// mention cannot be sent; one on the CPU then goes to the CPU. The empty map stands for the same device on both sides.
class DeviceMap {
 public:
  /// A device here, and what it is there.
  struct Entry {
    Device local, remote;                    ///< here, and there
    Entry(int local_cuda, int remote_cuda);  ///< throws UsageError for an index out of range
    Entry(Device from, Device to);
    friend bool operator==(const Entry&, const Entry&) = default;
  };

  DeviceMap() = default;
  /// Throws UsageError unless it is one to one.
  DeviceMap(std::initializer_list<Entry> entries) : DeviceMap(std::vector<Entry>(entries)) {}
  explicit DeviceMap(std::vector<Entry> entries);

  /// Whether no device is mapped.
  bool empty() const noexcept { return entries_.empty(); }
  /// All pairs of devices.
  const std::vector<Entry>& entries() const noexcept { return entries_; }
  std::optional<Device> remote_of(Device local) const noexcept;  ///< nothing: it has no place there
  /// The device that is sent to `remote`; the same one where nothing is mapped.
  std::optional<Device> local_of(Device remote) const noexcept;
  std::string to_string() const;  ///< "{cuda:0 -> cuda:1}", "{same index}"

  friend bool operator==(const DeviceMap&, const DeviceMap&) = default;

 private:
  std::vector<Entry> entries_;
};

inline constexpr int kMaxCudaDevices = 128;  ///< that a worker can name: Device::index has 7 bits

/// What a worker says of its devices when it connects to a peer.
struct DeviceReport {
  int cuda_devices = 0;   ///< how many it has
  DeviceMap map = {};     ///< from its devices to the peer's
  bool cuda_ipc = false;  ///< AgentOptions::cuda_ipc

  friend bool operator==(const DeviceReport&, const DeviceReport&) = default;
};

std::string devices_of(const DeviceReport& report);  ///< "no CUDA device", "2 CUDA devices": for errors

/// Throws UsageError, naming both workers and the map, where `worker` maps a device that it has not, or to one that
/// `peer` has not.
void check_device_map(const WorkerInfo& worker, const DeviceReport& of_worker, const WorkerInfo& peer,
                      const DeviceReport& of_peer);

}  // namespace tendril::rpc

TENDRIL_API_END
