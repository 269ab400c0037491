#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <vector>

/// A CUDA device that is not there. The CUDA runtime's own functions (memory, streams, events, copies) are defined in
/// this folder against the toolkit's headers, and kernels are host functions that `launch` (device.h) runs thread by
/// thread, a fibre for each thread that waits for others.
///
/// It is as unkind as the documentation allows: queued work runs only when something waits for it, the threads and
/// blocks of a kernel in a shuffled order; a destroyed stream's handle is the next stream's; an
/// asynchronous copy reads its source, pageable memory too, when it runs; device memory, and shared memory before each
/// block, is 0xFF bytes; a barrier that not all live threads of a block reach, a shuffle from a lane that takes no
/// part, a write just behind an allocation, and host code that touches device memory end the process with a message.
///
/// It is not a model of speed, coalescing or registers. One thread of one kernel runs at a time, so that a data race
/// shows through the order alone; kernels may read pageable host memory; the size of static shared memory is not
/// checked; what an allocation's owner does within it (a caching allocator: TENDRIL_CUDA_CACHE=0) is not seen.
///
/// The environment: TENDRIL_EMULATED_DEVICES (2), TENDRIL_EMULATED_MEMORY (bytes of each device, 1 GiB),
/// TENDRIL_EMULATED_SEED (of the orders), TENDRIL_EMULATED_HOST (a number: whose devices these are),
/// TENDRIL_EMULATED_DRIVER (its CUDA version, 12020 for 12.2, 0 for none; of the runtime, unless it is older, there are
/// no devices), CUDA_VISIBLE_DEVICES.
namespace cuda_emulator {

/// Queues host code that stands for a kernel, as cuBLAS and cuDNN queue theirs: `work` runs when the stream comes to
/// it, may touch the device memory of the stream's device, and must not call the runtime. A stream of another device
/// than the thread's current one is cudaErrorInvalidResourceHandle.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);
/// The same for a call that is several kernels; what other threads queue meanwhile comes between them.
cudaError_t enqueue_all(cudaStream_t stream, std::vector<std::function<void()>> kernels);

/// What this process has asked for so far.
struct Counters {
  std::uint64_t launches = 0;
  std::uint64_t enqueued = 0;  ///< calls of `enqueue` and `enqueue_all`
  std::uint64_t graphs = 0;    ///< launches of graphs
  std::uint64_t copies = 0;
  std::uint64_t copied_bytes = 0;
  std::uint64_t fills = 0;
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t allocated_bytes = 0;   ///< now, on all devices
  std::uint64_t synchronisations = 0;  ///< calls that made the host wait
  std::uint64_t spins = 0;             ///< waits that keep a processor busy: not cudaEventBlockingSync's
  std::uint64_t executed = 0;          ///< pieces of queued work that have run
};
Counters counters();

/// While it is on, somebody else has all memory of the devices that is not allocated: cudaMalloc fails.
void refuse_memory(bool on);
/// Whether anything has made the device's context yet.
bool has_context(int device);

/// The next linear layer of cuBLASLt's answers `status`, a cublasStatus_t.
void fail_next_linear(int status);
/// What the library asks before a call, and keeps the answer of: for algorithms, for one's workspace, for a layer.
enum class Planning { linear, convolution, convolution_workspace, lstm };
/// The next such question is answered `status`, of cuBLASLt or cuDNN.
void fail_next_planning(Planning what, int status);
/// The next of cuDNN's convolutions answers `status`, a cudnnStatus_t, and says `message`, which must stay.
void fail_next_convolution(int status, const char* message);
/// The algorithm of the last one that ran, in cuDNN's numbers for its direction; -1 before the first.
int last_convolution_algorithm();

}  // namespace cuda_emulator
