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

/// A one-to-one map from devices of this worker to devices of one peer, to which tensors are sent.
///
///     {.device_maps = {{"ps", {{0, 1}}}}}   // tensors on this worker's cuda:0 arrive at "ps" on its cuda:1
///
/// Results of calls and gradients are mapped in the opposite direction. A tensor on a CUDA device that the map does not
/// contain cannot be sent. If the map does not contain the CPU, tensors on the CPU stay on the CPU. The empty map means
/// the same device on both sides.
class DeviceMap {
 public:
  /// A pair of devices.
  struct Entry {
    Device local, remote;                    ///< on this worker, and on the peer
    Entry(int local_cuda, int remote_cuda);  ///< throws UsageError if an index is out of range
    Entry(Device from, Device to);
    friend bool operator==(const Entry&, const Entry&) = default;
  };

  DeviceMap() = default;
  /// Throws UsageError if the map is not one-to-one.
  DeviceMap(std::initializer_list<Entry> entries) : DeviceMap(std::vector<Entry>(entries)) {}
  explicit DeviceMap(std::vector<Entry> entries);

  /// Whether the map has no entries.
  bool empty() const noexcept { return entries_.empty(); }
  /// All entries, in the order in which they were given.
  const std::vector<Entry>& entries() const noexcept { return entries_; }
  std::optional<Device> remote_of(Device local) const noexcept;  ///< nullopt: cannot be sent there
  /// The device of this worker that is mapped to `remote`; `remote` itself if the map is empty.
  std::optional<Device> local_of(Device remote) const noexcept;
  std::string to_string() const;  ///< "{cuda:0 -> cuda:1}", "{same index}"

  friend bool operator==(const DeviceMap&, const DeviceMap&) = default;

 private:
  std::vector<Entry> entries_;
};

inline constexpr int kMaxCudaDevices = 128;  ///< limit on devices of one worker: Device::index has 7 bits

/// The devices that a worker reports when it connects to a peer.
struct DeviceReport {
  int cuda_devices = 0;   ///< number of its CUDA devices
  DeviceMap map = {};     ///< from its devices to the peer's
  bool cuda_ipc = false;  ///< see AgentOptions::cuda_ipc

  friend bool operator==(const DeviceReport&, const DeviceReport&) = default;
};

std::string devices_of(const DeviceReport& report);  ///< "no CUDA device" or "2 CUDA devices", for errors

/// Throws UsageError, naming both workers and the map, if `worker` maps a device that it does not have, or maps one to
/// a device that `peer` does not have.
void check_device_map(const WorkerInfo& worker, const DeviceReport& of_worker, const WorkerInfo& peer,
                      const DeviceReport& of_peer);

}  // namespace tendril::rpc

TENDRIL_API_END
