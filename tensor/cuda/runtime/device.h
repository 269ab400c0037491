#pragma once

#include <cstddef>

#include "tendril/tensor/device.h"

/// What tensor/ itself asks of the CUDA backend. Exactly one of absent.cpp and the rest of tensor/cuda defines these:
/// only that folder knows whether CUDA was found.
namespace tendril::cuda {

int device_count() noexcept;

struct Allocation {
  void* data = nullptr;
  void* block = nullptr;  ///< what `release` takes
};
/// `bytes` on `device`, for the thread's current stream there. Throws Error without a device, and when memory runs out:
/// then with a table of what is live.
Allocation allocate(std::size_t bytes, Device device);
void release(void* block) noexcept;

/// Copies from one device to another, of which at most one is the CPU, in order with the current streams of both.
/// Waits for the copy where host memory is involved, unless `non_blocking`: then where it is not pinned.
void transfer(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes, bool non_blocking);

}  // namespace tendril::cuda
