#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "tendril/tensor/cuda/runtime/capture.h"
#include "tendril/tensor/cuda/runtime/current.h"

namespace tendril::cuda {

/// The calling thread's own Handle for its current device; Handle's constructor makes one for the current device.
///
/// A library's handle costs milliseconds and device memory, and serves one thread at a time. So a thread borrows one
/// for each device that it uses, and leaves it to later threads when it ends. None is ever destroyed: when a process
/// ends, the driver may be gone before them.
template <class Handle>
Handle& thread_handle() {
  using ByDevice = std::vector<std::unique_ptr<Handle>>;
  struct Pool {
    std::mutex mutex;
    std::vector<ByDevice> idle;  // by device
  };
  static Pool& pool = *new Pool;
  struct Borrowed {
    ByDevice handles;
    ~Borrowed() {
      const std::lock_guard lock(pool.mutex);
      for (std::size_t device = 0; device < handles.size(); ++device) {
        if (handles[device]) pool.idle[device].push_back(std::move(handles[device]));
      }
    }
  };
  thread_local Borrowed borrowed;

  refuse_when_renewed("a library's operation");
  const auto device = static_cast<std::size_t>(current_device());
  if (device < borrowed.handles.size() && borrowed.handles[device]) [[likely]]
    return *borrowed.handles[device];
  if (device >= borrowed.handles.size()) borrowed.handles.resize(device + 1);
  {
    const std::lock_guard lock(pool.mutex);
    if (device >= pool.idle.size()) pool.idle.resize(device + 1);
    if (!pool.idle[device].empty()) {
      borrowed.handles[device] = std::move(pool.idle[device].back());
      pool.idle[device].pop_back();
    }
  }
  if (!borrowed.handles[device]) borrowed.handles[device] = std::make_unique<Handle>();
  return *borrowed.handles[device];
}

}  // namespace tendril::cuda
