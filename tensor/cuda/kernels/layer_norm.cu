#include <algorithm>
#include <initializer_list>

#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernels/kernel.cuh"
#include "tendril/tensor/cuda/kernels/lanes.cuh"
#include "tendril/tensor/cuda/kernels/reduction_plan.h"
#include "tendril/tensor/cuda/runtime/workspace.h"

/// Normalisation of lines that lie side by side (kernels.h). Lines are read two or three times, of which all but the
/// first are served by a cache unless a line is longer than that. Gradients of weight and bias go over the lines a
/// second time, by columns, in slices that are joined in a fixed order; nothing depends on the order in which blocks
/// run.
namespace tendril::cuda {
namespace {

constexpr int kThreads = 256;

/// The sum over the `lanes` threads of a line, a power of two, for each of them, in one order for all. `shared` has an
/// element for each warp; all threads of the block call it.
template <class C>
__device__ C sum_of_line(C value, int lanes, C* shared) {
  for (int distance = (lanes < kWarp ? lanes : kWarp) / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  if (lanes <= kWarp) return value;
  __syncthreads();  // `shared` may still be read by an earlier call
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = value;
  __syncthreads();
  const int warps = lanes / kWarp, first = static_cast<int>(threadIdx.x) / lanes * warps;
  C sum = 0;
  for (int warp = 0; warp < warps; ++warp) sum += shared[first + warp];
  return sum;
}

/// This thread's line and its place among those that share it.
struct Place {
  int64_t line;
  int lane;
  __device__ explicit Place(int lanes)
      : line((static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / lanes),
        lane(static_cast<int>(threadIdx.x) % lanes) {}
};

template <int V, class T>
__device__ void load(Compute<T> (&values)[V], const T* from) {
  const Pack<T, V> pack = *reinterpret_cast<const Pack<T, V>*>(from);
  for (int v = 0; v < V; ++v) values[v] = to_compute(pack.at[v]);
}
template <int V, class T>
__device__ void store(T* to, const Compute<T> (&values)[V]) {
  Pack<T, V> pack;
  for (int v = 0; v < V; ++v) pack.at[v] = from_compute<T>(values[v]);
  *reinterpret_cast<Pack<T, V>*>(to) = pack;
}

/// `mean` is null for a root mean square; weight and bias, of W, may be null.
template <int V, class T, class W>
__global__ void __launch_bounds__(kThreads)
    normalise_lines(T* out, Compute<T>* mean, Compute<T>* rstd, const T* x, const W* weight, const W* bias,
                    Compute<T> eps, int64_t lines, int64_t length, int lanes) {
  using C = Compute<T>;
  __shared__ C shared[kThreads / kWarp];
  const Place place(lanes);
  const bool mine = place.line < lines;
  const int64_t first = static_cast<int64_t>(place.lane) * V, step = static_cast<int64_t>(lanes) * V;
  const int64_t end = mine ? length : 0;
  x += place.line * length;
  out += place.line * length;

  C centre = 0;
  if (mean) {
    // Distances from one of the elements: a mean far from 0 costs no digits, however many are added up.
    const C origin = mine ? to_compute(x[0]) : C(0);
    C sum = 0;
    for (int64_t i = first; i < end; i += step) {
      C values[V], part = 0;
      load<V>(values, x + i);
      for (int v = 0; v < V; ++v) part += values[v] - origin;
      sum += part;
    }
    centre = origin + sum_of_line(sum, lanes, shared) / static_cast<C>(length);
  }
  C squares = 0;
  for (int64_t i = first; i < end; i += step) {
    C values[V];
    load<V>(values, x + i);
    for (int v = 0; v < V; ++v) squares += (values[v] - centre) * (values[v] - centre);
  }
  const C r = C(1) / sqrt(sum_of_line(squares, lanes, shared) / static_cast<C>(length) + eps);
  if (mine && place.lane == 0) {
    if (mean) mean[place.line] = centre;
    rstd[place.line] = r;
  }
  for (int64_t i = first; i < end; i += step) {
    C values[V], factors[V], shifts[V];
    load<V>(values, x + i);
    for (int v = 0; v < V; ++v) values[v] = (values[v] - centre) * r;
    if (weight) {
      load<V>(factors, weight + i);
      for (int v = 0; v < V; ++v) values[v] *= factors[v];
    }
    if (bias) {
      load<V>(shifts, bias + i);
      for (int v = 0; v < V; ++v) values[v] += shifts[v];
    }
    store<V>(out + i, values);
  }
}

/// dx = rstd (h - mean of h - xhat mean of (h xhat)) with h = g weight, xhat = (x - mean) rstd; of a root mean square
/// without the mean of h.
template <int V, class T, class W>
__global__ void __launch_bounds__(kThreads)
    differentiate_lines(T* dx, const T* g, const T* x, const Compute<T>* mean, const Compute<T>* rstd, const W* weight,
                        int64_t lines, int64_t length, int lanes) {
  using C = Compute<T>;
  __shared__ C shared[kThreads / kWarp];
  const Place place(lanes);
  const bool mine = place.line < lines;
  const int64_t first = static_cast<int64_t>(place.lane) * V, step = static_cast<int64_t>(lanes) * V;
  const int64_t end = mine ? length : 0, at = place.line * length;
  const C centre = mine && mean ? mean[place.line] : C(0), r = mine ? rstd[place.line] : C(0);
  /// h and xhat of the elements from i on.
  const auto read = [&](C(&h)[V], C(&xhat)[V], int64_t i) {
    load<V>(h, g + at + i);
    load<V>(xhat, x + at + i);
    for (int v = 0; v < V; ++v) xhat[v] = (xhat[v] - centre) * r;
    if (!weight) return;
    C factors[V];
    load<V>(factors, weight + i);
    for (int v = 0; v < V; ++v) h[v] *= factors[v];
  };
  C sum = 0, product = 0;
  for (int64_t i = first; i < end; i += step) {
    C h[V], xhat[V];
    read(h, xhat, i);
    for (int v = 0; v < V; ++v) {
      sum += h[v];
      product += h[v] * xhat[v];
    }
  }
  sum = mean ? sum_of_line(sum, lanes, shared) / static_cast<C>(length) : C(0);
  product = sum_of_line(product, lanes, shared) / static_cast<C>(length);
  for (int64_t i = first; i < end; i += step) {
    C h[V], xhat[V];
    read(h, xhat, i);
    for (int v = 0; v < V; ++v) h[v] = r * (h[v] - sum - xhat[v] * product);
    store<V>(dx + at + i, h);
  }
}

/// What a slice of the lines gives a column's weight and bias.
struct ColumnSums {
  double weight, bias;
};

/// A warp across the columns, V of them a thread, and each warp of a block lines of its own.
template <int V, class T>
__global__ void __launch_bounds__(kThreads)
    sum_by_columns(ColumnSums* partials, const T* g, const T* x, const Compute<T>* mean, const Compute<T>* rstd,
                   int64_t lines, int64_t length) {
  using C = Compute<T>;
  constexpr int kWarps = kThreads / kWarp;
  __shared__ ColumnSums all[kWarps / 2][kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t column = (static_cast<int64_t>(blockIdx.x) * kWarp + lane) * V;
  C weights[V] = {}, biases[V] = {};
  if (column < length) {
    const int64_t step = static_cast<int64_t>(gridDim.y) * kWarps;
    for (int64_t line = static_cast<int64_t>(blockIdx.y) * kWarps + warp; line < lines; line += step) {
      C gs[V], xs[V];
      load<V>(gs, g + line * length + column);
      load<V>(xs, x + line * length + column);
      const C centre = mean ? mean[line] : C(0), r = rstd[line];
      for (int v = 0; v < V; ++v) {
        biases[v] += gs[v];
        weights[v] += gs[v] * ((xs[v] - centre) * r);
      }
    }
  }
  for (int v = 0; v < V; ++v) {
    ColumnSums mine{static_cast<double>(weights[v]), static_cast<double>(biases[v])};
    for (int half = kWarps / 2; half > 0; half /= 2) {
      if (warp >= half && warp < 2 * half) all[warp - half][lane] = mine;
      __syncthreads();
      if (warp < half) {
        mine.weight += all[warp][lane].weight;
        mine.bias += all[warp][lane].bias;
      }
      __syncthreads();
    }
    if (warp == 0 && column < length) partials[blockIdx.y * length + column + v] = mine;
  }
}

/// A warp's worth of neighbouring columns a block; its warps share the slices.
template <class W>
__global__ void __launch_bounds__(kThreads)
    join_columns(W* dweight, W* dbias, const ColumnSums* partials, int slices, int64_t length) {
  constexpr int kWarps = kThreads / kWarp;
  __shared__ ColumnSums all[kWarps][kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarp + lane;
  ColumnSums mine{};
  for (int slice = warp; slice < slices && column < length; slice += kWarps) {
    const ColumnSums more = partials[slice * length + column];
    mine.weight += more.weight;
    mine.bias += more.bias;
  }
  all[warp][lane] = mine;
  __syncthreads();
  if (warp != 0 || column >= length) return;
  for (int other = 1; other < kWarps; ++other) {
    mine.weight += all[other][lane].weight;
    mine.bias += all[other][lane].bias;
  }
  if (dweight) dweight[column] = from_compute<W>(static_cast<Compute<W>>(mine.weight));
  if (dbias) dbias[column] = from_compute<W>(static_cast<Compute<W>>(mine.bias));
}

// ---- which way

using MaybeViews = std::initializer_list<const View*>;

/// f(TypeTag<T>, TypeTag<W>) for elements of T beside parameters of W.
template <class F>
void visit_both(const char* op, const View& x, MaybeViews parameters, F f) {
  const bool wide =
      std::any_of(parameters.begin(), parameters.end(), [](const View* p) { return p && p->dtype == kFloat32; });
  visit_floating(op, x.dtype, [&](auto tag) {
    if constexpr (is_half<typename decltype(tag)::type>) {
      if (wide) return f(tag, tendril::detail::TypeTag<float>{});
    }
    f(tag, tag);
  });
}

/// Whether 16 bytes of each view can be moved at once.
template <class T>
bool by_packs(const View& x, MaybeViews views) {
  return x.sizes[1] % kPerLoad<T> == 0 && std::all_of(views.begin(), views.end(), [](const View* view) {
           return !view || reinterpret_cast<uintptr_t>(view->data) % 16 == 0;
         });
}

/// How many threads a line gets: a warp at most, unless lines are long, or few.
int lanes_of(const View& x) {
  constexpr int64_t kLong = 8192, kFew = 1024;
  const bool whole_block = x.sizes[1] >= kLong || (x.sizes[0] < kFew && x.sizes[1] >= kThreads);
  return whole_block ? kThreads : power_of_two_from(detail::ceil_div(x.sizes[1], 4), kWarp);
}
Grid grid_of(const View& x, int lanes) {
  const int64_t blocks = detail::ceil_div(x.sizes[0], kThreads / lanes);
  return {dim3(static_cast<unsigned>(blocks)), dim3(kThreads)};
}

template <class T>
const T* maybe(const View* view) {
  return view ? view->as<const T>() : nullptr;
}
template <class T>
T* maybe_to(const View* view) {
  return view ? view->as<T>() : nullptr;
}

template <class T, class W>
void gradients_of_parameters(const View* dweight, const View* dbias, const View& g, const View& x, const View* mean,
                             const View& rstd) {
  constexpr int kWide = kPerLoad<T>;
  constexpr int64_t kEnoughBlocks = 1024, kMostSlices = 256, kLinesOfThread = 8;
  const int64_t lines = x.sizes[0], length = x.sizes[1];
  const bool packs = by_packs<T>(x, {&g, &x});
  const int64_t across = detail::ceil_div(length, kWarp * (packs ? kWide : 1));
  const int64_t most = detail::ceil_div(lines, kThreads / kWarp * kLinesOfThread);
  const int64_t slices = std::clamp<int64_t>(detail::ceil_div(kEnoughBlocks, across), 1, std::min(most, kMostSlices));
  const Workspace partials(static_cast<std::size_t>(slices * length) * sizeof(ColumnSums));
  const Grid grid{dim3(static_cast<unsigned>(across), static_cast<unsigned>(slices)), dim3(kThreads)};
  launch("layer_norm", packs ? sum_by_columns<kWide, T> : sum_by_columns<1, T>, grid, partials.as<ColumnSums>(),
         g.as<const T>(), x.as<const T>(), maybe<Compute<T>>(mean), rstd.as<const Compute<T>>(), lines, length);
  launch("layer_norm", join_columns<W>, {dim3(static_cast<unsigned>(detail::ceil_div(length, kWarp))), dim3(kThreads)},
         maybe_to<W>(dweight), maybe_to<W>(dbias), partials.as<const ColumnSums>(), static_cast<int>(slices), length);
}

}  // namespace

void layer_norm(const View& out, const View* mean, const View& rstd, const View& x, const View* weight,
                const View* bias, double eps) {
  visit_both("layer_norm", x, {weight, bias}, [&](auto of_x, auto of_parameters) {
    using T = typename decltype(of_x)::type;
    using W = typename decltype(of_parameters)::type;
    const int lanes = lanes_of(x);
    const bool packs = by_packs<T>(x, {&x, &out, weight, bias});
    launch("layer_norm", packs ? normalise_lines<kPerLoad<T>, T, W> : normalise_lines<1, T, W>, grid_of(x, lanes),
           out.as<T>(), maybe_to<Compute<T>>(mean), rstd.as<Compute<T>>(), x.as<const T>(), maybe<W>(weight),
           maybe<W>(bias), static_cast<Compute<T>>(eps), x.sizes[0], x.sizes[1], lanes);
  });
}

void layer_norm_backward(const View* dx, const View* dweight, const View* dbias, const View& g, const View& x,
                         const View* mean, const View& rstd, const View* weight) {
  visit_both("layer_norm", x, {dweight, dbias, weight}, [&](auto of_x, auto of_parameters) {
    using T = typename decltype(of_x)::type;
    using W = typename decltype(of_parameters)::type;
    if (dx) {
      const int lanes = lanes_of(x);
      const bool packs = by_packs<T>(x, {&x, &g, dx, weight});
      launch("layer_norm", packs ? differentiate_lines<kPerLoad<T>, T, W> : differentiate_lines<1, T, W>,
             grid_of(x, lanes), dx->as<T>(), g.as<const T>(), x.as<const T>(), maybe<Compute<T>>(mean),
             rstd.as<const Compute<T>>(), maybe<W>(weight), x.sizes[0], x.sizes[1], lanes);
    }
    if (dweight || dbias) gradients_of_parameters<T, W>(dweight, dbias, g, x, mean, rstd);
  });
}

}  // namespace tendril::cuda
