#pragma once

// What every .cu file includes first: the device language and checked launches. Besides nvcc, the emulator's host
// compiler reads these files (docs/cuda.md): so no <<<>>>, no `extern __shared__`, no inline PTX without an
// alternative.
#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include <cuda_emulator/device.h>  // the emulator's build puts it where the toolkit's headers are
#endif
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "tendril/tensor/cuda/runtime/check.h"
#include "tendril/tensor/cuda/runtime/current.h"
#include "tendril/tensor/cuda/runtime/renewals.h"

namespace tendril::cuda {

inline constexpr int kWarp = 32;

/// Blocks and threads of a launch. `shared` is dynamic shared memory in bytes: TENDRIL_DYNAMIC_SHARED(float, values).
struct Grid {
  dim3 blocks;
  dim3 threads;
  unsigned shared = 0;
};

/// Starts `kernel` on the thread's current stream. Arguments are converted to the kernel's parameters. Before a replay
/// of a Graph they are given to a kernel that was recorded instead (Renewals).
/// Throws Error, naming `op`, when the launch fails; what fails later is reported by whoever waits.
template <class... P>
void launch(const char* op, void (*kernel)(P...), const Grid& grid, std::type_identity_t<P>... args) {
  void* addresses[] = {&args...};
  auto* const function = reinterpret_cast<void*>(kernel);
  Renewals* const recorded = renewals();
  if (recorded && recorded->takes_over(op, {function, grid.blocks, grid.threads, grid.shared, addresses, nullptr})) {
    return;
  }
#ifdef __CUDACC__
  check(cudaLaunchKernel(function, grid.blocks, grid.threads, addresses, grid.shared, current_stream()), op,
        "cudaLaunchKernel");
#else
  check(cuda_emulator::launch(kernel, grid.blocks, grid.threads, grid.shared, current_stream(), args...), op,
        "cudaLaunchKernel");
#endif
  if (recorded) recorded->note_recorded(op, function, current_stream());
}

/// Threads of a block where a kernel wants no other number. Every kernel states its own most by __launch_bounds__,
/// which keeps the compiler from giving it more registers than a block of so many threads can have.
inline constexpr int kGridThreads = 256;

/// Enough blocks of `threads` for `count` items, at most what a grid-stride loop needs to fill a device; count > 0.
inline Grid grid_for(int64_t count, int threads = kGridThreads, int64_t most = 65536) {
  const int64_t blocks = (count + threads - 1) / threads;
  return {dim3(static_cast<unsigned>(blocks < most ? blocks : most)), dim3(static_cast<unsigned>(threads))};
}

}  // namespace tendril::cuda

#ifdef __CUDACC__
#define TENDRIL_DYNAMIC_SHARED(T, name)                                         \
  extern __shared__ __align__(16) unsigned char tendril_dynamic_shared_bytes[]; \
  T* const name = reinterpret_cast<T*>(tendril_dynamic_shared_bytes)
#else
#define TENDRIL_DYNAMIC_SHARED(T, name) T* const name = static_cast<T*>(cuda_emulator::dynamic_shared())
#endif
