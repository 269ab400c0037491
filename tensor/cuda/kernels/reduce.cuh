#pragma once

#include <limits>

#include "tendril/tensor/cuda/kernels/lanes.cuh"
#include "tendril/tensor/cuda/kernels/reduction_plan.h"
#include "tendril/tensor/cuda/runtime/workspace.h"
#include "tendril/tensor/kernels.h"

/// Reductions along dimensions (kernels.h, `reduce`). Each result is combined in an order that depends on shapes and
/// strides alone: no atomics, so the same bits in every run and on every device.
namespace tendril::cuda {

/// What elements of T are combined in: float for float32 and the half types (in a tree of short sums: PyTorch does
/// likewise, the CPU adds up in double), double for float64, int64 for integers, wrapping around.
template <class T>
using Folded = std::conditional_t<std::is_floating_point_v<Compute<T>>, Compute<T>, int64_t>;

/// An element is folded as it is, and so are the results of several blocks.
struct OfItself {
  template <class A, class C>
  constexpr A of(C x) const {
    return static_cast<A>(x);
  }
};

struct SumOf : OfItself {
  template <class A, class T>
  constexpr A identity() const {
    return A(0);
  }
  template <class A>
  constexpr A operator()(A a, A x) const {
    if constexpr (std::is_integral_v<A>) return static_cast<A>(static_cast<uint64_t>(a) + static_cast<uint64_t>(x));
    return a + x;
  }
};

/// The others are few enough to share one kernel that looks which it is: memory is slower than looking.
struct OtherFold : OfItself {
  Reduction op;
  bool logical;  ///< of bool, whose largest value is 1

  constexpr OtherFold(Reduction r, bool l) : op(r), logical(l) {}

  template <class A, class T>
  constexpr A identity() const {
    using Limits = std::numeric_limits<Compute<T>>;
    if (op == Reduction::prod) return A(1);
    if constexpr (Limits::has_infinity) {
      return static_cast<A>(op == Reduction::max ? -Limits::infinity() : Limits::infinity());
    } else {
      return static_cast<A>(op == Reduction::max ? Limits::lowest() : logical ? Compute<T>(1) : Limits::max());
    }
  }
  template <class A>
  constexpr A operator()(A a, A x) const {
    if (op == Reduction::prod) {
      if constexpr (std::is_integral_v<A>) return static_cast<A>(static_cast<uint64_t>(a) * static_cast<uint64_t>(x));
      return a * x;
    }
    // x != x: a NaN wins and stays
    return (op == Reduction::max ? x > a : x < a) || x != x ? x : a;
  }
};

/// Either the result or, where a row is cut into several shares, the partial results of this one.
template <class A, class T>
struct FoldTarget {
  T* out;
  A* partial;

  __device__ void write(A value, int64_t result, int64_t results, int64_t place) const {
    if (partial) {
      partial[static_cast<int64_t>(blockIdx.y) * results + result] = value;
    } else {
      out[place] = from_compute<T>(static_cast<Compute<T>>(value));
    }
  }
};

/// Thread `at` of `across` folds its part of `count` elements `step` apart, from x on, into totals[V].
template <int V, class A, class T, class Op>
__device__ void fold_span(A (&totals)[V], const T* x, int64_t step, int64_t count, int at, int across, const Op& op) {
  const auto take = [&](int v, T element) { totals[v] = op(totals[v], op.template of<A>(to_compute(element))); };
  if constexpr (V == 1) {
    int64_t i = at;
    for (; i + 3 * across < count; i += 4 * across) {  // loads that do not wait for each other
      const T a = x[i * step], b = x[(i + across) * step], c = x[(i + 2 * across) * step],
              d = x[(i + 3 * across) * step];
      take(0, a);
      take(0, b);
      take(0, c);
      take(0, d);
    }
    for (; i < count; i += across) take(0, x[i * step]);
  } else {  // step is 1; elements before the first aligned one and behind the last go one by one
    using Vector = Pack<T, V>;
    const auto misplaced = static_cast<int64_t>(reinterpret_cast<uintptr_t>(x) % sizeof(Vector) / sizeof(T));
    int64_t head = misplaced == 0 ? 0 : V - misplaced;
    if (head > count) head = count;
    const int64_t vectors = (count - head) / V;
    for (int64_t i = at; i < head; i += across) take(0, x[i]);
    for (int64_t i = head + vectors * V + at; i < count; i += across) take(0, x[i]);
    const auto* data = reinterpret_cast<const Vector*>(x + head);
    int64_t i = at;
    for (; i + 3 * across < vectors; i += 4 * across) {
      const Vector a = data[i], b = data[i + across], c = data[i + 2 * across], d = data[i + 3 * across];
      for (int v = 0; v < V; ++v) take(v, a.at[v]);
      for (int v = 0; v < V; ++v) take(v, b.at[v]);
      for (int v = 0; v < V; ++v) take(v, c.at[v]);
      for (int v = 0; v < V; ++v) take(v, d.at[v]);
    }
    for (; i < vectors; i += across) {
      const Vector a = data[i];
      for (int v = 0; v < V; ++v) take(v, a.at[v]);
    }
  }
}

// (The 1: without it the compiler puts some of the registers into memory to have more blocks at once.)
template <int V, class T, class Op>
__global__ void __launch_bounds__(detail::kReductionThreads, 1)
    fold_rows(FoldTarget<Folded<T>, T> target, const T* x, ReductionPlan plan, Op op) {
  using A = Folded<T>;
  __shared__ A shared[detail::kReductionThreads / kWarp];
  const int lane = static_cast<int>(threadIdx.x) % plan.lanes;
  const int at = lane % plan.across, first = lane / plan.across, rows_at_once = plan.lanes / plan.across;
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / plan.lanes;
  const bool mine = row < plan.kept.count;

  A totals[V];
  for (int v = 0; v < V; ++v) totals[v] = op.template identity<A, T>();
  int64_t place[2] = {};
  if (mine) {
    plan.kept.of(row, place);
    const int64_t share = blockIdx.y, inner = share % plan.inner_splits, outer = share / plan.inner_splits;
    const int64_t start = inner * plan.inner_chunk, outer_end = (outer + 1) * plan.outer_chunk;
    const int64_t rest = plan.length - start, end = outer_end < plan.reduced.count ? outer_end : plan.reduced.count;
    const int64_t count = rest < plan.inner_chunk ? rest : plan.inner_chunk;
    for (int64_t j = outer * plan.outer_chunk + first; j < end; j += rows_at_once) {
      int64_t from[1];
      plan.reduced.of(j, from);
      fold_span<V>(totals, x + place[0] + from[0] + start * plan.step, plan.step, count, at, plan.across, op);
    }
  }
  for (int width = V / 2; width > 0; width /= 2) {
    for (int v = 0; v < width; ++v) totals[v] = op(totals[v], totals[v + width]);
  }
  const A total = combine_lanes(totals[0], plan.lanes, shared, op);
  if (mine && lane == 0) target.write(total, row, plan.kept.count, place[1]);
}

/// T is what is read, Out what is made of it: they differ in the second pass.
template <int V, class T, class Out, class Op>
__global__ void __launch_bounds__(detail::kReductionThreads, 1)
    fold_columns(FoldTarget<Folded<T>, Out> target, const T* x, ReductionPlan plan, Op op) {
  using A = Folded<T>;
  __shared__ A shared[detail::kReductionThreads * V];
  const int lane = static_cast<int>(threadIdx.x) % plan.lanes, at = lane % plan.across, first = lane / plan.across;
  const int sharing = plan.lanes / plan.across;
  const int64_t tile = int64_t{plan.across} * V, tiles = (plan.length + tile - 1) / tile;
  const int64_t column = static_cast<int64_t>(blockIdx.x) % tiles * tile + at * V;
  const int64_t line = static_cast<int64_t>(blockIdx.x) / tiles * plan.stacked + threadIdx.x / plan.lanes;
  const bool mine = column < plan.length && line < plan.kept.count;  // V divides the length

  A totals[V];
  for (int v = 0; v < V; ++v) totals[v] = op.template identity<A, Out>();
  int64_t place[2] = {};
  if (mine) {
    plan.kept.of(line, place);
    const T* from = x + place[0] + column * plan.step;
    const auto take = [&](const Pack<T, V>& elements) {
      for (int v = 0; v < V; ++v) totals[v] = op(totals[v], op.template of<A>(to_compute(elements.at[v])));
    };
    const auto at_row = [&](int64_t j) {
      int64_t offset[1];
      plan.reduced.of(j, offset);
      return *reinterpret_cast<const Pack<T, V>*>(from + offset[0]);
    };
    int64_t j = static_cast<int64_t>(blockIdx.y) * plan.outer_chunk;
    const int64_t share_end = j + plan.outer_chunk;
    const int64_t end = share_end < plan.reduced.count ? share_end : plan.reduced.count;
    for (j += first; j + 3 * sharing < end; j += 4 * sharing) {  // loads that do not wait for each other
      const Pack<T, V> a = at_row(j), b = at_row(j + sharing), c = at_row(j + 2 * sharing), d = at_row(j + 3 * sharing);
      take(a);
      take(b);
      take(c);
      take(d);
    }
    for (; j < end; j += sharing) take(at_row(j));
  }

  A* const slot = shared + threadIdx.x * V;
  for (int half = sharing / 2; half > 0; half /= 2) {
    for (int v = 0; v < V; ++v) slot[v] = totals[v];
    __syncthreads();
    if (first < half) {
      for (int v = 0; v < V; ++v) totals[v] = op(totals[v], slot[half * plan.across * V + v]);
    }
    __syncthreads();
  }
  if (!mine || first != 0) return;
  const int64_t results = plan.kept.count * plan.length;
  for (int v = 0; v < V; ++v) {
    target.write(totals[v], line * plan.length + column + v, results, place[1] + (column + v) * plan.out_step);
  }
}

template <class T, class Out, class Op>
void launch_columns(const char* name, FoldTarget<Folded<T>, Out> target, const T* x, const ReductionPlan& plan,
                    const Op& op) {
  const int64_t tiles = detail::ceil_div(plan.length, int64_t{plan.across} * plan.width);
  const int64_t lines = detail::ceil_div(plan.kept.count, plan.stacked);
  const Grid grid{dim3(static_cast<unsigned>(tiles * lines), static_cast<unsigned>(plan.splits())),
                  dim3(static_cast<unsigned>(plan.lanes * plan.stacked))};
  constexpr int kVector = kPerLoad<T> < 4 ? kPerLoad<T> : 4;
  if constexpr (std::is_same_v<T, Out>) {
    if (plan.width > 1) return launch(name, fold_columns<kVector, T, Out, Op>, grid, target, x, plan, op);
  }
  launch(name, fold_columns<1, T, Out, Op>, grid, target, x, plan, op);
}

/// out.numel > 0. `merge` folds the results of several blocks.
template <class T, class Op, class Merge>
void fold(const char* name, const View& out, const View& x, const Op& op, const Merge& merge) {
  using A = Folded<T>;
  const ReductionPlan plan = plan_reduction(out, x, kPerLoad<T>, kPerLoad<T> < 4 ? kPerLoad<T> : 4);
  const auto first_pass = [&](const FoldTarget<A, T>& target) {
    if (!plan.by_row) return launch_columns<T, T>(name, target, x.as<const T>(), plan, op);
    const int64_t blocks = detail::ceil_div(plan.kept.count * plan.lanes, detail::kReductionThreads);
    const Grid grid{dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(plan.splits())),
                    dim3(detail::kReductionThreads)};
    if (plan.width > 1) return launch(name, fold_rows<kPerLoad<T>, T, Op>, grid, target, x.as<const T>(), plan, op);
    launch(name, fold_rows<1, T, Op>, grid, target, x.as<const T>(), plan, op);
  };
  if (plan.splits() == 1) return first_pass({out.as<T>(), nullptr});
  const Workspace partial(static_cast<std::size_t>(plan.splits() * plan.results()) * sizeof(A));
  first_pass({nullptr, partial.as<A>()});
  launch_columns<A, T>(name, {out.as<T>(), nullptr}, partial.as<const A>(), plan_second_pass(plan), merge);
}
template <class T, class Op>
void fold(const char* name, const View& out, const View& x, const Op& op) {
  fold<T>(name, out, x, op, op);
}

void reduce_sum(const View& out, const View& x);
void reduce_other(Reduction op, const View& out, const View& x);
void reduce_function(Reduction op, const View& out, const View& x);  ///< those of reductions.def

}  // namespace tendril::cuda
