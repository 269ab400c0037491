#include "tendril/rpc/device_map.h"

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <utility>

#include "tendril/rpc/error.h"

namespace tendril::rpc {
namespace {

Device cuda_device(int index) {
  TENDRIL_CHECK_AS(UsageError, index >= 0 && index <= INT8_MAX, "DeviceMap: there is no device cuda:", index);
  return {DeviceType::cuda, static_cast<int8_t>(index)};
}

bool has(const DeviceReport& report, Device device) {
  return device.is_cpu() || (device.index >= 0 && device.index < report.cuda_devices);
}

}  // namespace

DeviceMap::Entry::Entry(int local_cuda, int remote_cuda)
    : local(cuda_device(local_cuda)), remote(cuda_device(remote_cuda)) {}

DeviceMap::Entry::Entry(Device from, Device to) : local(from), remote(to) {
  for (const Device device : {from, to}) {
    TENDRIL_CHECK_AS(UsageError, device.is_cpu() ? device.index == 0 : device.index >= 0,
                     "DeviceMap: there is no device ", device.is_cpu() ? "cpu:" : "cuda:", int{device.index});
  }
}

DeviceMap::DeviceMap(std::vector<Entry> entries) : entries_(std::move(entries)) {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      TENDRIL_CHECK_AS(UsageError, entries_[i].local != entries_[j].local, "DeviceMap: ", to_string(), " maps ",
                       entries_[i].local, " twice");
      TENDRIL_CHECK_AS(UsageError, entries_[i].remote != entries_[j].remote, "DeviceMap: ", to_string(),
                       " maps two devices to ", entries_[i].remote, ", so results could not be mapped back");
    }
  }
}

std::optional<Device> DeviceMap::remote_of(Device local) const noexcept {
  if (entries_.empty()) return local;
  for (const Entry& entry : entries_) {
    if (entry.local == local) return entry.remote;
  }
  return local.is_cpu() ? std::optional(kCPU) : std::nullopt;
}

std::optional<Device> DeviceMap::local_of(Device remote) const noexcept {
  if (entries_.empty()) return remote;
  for (const Entry& entry : entries_) {
    if (entry.remote == remote) return entry.local;
  }
  return remote.is_cpu() ? std::optional(kCPU) : std::nullopt;
}

std::string DeviceMap::to_string() const {
  if (entries_.empty()) return "{same index}";
  std::ostringstream text;
  const char* separator = "{";
  for (const Entry& entry : entries_) {
    text << separator << entry.local << " -> " << entry.remote;
    separator = ", ";
  }
  text << '}';
  return text.str();
}

std::string devices_of(const DeviceReport& report) {
  if (report.cuda_devices == 0) return "no CUDA device";
  return std::to_string(report.cuda_devices) + (report.cuda_devices == 1 ? " CUDA device" : " CUDA devices");
}

void check_device_map(const WorkerInfo& worker, const DeviceReport& of_worker, const WorkerInfo& peer,
                      const DeviceReport& of_peer) {
  for (const DeviceMap::Entry& entry : of_worker.map.entries()) {
    TENDRIL_CHECK_AS(UsageError, has(of_worker, entry.local), "the device map ", of_worker.map.to_string(), " of ",
                     name_of(worker), " for ", name_of(peer), " names ", entry.local, " here, but ", name_of(worker),
                     " has ", devices_of(of_worker));
    TENDRIL_CHECK_AS(UsageError, has(of_peer, entry.remote), "the device map ", of_worker.map.to_string(), " of ",
                     name_of(worker), " for ", name_of(peer), " names ", entry.remote, " there, but ", name_of(peer),
                     " has ", devices_of(of_peer));
  }
}

}  // namespace tendril::rpc
