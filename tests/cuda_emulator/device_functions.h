#pragma once

// Atomics and intrinsics of the device language. One thread runs at a time, so that atomics need nothing special.
// Included by device.h.

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
template <cuda_emulator::detail::one_of<int, unsigned> T>
T atomicSub(T* address, std::type_identity_t<T> value) {
  return cuda_emulator::detail::exchange(address, static_cast<T>(static_cast<unsigned>(*address) - static_cast<unsigned>(value)));
}
template <cuda_emulator::detail::one_of<int, unsigned, long long, unsigned long long> T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  return cuda_emulator::detail::exchange(address, *address < value ? value : *address);
}
template <cuda_emulator::detail::one_of<int, unsigned, long long, unsigned long long> T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  return cuda_emulator::detail::exchange(address, value < *address ? value : *address);
}
template <cuda_emulator::detail::one_of<int, unsigned, unsigned long long, float> T>
T atomicExch(T* address, std::type_identity_t<T> value) { return cuda_emulator::detail::exchange(address, value); }
template <cuda_emulator::detail::one_of<int, unsigned, unsigned short, unsigned long long> T>
T atomicCAS(T* address, std::type_identity_t<T> compare, std::type_identity_t<T> value) {
  return cuda_emulator::detail::exchange(address, *address == compare ? value : *address);
}
template <cuda_emulator::detail::one_of<int, unsigned, unsigned long long> T>
T atomicOr(T* address, std::type_identity_t<T> value) { return cuda_emulator::detail::exchange(address, *address | value); }
template <cuda_emulator::detail::one_of<int, unsigned, unsigned long long> T>
T atomicAnd(T* address, std::type_identity_t<T> value) { return cuda_emulator::detail::exchange(address, *address & value); }
template <cuda_emulator::detail::one_of<int, unsigned, unsigned long long> T>
T atomicXor(T* address, std::type_identity_t<T> value) { return cuda_emulator::detail::exchange(address, *address ^ value); }
inline unsigned atomicInc(unsigned* address, unsigned most) {
  return cuda_emulator::detail::exchange(address, *address >= most ? 0u : *address + 1);
}
inline unsigned atomicDec(unsigned* address, unsigned most) {
  return cuda_emulator::detail::exchange(address, *address == 0 || *address > most ? most : *address - 1);
}

template <class T> T __ldg(const T* address) { return *address; }
template <class T> T __ldcg(const T* address) { return *address; }
template <class T> T __ldca(const T* address) { return *address; }
template <class T> T __ldcs(const T* address) { return *address; }
template <class T> T __ldlu(const T* address) { return *address; }
template <class T> void __stcg(T* address, std::type_identity_t<T> value) { *address = value; }
template <class T> void __stcs(T* address, std::type_identity_t<T> value) { *address = value; }
template <class T> void __stwb(T* address, std::type_identity_t<T> value) { *address = value; }
template <class T> void __stwt(T* address, std::type_identity_t<T> value) { *address = value; }

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  unsigned y = 0;
  for (int i = 0; i < 32; ++i) y |= (x >> i & 1u) << (31 - i);
  return y;
}
inline unsigned __umulhi(unsigned x, unsigned y) { return static_cast<unsigned>(static_cast<unsigned long long>(x) * y >> 32); }
inline int __mulhi(int x, int y) { return static_cast<int>(static_cast<long long>(x) * y >> 32); }
__extension__ typedef unsigned __int128 cuda_emulator_uint128;
__extension__ typedef __int128 cuda_emulator_int128;
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return static_cast<unsigned long long>(static_cast<cuda_emulator_uint128>(x) * y >> 64);
}
inline long long __mul64hi(long long x, long long y) { return static_cast<long long>(static_cast<cuda_emulator_int128>(x) * y >> 64); }

inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline int __float2int_rn(float x) { return static_cast<int>(std::lrintf(x)); }
inline int __float2int_rz(float x) { return static_cast<int>(x); }
inline int __float2int_rd(float x) { return static_cast<int>(std::floor(x)); }
inline int __float2int_ru(float x) { return static_cast<int>(std::ceil(x)); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }

inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fdividef(float x, float y) { return x / y; }
inline float __expf(float x) { return std::exp(x); }
inline float __exp10f(float x) { return std::pow(10.0f, x); }
inline float __logf(float x) { return std::log(x); }
inline float __log2f(float x) { return std::log2(x); }
inline float __log10f(float x) { return std::log10(x); }
inline float __powf(float x, float y) { return std::pow(x, y); }
inline float __sinf(float x) { return std::sin(x); }
inline float __cosf(float x) { return std::cos(x); }
inline float __tanf(float x) { return std::tan(x); }
inline void __sincosf(float x, float* sine, float* cosine) { *sine = std::sin(x); *cosine = std::cos(x); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
// Each rounds once: a compiler may not contract them with what stands around them (noinline keeps this one from it).
[[gnu::noinline]] inline float __fadd_rn(float x, float y) { return x + y; }
[[gnu::noinline]] inline float __fsub_rn(float x, float y) { return x - y; }
[[gnu::noinline]] inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
[[gnu::noinline]] inline double __dadd_rn(double x, double y) { return x + y; }
[[gnu::noinline]] inline double __dsub_rn(double x, double y) { return x - y; }
[[gnu::noinline]] inline double __dmul_rn(double x, double y) { return x * y; }
inline double __ddiv_rn(double x, double y) { return x / y; }
inline double __fma_rn(double x, double y, double z) { return std::fma(x, y, z); }

template <cuda_emulator::detail::one_of<int, unsigned, long, unsigned long, long long, unsigned long long, float, double> T>
T min(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) return std::fmin(x, y);
  else return y < x ? y : x;
}
template <cuda_emulator::detail::one_of<int, unsigned, long, unsigned long, long long, unsigned long long, float, double> T>
T max(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) return std::fmax(x, y);
  else return x < y ? y : x;
}
// clang-format on
