#pragma once

#include "tendril/tensor/cuda/kernels/kernel.cuh"
#include "tendril/tensor/detail/dispatch.h"
#include "tendril/tensor/scalar.h"
#include "tendril/tensor/scalar_math.h"

/// Elements as kernels see them: the toolkit's half types have the bits of tendril::Half and BFloat16.
namespace tendril::cuda {

template <class T>
inline constexpr bool is_half = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;

/// The type that arithmetic on T happens in.
template <class T>
using Compute = std::conditional_t<is_half<T>, float, T>;

__device__ inline float to_compute(__half x) { return __half2float(x); }
__device__ inline float to_compute(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class T>
__device__ T to_compute(T x) {
  return x;
}

/// A result of arithmetic as an element of T: rounds to nearest even where T is narrower.
template <class T>
__device__ T from_compute(Compute<T> x) {
  if constexpr (std::is_same_v<T, __half>)
    return __float2half_rn(x);
  else if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __float2bfloat16_rn(x);
  else
    return x;
}

/// What cpu::convert does.
template <class To, class From>
__device__ To convert(From from) {
  const Compute<From> value = to_compute(from);
  if constexpr (is_half<To>)
    return from_compute<To>(static_cast<float>(value));
  else
    return scalar_math::converted<To>(value);
}

/// `value` as arithmetic on T takes it, rounded as an element would be: for kernels' arguments.
template <class T>
Compute<T> argument(Scalar value) {
  const auto as = [&]<class C>() {
    return value.is_floating() ? scalar_math::converted<C>(value.to<double>())
                               : scalar_math::converted<C>(value.to<int64_t>());
  };
  return as.template operator()<Compute<T>>();
}

/// Calls `f(TypeTag<T>{})` with the device's type of `dtype`.
template <class F>
decltype(auto) visit(DType dtype, F&& f) {
  return tendril::detail::visit(dtype, [&](auto tag) -> decltype(auto) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, Half>)
      return f(tendril::detail::TypeTag<__half>{});
    else if constexpr (std::is_same_v<T, BFloat16>)
      return f(tendril::detail::TypeTag<__nv_bfloat16>{});
    else
      return f(tag);
  });
}

using tendril::detail::visit_bits;

/// Throws DTypeError.
[[noreturn]] inline void refuse(const char* op, DType dtype) {
  tendril::detail::raise<DTypeError>(op, ": no cuda kernel for ", dtype);
}

/// `visit` for a kernel of floating elements; others are refused.
template <class F>
void visit_floating(const char* op, DType dtype, F&& f) {
  visit(dtype, [&](auto tag) {
    if constexpr (std::is_floating_point_v<Compute<typename decltype(tag)::type>>) {
      f(tag);
    } else {
      refuse(op, dtype);
    }
  });
}

/// `visit` for a kernel of integers; others are refused, bool among them.
template <class F>
void visit_integers(const char* op, DType dtype, F&& f) {
  visit(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      f(tag);
    } else {
      refuse(op, dtype);
    }
  });
}

/// `visit` for a kernel of all but bool.
template <class F>
void visit_numbers(const char* op, DType dtype, F&& f) {
  visit(dtype, [&](auto tag) {
    if constexpr (std::is_same_v<typename decltype(tag)::type, bool>) {
      refuse(op, dtype);
    } else {
      f(tag);
    }
  });
}

}  // namespace tendril::cuda
