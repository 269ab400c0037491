#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/cuda/runtime/capture.h"
#include "tendril/tensor/cuda/runtime/check.h"
#include "tendril/tensor/cuda/runtime/current.h"
#include "tendril/tensor/cuda/runtime/device.h"
#include "tendril/tensor/cuda/runtime/pinned.h"

namespace tendril::cuda {

namespace {

/// Memory that somebody else pinned.
bool is_pinned(const void* host) {
  cudaPointerAttributes attributes{};
  TENDRIL_CUDA("copy", cudaPointerGetAttributes, &attributes, host);
  return attributes.type == cudaMemoryTypeHost;
}

/// Lets `device` reach the memory of `peer` without the host's, where the machine can. Asked once for each pair.
void enable_peer_access(int device, int peer) {
  static std::mutex mutex;
  static std::set<std::pair<int, int>> asked;
  const std::lock_guard lock(mutex);
  if (!asked.emplace(device, peer).second) return;
  int can = 0;
  if (cudaDeviceCanAccessPeer(&can, device, peer) == cudaSuccess && can != 0) {
    const DeviceGuard guard(device);
    if (cudaDeviceEnablePeerAccess(peer, 0) == cudaSuccess) return;
  }
  cudaGetLastError();  // enabled already, or too many peers: copies go all the same
}

/// What the current stream of `from` holds now comes before what that of `to` will hold.
void order_after(int from, int to) {
  const DeviceGuard guard(from);
  Event made;
  made.record(Stream::current(from));
  Stream::current(to).wait(made);
}

}  // namespace

void copy_async(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes) {
  if (bytes == 0) return;
  if (to_device.is_cpu() && from_device.is_cpu()) {
    std::memcpy(to, from, bytes);
    return;
  }
  refuse_when_renewed("copy");
  if (to_device != from_device) {
    refuse_in_capture("copy",
                      "the host and other devices take no part in it (write inputs before a replay, read results "
                      "after it)");
  }
  if (to_device.is_cpu() || from_device.is_cpu() || to_device == from_device) {
    const Stream stream = Stream::current(to_device.is_cpu() ? from_device.index : to_device.index);
    const DeviceGuard guard(stream.device());
    TENDRIL_CUDA("copy", cudaMemcpyAsync, to, from, bytes, cudaMemcpyDefault, current_stream());
    if (to_device == from_device) return;
    const void* const host = to_device.is_cpu() ? to : from;
    if (note_pinned_use(host, stream) || is_pinned(host)) return;
    // The driver copies ordinary memory to a place of its own before it returns, or not: that is not promised. Waited
    // for by an event, as waiting for the stream would keep a processor busy.
    Event copied;
    copied.record(stream);
    copied.reach();
    return;
  }
  // The target may still be read by what its stream holds, and the source still be written by what its own holds. The
  // copy runs on the source's stream, between the two.
  enable_peer_access(from_device.index, to_device.index);
  enable_peer_access(to_device.index, from_device.index);
  order_after(to_device.index, from_device.index);
  {
    const DeviceGuard guard(from_device.index);
    TENDRIL_CUDA("copy", cudaMemcpyPeerAsync, to, to_device.index, from, from_device.index, bytes, current_stream());
  }
  order_after(from_device.index, to_device.index);
}

void transfer(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes, bool non_blocking) {
  copy_async(to, to_device, from, from_device, bytes);
  if (non_blocking || (!to_device.is_cpu() && !from_device.is_cpu())) return;
  Stream::current(to_device.is_cpu() ? from_device.index : to_device.index).synchronize();
}

}  // namespace tendril::cuda
