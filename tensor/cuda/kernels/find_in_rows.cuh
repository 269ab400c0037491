#pragma once

#include "tendril/tensor/cuda/kernels/found.cuh"

/// The extremum of lines whose elements lie side by side. A thread loads V of them at once, several loads under way,
/// and keeps a best for each of the V positions: comparisons wait for memory, not for each other.
namespace tendril::cuda {

/// Whether `next` replaces the best of what lies before it: it is a NaN or better, and the best is a number.
template <bool largest, class C>
__device__ bool beats(C next, C best) {
  return (largest ? !(next <= best) : !(next >= best)) && best == best;
}

/// The bests of the positions, found in vectors whose numbers grow.
template <bool largest, int V, class T>
struct Bests {
  using C = Compute<T>;
  C value[V];
  int vector[V];  ///< which one it was in; -1: none, and `value` is the line's first element

  __device__ explicit Bests(C first) {
    for (int v = 0; v < V; ++v) value[v] = first;
    for (int v = 0; v < V; ++v) vector[v] = -1;
  }
  __device__ void take(const Pack<T, V>& elements, int number) {
    for (int v = 0; v < V; ++v) {
      const C next = to_compute(elements.at[v]);
      const bool better = beats<largest>(next, value[v]);
      value[v] = better ? next : value[v];
      vector[v] = better ? number : vector[v];
    }
  }
};

/// What thread `lane` of `sharing` finds in its part of `count` > 0 elements from x on.
template <int V, class T, bool largest>
__device__ Found<Compute<T>, int> find_in_span(const T* x, int count, int lane, int sharing) {
  using Vector = Pack<T, V>;
  // Every thread looks at the first element, too, so that each has something to compare with.
  Found<Compute<T>, int> found{to_compute(x[0]), 0};
  Bests<largest, V, T> bests(found.value);
  // Elements before the first aligned one and behind the last go one by one.
  const auto misplaced = static_cast<int>(reinterpret_cast<uintptr_t>(x) % sizeof(Vector) / sizeof(T));
  int head = misplaced == 0 ? 0 : V - misplaced;
  if (head > count) head = count;
  const int vectors = (count - head) / V;
  const auto* data = reinterpret_cast<const Vector*>(x + head);
  int i = lane;
  for (; i + 3 * sharing < vectors; i += 4 * sharing) {  // loads that do not wait for each other
    const Vector a = data[i], b = data[i + sharing], c = data[i + 2 * sharing], d = data[i + 3 * sharing];
    bests.take(a, i);
    bests.take(b, i + sharing);
    bests.take(c, i + 2 * sharing);
    bests.take(d, i + 3 * sharing);
  }
  for (; i < vectors; i += sharing) bests.take(data[i], i);
  for (int j = lane; j < head; j += sharing) found.join({to_compute(x[j]), j}, largest);
  for (int j = head + vectors * V + lane; j < count; j += sharing) found.join({to_compute(x[j]), j}, largest);
  for (int v = 0; v < V; ++v) {
    found.join({bests.value[v], bests.vector[v] < 0 ? 0 : head + bests.vector[v] * V + v}, largest);
  }
  return found;
}

/// For what.by_row and a share of fewer than 2^31 elements: places within it have 32 bits. (The 1: without it the
/// compiler puts some of the registers into memory to have more blocks at once.)
template <int V, class T, bool largest>
__global__ void __launch_bounds__(kFindThreads, 1) find_in_rows(FoundTarget<T> target, const T* x, LinesOf what) {
  using Part = Found<Compute<T>, int>;
  constexpr int kWarps = kFindThreads / kWarp;
  __shared__ Compute<T> values[kWarps];
  __shared__ int places[kWarps];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % what.sharing;
  const int64_t line = static_cast<int64_t>(blockIdx.x) * what.across + thread / what.sharing;
  const bool mine = line < what.lines.count;
  const int64_t start = what.share_start();
  int64_t place[3] = {};
  Part found;
  if (mine) {
    what.lines.of(line, place);
    const auto count = static_cast<int>(what.share_end() - start);
    found = find_in_span<V, T, largest>(x + place[0] + start, count, lane, what.sharing);
  }
  // (What threads get from those of another line is not asked for.)
  for (int distance = (what.sharing < kWarp ? what.sharing : kWarp) / 2; distance > 0; distance /= 2) {
    found.join(found.from_lane(distance), largest);
  }
  if (what.sharing > kWarp) {
    const int warp = thread / kWarp;
    if (thread % kWarp == 0) {
      values[warp] = found.value;
      places[warp] = found.at;
    }
    __syncthreads();
    for (int n = 1; lane == 0 && n < what.sharing / kWarp; ++n) {
      found.join({values[warp + n], places[warp + n]}, largest);
    }
  }
  if (mine && lane == 0) target.write_share({found.value, start + found.at}, place, line, what.lines.count);
}

}  // namespace tendril::cuda
