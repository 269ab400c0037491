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
#include <utility>

#include "cuda_emulator/bind.h"

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

/// Waits for all live threads of the block.
void block_barrier(Site site);
/// Waits for the live lanes of `mask`; the value of lane `source`.
std::uint64_t warp_shuffle(unsigned mask, std::uint64_t value, unsigned source, Site site);
unsigned lane();

cudaError_t launch(const void* kernel, dim3 grid, dim3 block, unsigned shared, cudaStream_t stream, void** arguments,
                   const Bind& bind);

template <class... P, std::size_t... I>
std::tuple<P...> read(void** arguments, std::index_sequence<I...>) {
  return {*static_cast<P*>(arguments[I])...};
}

template <class T, class... Ts>
concept one_of = (std::same_as<T, Ts> || ...);
template <class T>
concept shuffled = (std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8)) || one_of<T, __half, __nv_bfloat16>;

template <shuffled T>
T shuffle(unsigned mask, T value, unsigned source, Site site) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = warp_shuffle(mask, bits, source, site);
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
  void* arguments[] = {&args..., nullptr};  // (a kernel may have none)
  return detail::launch(reinterpret_cast<const void*>(kernel), grid, block, shared, stream, arguments,
                        [kernel](void** from) -> std::function<void()> {
                          return [kernel, values = detail::read<P...>(from, std::index_sequence_for<P...>{})] {
                            std::apply(kernel, values);
                          };
                        });
}

}  // namespace cuda_emulator

inline constexpr const uint3& threadIdx = cuda_emulator::detail::thread_index;
inline constexpr const uint3& blockIdx = cuda_emulator::detail::block_index;
inline constexpr const dim3& blockDim = cuda_emulator::detail::block_size;
inline constexpr const dim3& gridDim = cuda_emulator::detail::grid_size;
inline constexpr int warpSize = 32;

// Threads that wait for each other. The caller's file and line tell one barrier from another.
#define CUDA_EMULATOR_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(CUDA_EMULATOR_SITE) { cuda_emulator::detail::block_barrier({"__syncthreads", file, line}); }
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

#undef CUDA_EMULATOR_SITE

inline void __threadfence_system() {}

#include "cuda_emulator/device_functions.h"
