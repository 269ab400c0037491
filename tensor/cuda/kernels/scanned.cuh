#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "tendril/tensor/cuda/kernels/found.cuh"
#include "tendril/tensor/cuda/kernels/lanes.cuh"

/// What scan.cu makes of the elements of a line. An operation has
/// - Total, what becomes of consecutive elements; combine(earlier, later) and its identity
/// - load(i), the total of element i, and store(i, total), after move(place) has gone to the beginning of a line
/// - kLeastBlocks: 1 where the compiler would spill registers to make room for more blocks, else 0
/// - kCommutes: whether Total is a number and combine(a, b) is combine(b, a)
namespace tendril::cuda {

template <class A>
__device__ A lane_before(const A& total, int distance, int width) {
  if constexpr (std::is_arithmetic_v<A>) {
    return static_cast<A>(
        __shfl_up_sync(kAllLanes, static_cast<Shuffled<A>>(total), static_cast<unsigned>(distance), width));
  } else {
    return total.shuffled([&](auto part) { return lane_before(part, distance, width); });
  }
}
template <class A>
__device__ A lane_at(const A& total, int lane, int width) {
  if constexpr (std::is_arithmetic_v<A>) {
    return static_cast<A>(__shfl_sync(kAllLanes, static_cast<Shuffled<A>>(total), lane, width));
  } else {
    return total.shuffled([&](auto part) { return lane_at(part, lane, width); });
  }
}

/// An array that is read and one that is written, on one line.
template <class T>
struct ScanArrays {
  static constexpr int kArrays = 2;

  const T* x;
  T* out;
  int64_t x_step, out_step;

  __device__ void move(const int64_t (&place)[2]) {
    x += place[0];
    out += place[1];
  }
};

/// In float for float32 and the half types (the CPU adds up in double), in double for float64; integers wrap around in
/// 64 bits.
template <class T>
struct RunningSum : ScanArrays<T> {
  using Total = std::conditional_t<std::is_floating_point_v<Compute<T>>, Compute<T>, uint64_t>;
  static constexpr int kLeastBlocks = 0;
  static constexpr bool kCommutes = true;

  __device__ Total load(int64_t i) const { return static_cast<Total>(to_compute(this->x[i * this->x_step])); }
  __device__ void store(int64_t i, Total total) const {
    this->out[i * this->out_step] = from_compute<T>(static_cast<Compute<T>>(total));
  }
  __device__ static Total identity() { return Total(0); }
  __device__ static Total combine(Total earlier, Total later) { return earlier + later; }
};

/// In double as on the CPU: partial products of float32 stay in range. Those of float64 may leave it where products of
/// the first elements do not.
template <class T>
struct RunningProduct : ScanArrays<T> {
  using Total = std::conditional_t<std::is_floating_point_v<Compute<T>>, double, uint64_t>;
  static constexpr int kLeastBlocks = std::is_integral_v<T> ? 1 : 0;
  static constexpr bool kCommutes = true;

  __device__ Total load(int64_t i) const { return static_cast<Total>(to_compute(this->x[i * this->x_step])); }
  __device__ void store(int64_t i, Total total) const {
    this->out[i * this->out_step] = from_compute<T>(static_cast<Compute<T>>(total));
  }
  __device__ static Total identity() { return Total(1); }
  __device__ static Total combine(Total earlier, Total later) { return earlier * later; }
};

/// The largest x, and the sum of e^(x - largest) without the largest itself, as on the CPU; -1 of no elements.
template <class C>
struct LogTotal {
  C largest, others;

  template <class F>
  __device__ LogTotal shuffled(const F& f) const {
    return {f(largest), f(others)};
  }
};
template <class T>
struct RunningLogSum : ScanArrays<T> {
  using C = Compute<T>;
  using Total = LogTotal<C>;
  static constexpr int kLeastBlocks = sizeof(C) == 8 ? 1 : 0;
  static constexpr bool kCommutes = false;

  __device__ Total load(int64_t i) const { return {to_compute(this->x[i * this->x_step]), C(0)}; }
  __device__ void store(int64_t i, Total total) const {
    this->out[i * this->out_step] = from_compute<T>(total.largest + std::log1p(total.others));
  }
  __device__ static Total identity() { return {-std::numeric_limits<C>::infinity(), C(-1)}; }
  __device__ static Total combine(Total earlier, Total later) {
    const bool first = earlier.largest >= later.largest;
    const Total& high = first ? earlier : later;
    const Total& low = first ? later : earlier;
    // Infinities, too, whose difference is NaN.
    const C apart = low.largest == high.largest ? C(0) : low.largest - high.largest;
    return {high.largest, high.others + (C(1) + low.others) * std::exp(apart)};
  }
};

/// The largest or smallest and its place, -1 of no elements. Of equals the last wins, and a NaN over numbers.
template <class C>
struct ExtremeTotal {
  C value;
  int64_t at;

  template <class F>
  __device__ ExtremeTotal shuffled(const F& f) const {
    return {f(value), f(at)};
  }
};
template <class T>
struct RunningExtremum {
  using Total = ExtremeTotal<Compute<T>>;
  static constexpr int kArrays = 3;
  static constexpr int kLeastBlocks = sizeof(T) == 8 ? 1 : 0;
  static constexpr bool kCommutes = false;

  const T* x;
  T* out;
  int64_t* indices;
  int64_t x_step, out_step, index_step;
  bool largest;

  __device__ void move(const int64_t (&place)[3]) {
    x += place[0];
    out += place[1];
    indices += place[2];
  }
  __device__ Total load(int64_t i) const { return {to_compute(x[i * x_step]), i}; }
  __device__ void store(int64_t i, Total total) const {
    out[i * out_step] = from_compute<T>(total.value);
    indices[i * index_step] = total.at;
  }
  __device__ static Total identity() { return {Compute<T>(0), -1}; }
  __device__ Total combine(Total earlier, Total later) const {
    if (later.at < 0) return earlier;
    const bool better = largest ? later.value >= earlier.value : later.value <= earlier.value;
    return earlier.at < 0 || better || later.value != later.value ? later : earlier;
  }
};

/// Consecutive elements of a recurrence map the result before them, y, to factor * y + sum.
template <class C>
struct LinearTotal {
  C factor, sum;

  template <class F>
  __device__ LinearTotal shuffled(const F& f) const {
    return {f(factor), f(sum)};
  }
};
template <class T>
struct Recurrence {
  using C = Compute<T>;
  using Total = LinearTotal<C>;
  static constexpr int kArrays = 3;
  static constexpr int kLeastBlocks = 0;
  static constexpr bool kCommutes = false;

  const T *b, *a;
  T* out;
  int64_t b_step, a_step, out_step;

  __device__ void move(const int64_t (&place)[3]) {
    b += place[0];
    a += place[1];
    out += place[2];
  }
  __device__ Total load(int64_t i) const {
    return {i == 0 ? C(0) : to_compute(a[i * a_step]), to_compute(b[i * b_step])};
  }
  __device__ void store(int64_t i, Total total) const { out[i * out_step] = from_compute<T>(total.sum); }
  __device__ static Total identity() { return {C(1), C(0)}; }
  __device__ static Total combine(Total earlier, Total later) {
    // Not by the formula, in which an infinite factor would make NaN of the 0.
    if (earlier.factor == C(1) && earlier.sum == C(0)) return later;
    return {later.factor * earlier.factor, later.factor * earlier.sum + later.sum};
  }
};

}  // namespace tendril::cuda
