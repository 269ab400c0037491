#include <algorithm>
#include <limits>

#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernels/channels.cuh"
#include "tendril/tensor/cuda/runtime/capture.h"
#include "tendril/tensor/cuda/runtime/workspace.h"

/// Batch normalisation in two launches: blocks sum up slices of the channels; then blocks first join the slices of
/// their channels, each the same way, and go over the elements. Nothing depends on the order in which blocks run. What
/// follows it in residual networks, a sum and a relu, and what is learned for evaluation is in the same two launches.
namespace tendril::cuda {
namespace {

/// In channels-last order each place is an image of its own.
ChannelShape shape_of(const View& x) {
  return x.contiguous ? ChannelShape{x.sizes[0], x.sizes[1], x.sizes[2]}
                      : ChannelShape{x.sizes[0] * x.sizes[2], x.sizes[1], 1};
}

/// One number a channel, or null: of T or, beside a half type, of float.
template <class T>
struct PerChannel {
  void* data;
  bool wide;

  PerChannel(const View* view) : data(view ? view->data : nullptr), wide(view && view->dtype == kFloat32) {}
  __device__ explicit operator bool() const { return data != nullptr; }
  __device__ double get(int64_t channel) const {
    if (is_half<T> && wide) return static_cast<double>(static_cast<const float*>(data)[channel]);
    return static_cast<double>(to_compute(static_cast<const T*>(data)[channel]));
  }
  __device__ void put(int64_t channel, double value) const {
    if (is_half<T> && wide) {
      static_cast<float*>(data)[channel] = static_cast<float>(value);
    } else {
      static_cast<T*>(data)[channel] = from_compute<T>(static_cast<Compute<T>>(value));
    }
  }
};

/// How many packs of each operand a thread has under way. Fewer of eight elements where registers would not do: of
/// three operands, or where all elements of some packs are of one channel.
template <int V, int Lanes, int Operands>
inline constexpr int kAtOnce = V > 4 && (Lanes == 1 || Operands > 2) ? 2 : 4;

// ---- what is summed up. Joined in double.

/// Number, mean and sum of squared distances from the mean of some elements of each of K channels, as many of each;
/// joined without cancellation (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing
/// sample variances", 1979).
template <class T, int K>
struct Moments {
  T count, mean[K], squares[K];

  __device__ void join(const Moments& other) {
    if (other.count == T(0)) return;
    if (count == T(0)) {
      *this = other;
      return;
    }
    const T all = count + other.count, part = other.count / all;
    for (int c = 0; c < K; ++c) {
      const T distance = other.mean[c] - mean[c];
      mean[c] += distance * part;
      squares[c] += other.squares[c] + distance * distance * count * part;
    }
    count = all;
  }
  __device__ Moments<double, K> in_double() const {
    Moments<double, K> wide{static_cast<double>(count), {}, {}};
    for (int c = 0; c < K; ++c) {
      wide.mean[c] = static_cast<double>(mean[c]);
      wide.squares[c] = static_cast<double>(squares[c]);
    }
    return wide;
  }
  __device__ Moments<T, 1> of(int c) const { return {count, {mean[c]}, {squares[c]}}; }
};

/// Of g, and of g times x's distance from the mean.
template <int K>
struct Sums {
  double g[K], g_distance[K];

  __device__ void join(const Sums& other) {
    for (int c = 0; c < K; ++c) {
      g[c] += other.g[c];
      g_distance[c] += other.g_distance[c];
    }
  }
  __device__ Sums<1> of(int c) const { return {{g[c]}, {g_distance[c]}}; }
};

using MomentSlices = Slices<Moments<double, 1>>;
using SumSlices = Slices<Sums<1>>;

// ---- forward. K are the channels of a thread, K being V or 1: element v of a pack is one of the (v % K)th.

template <class T, int V, int Lanes>
__global__ void __launch_bounds__(kChannelThreads<V, Lanes>)
    sum_moments(MomentSlices slices, const T* x, ChannelShape shape) {
  using C = Compute<T>;
  constexpr int K = kChannelsOfThread<V, Lanes>;
  Moments<C, K> mine{};
  for_each_pack<V, Lanes, kAtOnce<V, Lanes, 1>>(shape, [&](const auto& offsets, auto number) {
    constexpr int kPacks = decltype(number)::value, kEach = kPacks * V / K;
    Packs<T, V, kPacks> xs;
    xs.load(x, offsets);
    Moments<C, K> some{C(kEach), {}, {}};
    for (int c = 0; c < K; ++c) {
      C sum = 0;
      for (int k = 0; k < kEach; ++k) sum += xs.get((k * K + c) / V, (k * K + c) % V);
      const C mean = sum / C(kEach);
      for (int k = 0; k < kEach; ++k) {
        const C distance = xs.get((k * K + c) / V, (k * K + c) % V) - mean;
        some.squares[c] += distance * distance;
      }
      some.mean[c] = mean;
    }
    mine.join(some);
  });
  leave_slice<V, Lanes>(slices, mine.in_double(), shape.channels);
}

/// What is learned of the batch for evaluation.
template <class T>
struct Learned {
  PerChannel<T> mean, var;
  double momentum;

  __device__ void learn(int64_t channel, double its_mean, double its_var, double count) const {
    const double kept = 1 - momentum;
    if (mean) mean.put(channel, kept * mean.get(channel) + momentum * its_mean);
    if (var) var.put(channel, kept * var.get(channel) + momentum * (its_var * (count / (count - 1))));  // unbiased
  }
};

/// There are no slices if mean and var are given; `residual` is null where nothing is added; `least` is 0 for a relu,
/// -infinity for none.
template <class T, int V, int Lanes>
__global__ void __launch_bounds__(kChannelThreads<V, Lanes>)
    normalise(T* out, Compute<T>* mean, Compute<T>* var, const T* x, PerChannel<T> weight, PerChannel<T> bias,
              const T* residual, Compute<T> least, double eps, MomentSlices slices, ChannelShape shape,
              Learned<T> learned) {
  using C = Compute<T>;
  constexpr int K = kChannelsOfThread<V, Lanes>, kOfBlock = kChannelsOfBlock<V, Lanes>;
  __shared__ C factors[3][kOfBlock];
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * kOfBlock + threadIdx.x;
  const bool leads = threadIdx.x < kOfBlock && channel < shape.channels;
  C centre = 0, spread = 0;
  if (slices.numbers) {
    const Moments<double, 1> all = join_slices<V, Lanes>(slices, shape.channels);
    const auto count = static_cast<double>(shape.images * shape.length);
    centre = static_cast<C>(all.mean[0]);
    spread = static_cast<C>(all.squares[0] / count);
    if (leads && blockIdx.y == 0) {
      mean[channel] = centre;
      var[channel] = spread;
      learned.learn(channel, static_cast<double>(centre), static_cast<double>(spread), count);
    }
  } else if (leads) {
    centre = mean[channel];
    spread = var[channel];
  }
  if (leads) {
    factors[0][threadIdx.x] = centre;
    factors[1][threadIdx.x] =
        static_cast<C>((weight ? weight.get(channel) : 1.0) / sqrt(static_cast<double>(spread) + eps));
    factors[2][threadIdx.x] = bias ? static_cast<C>(bias.get(channel)) : C(0);
  }
  __syncthreads();
  C from[K], scale[K], shift[K];
  for (int c = 0; c < K; ++c) {
    const unsigned mine = threadIdx.x % Lanes * K + static_cast<unsigned>(c);
    from[c] = factors[0][mine];
    scale[c] = factors[1][mine];
    shift[c] = factors[2][mine];
  }
  for_each_pack<V, Lanes, kAtOnce<V, Lanes, 2>>(shape, [&](const auto& offsets, auto number) {
    constexpr int kPacks = decltype(number)::value;
    Packs<T, V, kPacks> xs, more;
    xs.load(x, offsets);
    if (residual) more.load(residual, offsets);
    for (int k = 0; k < kPacks; ++k) {
      C values[V];
      for (int v = 0; v < V; ++v) {
        values[v] = (xs.get(k, v) - from[v % K]) * scale[v % K] + shift[v % K];
        if (residual) values[v] += more.get(k, v);
        values[v] = values[v] < least ? least : values[v];  // NaN stays
      }
      store_pack(out + offsets[k], values);
    }
  });
}

// ---- backward: tensor/cpu/norm.cpp has the formulas

/// g, or, behind a relu that gave `out`, 0 where that is 0. A NaN is let through.
template <class C>
__device__ inline C behind_relu(C g, C out) {
  return out <= C(0) ? C(0) : g;
}

/// `out` is null where no relu follows.
template <class T, int V, int Lanes>
__global__ void __launch_bounds__(kChannelThreads<V, Lanes>)
    sum_products(SumSlices slices, const T* g, const T* out, const T* x, const Compute<T>* mean, ChannelShape shape) {
  using C = Compute<T>;
  constexpr int K = kChannelsOfThread<V, Lanes>;
  const int64_t channel = first_channel<V, Lanes>();
  C from[K]{}, sum[K]{}, product[K]{};
  if (channel < shape.channels) {
    for (int c = 0; c < K; ++c) from[c] = mean[channel + c];
  }
  for_each_pack<V, Lanes, kAtOnce<V, Lanes, 3>>(shape, [&](const auto& offsets, auto number) {
    constexpr int kPacks = decltype(number)::value;
    Packs<T, V, kPacks> gs, outs, xs;
    gs.load(g, offsets);
    if (out) outs.load(out, offsets);
    xs.load(x, offsets);
    C part[K]{}, product_part[K]{};
    for (int k = 0; k < kPacks; ++k) {
      for (int v = 0; v < V; ++v) {
        const C here = out ? behind_relu(gs.get(k, v), outs.get(k, v)) : gs.get(k, v);
        part[v % K] += here;
        product_part[v % K] += here * (xs.get(k, v) - from[v % K]);
      }
    }
    for (int c = 0; c < K; ++c) {
      sum[c] += part[c];
      product[c] += product_part[c];
    }
  });
  Sums<K> mine;
  for (int c = 0; c < K; ++c) {
    mine.g[c] = static_cast<double>(sum[c]);
    mine.g_distance[c] = static_cast<double>(product[c]);
  }
  leave_slice<V, Lanes>(slices, mine, shape.channels);
}

/// There are no slices if nothing depends on the sums. dx, dweight, dbias and dresidual may be null, as may `out`.
template <class T, int V, int Lanes>
__global__ void __launch_bounds__(kChannelThreads<V, Lanes>)
    differentiate(T* dx, PerChannel<T> dweight, PerChannel<T> dbias, T* dresidual, const T* g, const T* out, const T* x,
                  const Compute<T>* mean, const Compute<T>* var, PerChannel<T> weight, double eps, bool batch,
                  SumSlices slices, ChannelShape shape) {
  using C = Compute<T>;
  constexpr int K = kChannelsOfThread<V, Lanes>, kOfBlock = kChannelsOfBlock<V, Lanes>;
  __shared__ C factors[4][kOfBlock];
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * kOfBlock + threadIdx.x;
  Sums<1> sums{};
  if (slices.numbers) sums = join_slices<V, Lanes>(slices, shape.channels);
  if (threadIdx.x < kOfBlock && channel < shape.channels) {
    const double r = 1 / sqrt(static_cast<double>(var[channel]) + eps);
    const double scale = weight ? weight.get(channel) * r : r;
    const auto number = static_cast<double>(shape.images * shape.length);
    if (blockIdx.y == 0) {
      if (dweight) dweight.put(channel, sums.g_distance[0] * r);
      if (dbias) dbias.put(channel, sums.g[0]);
    }
    factors[0][threadIdx.x] = mean[channel];
    factors[1][threadIdx.x] = static_cast<C>(scale);
    factors[2][threadIdx.x] = static_cast<C>(batch ? -scale * r * r * sums.g_distance[0] / number : 0);
    factors[3][threadIdx.x] = static_cast<C>(batch ? -scale * sums.g[0] / number : 0);
  }
  __syncthreads();
  if (!dx && !dresidual) return;
  C from[K], of_g[K], of_x[K], constant[K];
  for (int c = 0; c < K; ++c) {
    const unsigned mine = threadIdx.x % Lanes * K + static_cast<unsigned>(c);
    from[c] = factors[0][mine];
    of_g[c] = factors[1][mine];
    of_x[c] = factors[2][mine];
    constant[c] = factors[3][mine];
  }
  for_each_pack<V, Lanes, kAtOnce<V, Lanes, 3>>(shape, [&](const auto& offsets, auto number) {
    constexpr int kPacks = decltype(number)::value;
    Packs<T, V, kPacks> gs, outs, xs;
    gs.load(g, offsets);
    if (out) outs.load(out, offsets);
    if (dx) xs.load(x, offsets);
    for (int k = 0; k < kPacks; ++k) {
      C values[V];
      for (int v = 0; v < V; ++v) values[v] = out ? behind_relu(gs.get(k, v), outs.get(k, v)) : gs.get(k, v);
      if (dresidual) store_pack(dresidual + offsets[k], values);
      if (!dx) continue;
      for (int v = 0; v < V; ++v) {
        values[v] = of_g[v % K] * values[v] + (of_x[v % K] * (xs.get(k, v) - from[v % K]) + constant[v % K]);
      }
      store_pack(dx + offsets[k], values);
    }
  });
}

// ---- which way

bool aligned(const View* view) { return !view || reinterpret_cast<uintptr_t>(view->data) % 16 == 0; }

/// f(TypeTag<T>, Number<V>, Number<Lanes>) for x, which `others` must be as well aligned as.
template <class F>
void choose(const char* op, const View& x, std::initializer_list<const View*> others, F f) {
  const ChannelShape shape = shape_of(x);
  const bool all_aligned = aligned(&x) && std::all_of(others.begin(), others.end(), aligned);
  visit_floating(op, x.dtype, [&](auto tag) {
    constexpr int kMost = kPerLoad<typename decltype(tag)::type>,
                  kLine = 128 / 16;  // a line of the caches is 128 bytes
    if (shape.length == 1) {
      if (all_aligned && shape.channels % kMost == 0) return f(tag, Number<kMost>{}, Number<kLine>{});
      return f(tag, Number<1>{}, Number<kWarp>{});
    }
    if (all_aligned && shape.length % kMost == 0) return f(tag, Number<kMost>{}, Number<1>{});
    f(tag, Number<1>{}, Number<1>{});
  });
}

template <class T>
T* data_or_null(const View* view) {
  return view ? view->as<T>() : nullptr;
}

void zero(const char* op, const View* view) {
  if (!view || view->numel == 0) return;
  refuse_when_renewed(op);
  TENDRIL_CUDA(op, cudaMemsetAsync, view->data, 0, static_cast<std::size_t>(view->numel) * size_of(view->dtype),
               current_stream());
}

/// `residual` and `relu` as in Kernels::batch_norm_relu.
void forward(const char* op, const View& out, const View& mean, const View& var, const View& x, const View* weight,
             const View* bias, const View* residual, bool relu, double eps, bool batch,
             const RunningStatistics& running) {
  if (x.numel == 0) return;
  const ChannelShape shape = shape_of(x);
  choose(op, x, {&out, residual}, [&](auto tag, auto pack, auto lanes) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    constexpr int V = decltype(pack)::value, kLanes = decltype(lanes)::value;
    const Grid grid = grid_of<V, kLanes>(shape);
    const int slices = static_cast<int>(grid.blocks.y);
    const auto run = [&](double* moments) {
      launch(op, normalise<T, V, kLanes>, grid, out.as<T>(), mean.as<C>(), var.as<C>(), x.as<const T>(),
             PerChannel<T>(weight), PerChannel<T>(bias), data_or_null<const T>(residual),
             relu ? C(0) : -std::numeric_limits<C>::infinity(), eps, MomentSlices{moments, slices}, shape,
             Learned<T>{running.mean, running.var, running.momentum});
    };
    if (!batch) return run(nullptr);
    const Workspace moments(MomentSlices::bytes(shape.channels, slices));
    launch(op, sum_moments<T, V, kLanes>, grid, MomentSlices{moments.as<double>(), slices}, x.as<const T>(), shape);
    run(moments.as<double>());
  });
}

/// `out` is null where no relu follows.
void backward(const char* op, const View* dx, const View* dweight, const View* dbias, const View* dresidual,
              const View& g, const View* out, const View& x, const View& mean, const View& var, const View* weight,
              double eps, bool batch) {
  if (x.numel == 0) {  // sums over nothing
    zero(op, dweight);
    zero(op, dbias);
    return;
  }
  const ChannelShape shape = shape_of(x);
  choose(op, x, {dx, dresidual, &g, out}, [&](auto tag, auto pack, auto lanes) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    constexpr int V = decltype(pack)::value, kLanes = decltype(lanes)::value;
    const Grid grid = grid_of<V, kLanes>(shape);
    const int slices = static_cast<int>(grid.blocks.y);
    const auto run = [&](double* sums) {
      const Grid last = dx || dresidual ? grid : Grid{dim3(grid.blocks.x), grid.threads};
      launch(op, differentiate<T, V, kLanes>, last, data_or_null<T>(dx), PerChannel<T>(dweight), PerChannel<T>(dbias),
             data_or_null<T>(dresidual), g.as<const T>(), data_or_null<const T>(out), x.as<const T>(),
             mean.as<const C>(), var.as<const C>(), PerChannel<T>(weight), eps, batch, SumSlices{sums, slices}, shape);
    };
    if ((!batch || !dx) && !dweight && !dbias) return run(nullptr);
    const Workspace sums(SumSlices::bytes(shape.channels, slices));
    launch(op, sum_products<T, V, kLanes>, grid, SumSlices{sums.as<double>(), slices}, g.as<const T>(),
           data_or_null<const T>(out), x.as<const T>(), mean.as<const C>(), shape);
    run(sums.as<double>());
  });
}

}  // namespace

void batch_norm(const View& out, const View& mean, const View& var, const View& x, const View* weight, const View* bias,
                double eps, bool batch, const RunningStatistics& running) {
  forward("batch_norm", out, mean, var, x, weight, bias, nullptr, false, eps, batch, running);
}

void batch_norm_relu(const View& out, const View& mean, const View& var, const View& x, const View* weight,
                     const View* bias, const View* residual, double eps, bool batch, const RunningStatistics& running) {
  forward("batch_norm_relu", out, mean, var, x, weight, bias, residual, true, eps, batch, running);
}

void batch_norm_backward(const View* dx, const View* dweight, const View* dbias, const View& g, const View& x,
                         const View& mean, const View& var, const View* weight, double eps, bool batch) {
  backward("batch_norm_backward", dx, dweight, dbias, nullptr, g, nullptr, x, mean, var, weight, eps, batch);
}

void batch_norm_relu_backward(const View* dx, const View* dweight, const View* dbias, const View* dresidual,
                              const View& g, const View& out, const View& x, const View& mean, const View& var,
                              const View* weight, double eps, bool batch) {
  backward("batch_norm_relu_backward", dx, dweight, dbias, dresidual, g, &out, x, mean, var, weight, eps, batch);
}

}  // namespace tendril::cuda
