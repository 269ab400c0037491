#pragma once

// Those atomics and intrinsics of the device language that kernels call. One thread runs at a time, so that atomics
// need nothing special. Included by device.h.

// clang-format off
template <cuda_emulator::detail::one_of<int, unsigned, unsigned long long, float, double> T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  if constexpr (std::is_same_v<T, int>) {  // wraps
    return cuda_emulator::detail::exchange(address, static_cast<int>(static_cast<unsigned>(*address) + static_cast<unsigned>(value)));
  } else {
    return cuda_emulator::detail::exchange(address, static_cast<T>(*address + value));
  }
}
inline __half atomicAdd(__half* address, __half value) {
  return cuda_emulator::detail::exchange(address, __float2half(__half2float(*address) + __half2float(value)));
}
inline __nv_bfloat16 atomicAdd(__nv_bfloat16* address, __nv_bfloat16 value) {
  return cuda_emulator::detail::exchange(address, __float2bfloat16(__bfloat162float(*address) + __bfloat162float(value)));
}
template <cuda_emulator::detail::one_of<int, unsigned, unsigned long long, float> T>
T atomicExch(T* address, std::type_identity_t<T> value) { return cuda_emulator::detail::exchange(address, value); }
template <cuda_emulator::detail::one_of<int, unsigned, unsigned short, unsigned long long> T>
T atomicCAS(T* address, std::type_identity_t<T> compare, std::type_identity_t<T> value) {
  return cuda_emulator::detail::exchange(address, *address == compare ? value : *address);
}

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
// clang-format on
