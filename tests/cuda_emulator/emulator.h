#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

/// A CUDA device that is not there. The CUDA runtime's own functions (memory, streams, events, copies) are defined in
/// this folder against the toolkit's headers, and kernels are host functions that `launch` (device.h) runs thread by
/// thread, a fibre for each thread that waits for others.
///
/// It is as unkind as the documentation allows: queued work runs only when something waits for it, the threads and
/// blocks of a kernel in a shuffled order; device memory starts as 0xFF bytes and cannot be touched by host code; a
/// barrier that not all live threads of a block reach, or a shuffle from a lane that takes no part, ends the process
/// with a message. It is not a model of speed, of memory coalescing or of registers, runs one thread of one kernel at a
/// time (so no data race between threads without a barrier in between shows except through the order), lets a kernel
/// read pageable host memory, and knows static shared memory only as the C++ static that it is: its size is not
/// checked, and a block finds in it what the one before left.
///
/// The environment: TENDRIL_EMULATED_DEVICES (2), TENDRIL_EMULATED_MEMORY (bytes of each device, 1 GiB),
/// TENDRIL_EMULATED_SEED (of the orders), CUDA_VISIBLE_DEVICES.
namespace cuda_emulator {

/// Queues host code that stands for a kernel, as cuBLAS and cuDNN queue theirs: `work` runs when the stream comes to
/// it, may touch the device memory of the stream's device, and must not call the runtime. A stream of another device
/// than the thread's current one is cudaErrorInvalidResourceHandle.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);

/// What this process has asked for so far.
struct Counters {
  std::uint64_t launches = 0;
  std::uint64_t enqueued = 0;  ///< by `enqueue`
  std::uint64_t copies = 0;
  std::uint64_t copied_bytes = 0;
  std::uint64_t fills = 0;
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t allocated_bytes = 0;   ///< now, on all devices
  std::uint64_t synchronisations = 0;  ///< calls that made the host wait
  std::uint64_t executed = 0;          ///< pieces of queued work that have run
};
Counters counters();

}  // namespace cuda_emulator
