#pragma once

#include <limits>

#include "tendril/tensor/cuda/kernels/kernel.cuh"

/// Maxima and sums of exponentials, for softmax and what is made of it.
namespace tendril::cuda {

struct Larger {
  template <class C>
  __device__ C operator()(C a, C x) const {
    return x > a || x != x ? x : a;  // a NaN wins and stays
  }
};
struct Plus {
  template <class C>
  __device__ C operator()(C a, C x) const {
    return a + x;
  }
};

__device__ inline float exponential(float x) { return expf(x); }
__device__ inline double exponential(double x) { return exp(x); }
__device__ inline float logarithm(float x) { return logf(x); }
__device__ inline double logarithm(double x) { return log(x); }

/// The largest element so far and the sum of e^(element - largest): one pass finds both.
template <class C>
struct Online {
  C largest = -std::numeric_limits<C>::infinity();
  C sum = 0;

  /// What a sum is worth under a larger maximum. Two infinities of one sign cancel only below: a row with +infinity
  /// is NaN, and a row of nothing but -infinity becomes NaN when its elements are written.
  static __device__ C factor(C before, C after) {
    return after == -std::numeric_limits<C>::infinity() ? C(1) : exponential(before - after);
  }
  __device__ void take(C x) {
    const C after = Larger{}(largest, x);
    if (after != largest) {
      sum *= factor(largest, after);
      largest = after;
    }
    sum += factor(x, after);
  }
  /// Several at once: what was known before is brought under the new maximum once, without a branch for each.
  template <int N>
  __device__ void take(const C (&x)[N]) {
    C after = largest;
    for (int k = 0; k < N; ++k) after = Larger{}(after, x[k]);
    sum *= factor(largest, after);
    for (int k = 0; k < N; ++k) sum += factor(x[k], after);
    largest = after;
  }
  __device__ void join(const Online& other) {
    const C after = Larger{}(largest, other.largest);
    sum = sum * factor(largest, after) + other.sum * factor(other.largest, after);
    largest = after;
  }
};

}  // namespace tendril::cuda
