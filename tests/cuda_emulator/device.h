#pragma once

// The device language for a host compiler: what a .cu file may say, given meaning by block.cpp. As strict as nvcc where
// that costs nothing: atomicAdd has no overload for long long there, and none here.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <vector_functions.h>

#include <bit>
#include <cassert>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>

// Blocks run one at a time, so that all their threads, and they alone, share a static array. By its alignment the
// emulator knows it for what it is, and makes it NaN before each block.
#undef __shared__
#define __shared__ static __attribute__((aligned(cuda_emulator::detail::kSharedAlignment)))
#undef __launch_bounds__
#define __launch_bounds__(...)

namespace cuda_emulator {

/// The running block's dynamic shared memory, 128-byte aligned, filled with 0xFF for each block.
void* dynamic_shared();

namespace detail {

inline constexpr unsigned kSharedAlignment = 4096;

extern uint3 thread_index;
extern uint3 block_index;
extern dim3 block_size;
extern dim3 grid_size;

/// Where in a kernel threads meet.
struct Site {
  const char* what;
  const char* file;
  int line;
};

enum class WarpOp : std::uint8_t { kSync, kShuffle, kBallot, kAll, kMatch };

/// All live threads of the block; how many of them gave a true predicate.
unsigned block_barrier(bool predicate, Site site);
/// The live lanes of `mask`: the value of lane `source` (kShuffle), the lanes whose value is not 0 (kBallot), whether
/// all are (kAll), the lanes whose value equals this lane's (kMatch).
std::uint64_t warp_meet(WarpOp op, unsigned mask, std::uint64_t value, unsigned source, Site site);
unsigned lane();
[[noreturn]] void trap(Site site);

cudaError_t launch(const void* kernel, dim3 grid, dim3 block, unsigned shared, cudaStream_t stream,
                   std::function<void()> thread);

template <class T, class... Ts>
concept one_of = (std::same_as<T, Ts> || ...);
template <class T>
concept shuffled = (std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8)) || one_of<T, __half, __nv_bfloat16>;

template <shuffled T>
T shuffle(unsigned mask, T value, unsigned source, Site site) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = warp_meet(WarpOp::kShuffle, mask, bits, source, site);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <class T>
T exchange(T* address, T value) {
  const T old = *address;
  *address = value;
  return old;
}

}  // namespace detail

/// Queues a kernel as <<<grid, block, shared, stream>>> does.
template <class... P>
cudaError_t launch(void (*kernel)(P...), dim3 grid, dim3 block, unsigned shared, cudaStream_t stream,
                   std::type_identity_t<P>... args) {
  static_assert((std::is_trivially_copyable_v<P> && ...), "a kernel takes plain values");
  static_assert((0 + ... + sizeof(P)) <= 4096, "a kernel takes 4 KiB of parameters at most");
  return detail::launch(reinterpret_cast<const void*>(kernel), grid, block, shared, stream,
                        [kernel, values = std::tuple<P...>(args...)] { std::apply(kernel, values); });
}

}  // namespace cuda_emulator

inline constexpr const uint3& threadIdx = cuda_emulator::detail::thread_index;
inline constexpr const uint3& blockIdx = cuda_emulator::detail::block_index;
inline constexpr const dim3& blockDim = cuda_emulator::detail::block_size;
inline constexpr const dim3& gridDim = cuda_emulator::detail::grid_size;
inline constexpr int warpSize = 32;

// Threads that wait for each other. The caller's file and line tell one barrier from another.
#define CUDA_EMULATOR_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(CUDA_EMULATOR_SITE) {
  cuda_emulator::detail::block_barrier(false, {"__syncthreads", file, line});
}
inline int __syncthreads_count(int predicate, CUDA_EMULATOR_SITE) {
  return static_cast<int>(cuda_emulator::detail::block_barrier(predicate != 0, {"__syncthreads_count", file, line}));
}
inline int __syncthreads_or(int predicate, CUDA_EMULATOR_SITE) {
  return cuda_emulator::detail::block_barrier(predicate != 0, {"__syncthreads_or", file, line}) != 0;
}
inline int __syncthreads_and(int predicate, CUDA_EMULATOR_SITE) {
  return cuda_emulator::detail::block_barrier(predicate == 0, {"__syncthreads_and", file, line}) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffu, CUDA_EMULATOR_SITE) {
  using namespace cuda_emulator::detail;
  warp_meet(WarpOp::kSync, mask, 0, 0, {"__syncwarp", file, line});
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, CUDA_EMULATOR_SITE) {
  using namespace cuda_emulator::detail;
  const unsigned w = static_cast<unsigned>(width);
  return shuffle(mask, value, (lane() & ~(w - 1)) | (static_cast<unsigned>(source) & (w - 1)),
                 {"__shfl_sync", file, line});
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, CUDA_EMULATOR_SITE) {
  using namespace cuda_emulator::detail;
  const unsigned own = lane(), within = own & static_cast<unsigned>(width - 1);
  return shuffle(mask, value, within >= delta ? own - delta : own, {"__shfl_up_sync", file, line});
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, CUDA_EMULATOR_SITE) {
  using namespace cuda_emulator::detail;
  const unsigned own = lane(), within = own & static_cast<unsigned>(width - 1);
  return shuffle(mask, value, within + delta < static_cast<unsigned>(width) ? own + delta : own,
                 {"__shfl_down_sync", file, line});
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, CUDA_EMULATOR_SITE) {
  using namespace cuda_emulator::detail;
  const unsigned own = lane(), source = own ^ static_cast<unsigned>(lanes), w = static_cast<unsigned>(width);
  // A lane of a later segment gives nothing; one of an earlier segment may be read.
  return shuffle(mask, value, source < (own & ~(w - 1)) + w ? source : own, {"__shfl_xor_sync", file, line});
}

inline unsigned __ballot_sync(unsigned mask, int predicate, CUDA_EMULATOR_SITE) {
  using namespace cuda_emulator::detail;
  return static_cast<unsigned>(warp_meet(WarpOp::kBallot, mask, predicate != 0, 0, {"__ballot_sync", file, line}));
}
inline int __any_sync(unsigned mask, int predicate, CUDA_EMULATOR_SITE) {
  using namespace cuda_emulator::detail;
  return warp_meet(WarpOp::kBallot, mask, predicate != 0, 0, {"__any_sync", file, line}) != 0;
}
inline int __all_sync(unsigned mask, int predicate, CUDA_EMULATOR_SITE) {
  using namespace cuda_emulator::detail;
  return static_cast<int>(warp_meet(WarpOp::kAll, mask, predicate != 0, 0, {"__all_sync", file, line}));
}
template <class T>
requires(std::is_arithmetic_v<T> &&
         (sizeof(T) == 4 || sizeof(T) == 8)) unsigned __match_any_sync(unsigned mask, T value, CUDA_EMULATOR_SITE) {
  using namespace cuda_emulator::detail;
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return static_cast<unsigned>(warp_meet(WarpOp::kMatch, mask, bits, 0, {"__match_any_sync", file, line}));
}
/// The lanes that happen to run together. Nobody may rely on more than the caller itself.
inline unsigned __activemask() { return 1u << cuda_emulator::detail::lane(); }

[[noreturn]] inline void __trap(CUDA_EMULATOR_SITE) { cuda_emulator::detail::trap({"__trap", file, line}); }

#undef CUDA_EMULATOR_SITE

inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

#include "cuda_emulator/device_functions.h"
