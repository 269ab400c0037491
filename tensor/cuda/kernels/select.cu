#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernels/kernel.cuh"
#include "tendril/tensor/cuda/kernels/map.cuh"

/// Pointwise kernels with more than two operands or with parameters.
namespace tendril::cuda {
namespace {

struct Nothing {};

struct Choose {
  template <int V, class T>
  static __device__ void apply(Nothing, Lanes<T, V>& out, const Lanes<uint8_t, V>& mask, const Lanes<T, V>& x,
                               const Lanes<T, V>& y) {
    TENDRIL_UNROLL
    for (int j = 0; j < V; ++j) out.at[j] = mask.at[j] != 0 ? x.at[j] : y.at[j];
  }
};

template <class C>
struct Bounds {
  C low, high;
  bool has_low, has_high;
};
struct Clamp {
  template <int V, class T>
  static __device__ void apply(Bounds<T> bounds, Lanes<T, V>& out, const Lanes<T, V>& x) {
    TENDRIL_UNROLL
    for (int j = 0; j < V; ++j) {
      T value = x.at[j];
      if (bounds.has_low && value < bounds.low) value = bounds.low;  // (cpu/select.cpp)
      if (bounds.has_high && value > bounds.high) value = bounds.high;
      out.at[j] = value;
    }
  }
};

struct AddScaled {
  template <int V, class T>
  static __device__ void apply(T factor, Lanes<T, V>& out, const Lanes<T, V>& x, const Lanes<T, V>& y) {
    using scalar_math::added, scalar_math::multiplied;
    TENDRIL_UNROLL
    for (int j = 0; j < V; ++j) out.at[j] = added(x.at[j], multiplied(factor, y.at[j]));
  }
};

}  // namespace

void where(const View& out, const View& mask, const View& x, const View& y) {
  visit_bits(out.dtype, [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    constexpr auto map =
        map_of<Choose, Choose, kWidth<Bits>, 2, Nothing, Bits, Input<uint8_t>, Input<Bits>, Input<Bits>>();
    map("where", Nothing{}, out, {&mask, &x, &y}, Input<uint8_t>(mask), Input<Bits>(x), Input<Bits>(y));
  });
}

void clamp(const View& out, const View& x, const Scalar* low, const Scalar* high) {
  visit_numbers("clamp", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    constexpr auto map = map_of<Clamp, Clamp, kWidth<T>, 2, Bounds<C>, T, Input<T>>();
    const Bounds<C> bounds = {low ? argument<T>(*low) : C(0), high ? argument<T>(*high) : C(0), low != nullptr,
                              high != nullptr};
    map("clamp", bounds, out, {&x}, Input<T>(x));
  });
}

void add_scaled(const View& out, const View& x, const View& y, Scalar alpha) {
  visit_numbers("add_scaled", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr auto map = map_of<AddScaled, AddScaled, kWidth<T>, 2, Compute<T>, T, Input<T>, Input<T>>();
    map("add_scaled", argument<T>(alpha), out, {&x, &y}, Input<T>(x), Input<T>(y));
  });
}

}  // namespace tendril::cuda
