#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernels/index_check.cuh"
#include "tendril/tensor/cuda/kernels/kernel.cuh"
#include "tendril/tensor/cuda/kernels/lanes.cuh"
#include "tendril/tensor/cuda/kernels/online.cuh"
#include "tendril/tensor/cuda/kernels/reduction_plan.h"

/// Up to a block a line, in any layout (kernels.h has the formulas).
namespace tendril::cuda {
namespace {

constexpr int kThreads = 256;
/// On a multiprocessor at once. Doubles take more registers than they would get beside other blocks.
template <class T>
constexpr int kLeastBlocks = sizeof(T) == 8 ? 1 : 4;

/// The line that a thread works on, one of `lanes` that do.
template <int N>
struct Mine {
  int lane, group;
  bool exists;
  int64_t place[N];

  __device__ Mine(const Places<N>& lines, int lanes)
      : lane(static_cast<int>(threadIdx.x) % lanes), group(static_cast<int>(threadIdx.x) / lanes), place{} {
    const int64_t line = static_cast<int64_t>(blockIdx.x) * (kThreads / lanes) + group;
    exists = line < lines.count;
    if (exists) lines.of(line, place);
  }
};

/// ClassLosses as the kernel sees them.
template <class C>
struct Losses {
  const int64_t* index;
  const C* weight;
  int64_t ignored;
  C *loss, *weights, *shares, *largest, *log_sum;
};

/// V elements are loaded at once where they lie side by side. `lines` are of what is like index, and of x.
template <int V, class T>
__global__ void __launch_bounds__(kThreads, kLeastBlocks<T>)
    class_loss_lines(Losses<Compute<T>> losses, const T* x, Places<2> lines, int64_t length, int64_t step, int lanes,
                     IndexReport report) {
  using C = Compute<T>;
  __shared__ C shared[kThreads / kWarp];
  __shared__ C known[kThreads];
  const Mine<2> at(lines, lanes);
  const T* const from = x + at.place[1];
  Online<C> mine;
  in_groups(at.lane, at.exists ? length / V : 0, lanes, [&](auto number, int64_t i) {
    constexpr int kCount = decltype(number)::value;
    C values[kCount * V];
    if constexpr (V == 1) {
      for (int k = 0; k < kCount; ++k) values[k] = to_compute(from[(i + k * lanes) * step]);
    } else {
      Pack<T, V> loaded[kCount];
      for (int k = 0; k < kCount; ++k) loaded[k] = reinterpret_cast<const Pack<T, V>*>(from)[i + k * lanes];
      for (int k = 0; k < kCount * V; ++k) values[k] = to_compute(loaded[k / V].at[k % V]);
    }
    mine.take(values);
  });
  const C most = combine_lanes(mine.largest, lanes, shared, Larger{});
  if (at.lane == 0) known[at.group] = most;
  __syncthreads();
  const C part = mine.sum * Online<C>::factor(mine.largest, known[at.group]);
  const C total = combine_lanes(part, lanes, shared, Plus{});
  if (at.lane != 0 || !at.exists) return;
  const int64_t line = at.place[0], chosen = losses.index[line];
  const bool counts = chosen != losses.ignored && !refused(chosen, report);
  const C weight = !counts ? C(0) : losses.weight ? losses.weight[chosen] : C(1);
  // In this order: the distance from the largest is exact where it matters.
  const C distance = counts ? to_compute(from[chosen * step]) - most : C(0);
  losses.largest[line] = most;
  losses.log_sum[line] = logarithm(total);
  losses.loss[line] = counts && weight != C(0) ? -(distance - logarithm(total)) * weight : C(0);
  losses.weights[line] = weight;
  losses.shares[line] = -weight;
}

template <int V, class T>
__global__ void __launch_bounds__(kThreads, kLeastBlocks<T>)
    cross_entropy_backward_lines(T* dx, const T* x, const Compute<T>* largest, const Compute<T>* log_sum,
                                 const int64_t* index, const Compute<T>* share, Places<6> lines, int64_t length,
                                 int64_t dx_step, int64_t x_step, int lanes) {
  using C = Compute<T>;
  const Mine<6> at(lines, lanes);
  if (!at.exists) return;
  const C most = largest[at.place[2]], log = log_sum[at.place[3]], scale = share[at.place[5]];
  const int64_t target = index[at.place[4]];
  const T* const from = x + at.place[1];
  T* const to = dx + at.place[0];
  const auto gradient = [&](T element, int64_t i) {
    if (scale == C(0)) return from_compute<T>(C(0));  // does not count: x may be NaN
    const C probability = exponential((to_compute(element) - most) - log);
    return from_compute<T>(((i == target ? C(1) : C(0)) - probability) * scale);
  };
  in_groups(at.lane, length / V, lanes, [&](auto number, int64_t i) {
    constexpr int kCount = decltype(number)::value;
    if constexpr (V == 1) {
      for (int k = 0; k < kCount; ++k) {
        const int64_t place = i + k * lanes;
        to[place * dx_step] = gradient(from[place * x_step], place);
      }
    } else {
      Pack<T, V> loaded[kCount];
      for (int k = 0; k < kCount; ++k) loaded[k] = reinterpret_cast<const Pack<T, V>*>(from)[i + k * lanes];
      for (int k = 0; k < kCount; ++k) {
        for (int v = 0; v < V; ++v) loaded[k].at[v] = gradient(loaded[k].at[v], (i + k * lanes) * V + v);
        reinterpret_cast<Pack<T, V>*>(to)[i + k * lanes] = loaded[k];
      }
    }
  });
}

template <std::size_t N>
Places<static_cast<int>(N)> lines_of(const View* const (&views)[N], int dim) {
  Places<static_cast<int>(N)> lines;
  for (int d = views[0]->ndim - 1; d >= 0; --d) {
    if (d == dim) continue;
    std::array<int64_t, N> strides;
    for (std::size_t k = 0; k < N; ++k) strides[k] = views[k]->strides[d];
    lines.insert(views[0]->sizes[d], strides);
  }
  lines.finish();
  return lines;
}

/// Whether the lines of operand k, x, are made of 16 bytes that can be moved at once.
template <class T, int N>
bool by_packs(const Places<N>& lines, int k, const View& x, int dim) {
  return x.strides[dim] == 1 && x.sizes[dim] % kPerLoad<T> == 0 && lines.multiples(k, kPerLoad<T>) &&
         reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
}

/// How many threads a line of `length` gets.
int lanes_for(int64_t length) { return power_of_two_from((length + 3) / 4, kThreads); }
Grid grid_of(int64_t lines, int lanes) {
  const int64_t each = kThreads / lanes;
  return {dim3(static_cast<unsigned>((lines + each - 1) / each)), dim3(kThreads)};
}

}  // namespace

void class_losses(const ClassLosses& losses, const View& x, int dim) {
  visit_floating("cross_entropy", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    if (losses.index.numel == 0) return;
    const auto lines = lines_of({&losses.index, &x}, dim);
    const int lanes = lanes_for(x.sizes[dim]);
    const bool packs = by_packs<T>(lines, 1, x, dim);
    const Losses<C> there{losses.index.as<const int64_t>(),
                          losses.weight ? losses.weight->as<const C>() : nullptr,
                          losses.ignored,
                          losses.loss.as<C>(),
                          losses.weights.as<C>(),
                          losses.shares.as<C>(),
                          losses.largest.as<C>(),
                          losses.log_sum.as<C>()};
    launch("cross_entropy", packs ? class_loss_lines<kPerLoad<T>, T> : class_loss_lines<1, T>,
           grid_of(lines.count, lanes), there, x.as<const T>(), lines, x.sizes[dim], x.strides[dim], lanes,
           index_report(IndexUse::cross_entropy, dim, x.sizes[dim]));
    throw_if_checked();
  });
}

void cross_entropy_backward(const View& dx, const View& x, int dim, const View& largest, const View& log_sum,
                            const View& index, const View& share) {
  visit_floating("cross_entropy", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    if (dx.numel == 0) return;
    const auto lines = lines_of({&dx, &x, &largest, &log_sum, &index, &share}, dim);
    const int lanes = lanes_for(x.sizes[dim]);
    const bool packs = by_packs<T>(lines, 0, dx, dim) && by_packs<T>(lines, 1, x, dim);
    launch("cross_entropy", packs ? cross_entropy_backward_lines<kPerLoad<T>, T> : cross_entropy_backward_lines<1, T>,
           grid_of(lines.count, lanes), dx.as<T>(), x.as<const T>(), largest.as<const C>(), log_sum.as<const C>(),
           index.as<const int64_t>(), share.as<const C>(), lines, x.sizes[dim], dx.strides[dim], x.strides[dim], lanes);
  });
}

}  // namespace tendril::cuda
