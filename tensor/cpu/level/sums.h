#pragma once

#include "tendril/tensor/cpu/level/lanes.h"

/// Elements are added up in registers of their own type for kBlock at a time, then in double: the error is that of a
/// short sum, at the speed of a plain one.
namespace tendril::cpu::TENDRIL_CPU_LEVEL {
namespace {

constexpr int64_t kBlock = 256;

template <class T>
double total(const typename Lanes<T>::Vector& v) {
  double sum = 0;
  for (int64_t l = 0; l < Lanes<T>::count; ++l) sum += static_cast<double>(v[l]);
  return sum;
}

/// Adds f(i, x[i]) over a row: `vector(i)` gives it for the lanes from i on, `scalar(i)` for one element.
template <class T, class OfLanes, class OfOne>
double sum_of(int64_t count, OfLanes of_lanes, OfOne of_one) {
  using Vector = typename Lanes<T>::Vector;
  constexpr int64_t L = Lanes<T>::count;
  double sum = 0;
  int64_t i = 0;
  while (i + 2 * L <= count) {
    const int64_t end = i + kBlock < count ? i + kBlock : count;
    Vector a = {}, b = {};
    for (; i + 2 * L <= end; i += 2 * L) {
      a += of_lanes(i);
      b += of_lanes(i + L);
    }
    sum += total<T>(a) + total<T>(b);
    if (end == count) break;
  }
  for (; i < count; ++i) sum += static_cast<double>(of_one(i));
  return sum;
}

template <class T>
auto lanes(const T* x) {
  return *reinterpret_cast<const typename Lanes<T>::Vector*>(x);
}

}  // namespace
}  // namespace tendril::cpu::TENDRIL_CPU_LEVEL
