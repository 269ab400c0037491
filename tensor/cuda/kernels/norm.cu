#include <algorithm>
#include <limits>

#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernels/element.cuh"
#include "tendril/tensor/cuda/kernels/kernel.cuh"
#include "tendril/tensor/cuda/kernels/pack.cuh"
#include "tendril/tensor/cuda/runtime/workspace.h"

/// Batch normalisation in two launches: blocks sum up slices of the channels; then blocks first join the slices of
/// their channel, each the same way, and go over the elements. Nothing depends on the order in which blocks run. What
/// follows it in residual networks, a sum and a relu, and what is learned for evaluation is in the same two launches.
namespace tendril::cuda {
namespace {

constexpr int kThreads = 256;

/// x is [images, channels, length].
struct Shape {
  int64_t images, channels, length;
};
/// In channels-last order each place is an image of its own.
Shape shape_of(const View& x) {
  return x.contiguous ? Shape{x.sizes[0], x.sizes[1], x.sizes[2]} : Shape{x.sizes[0] * x.sizes[2], x.sizes[1], 1};
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

template <int N>
struct Number {
  static constexpr int value = N;
};

// A block works on kLanes channels: on one, or, where a channel has one element an image, on a warp's worth of
// neighbours. Thread t works on lane t % kLanes.

template <int Lanes>
__device__ inline int64_t my_channel() {
  return static_cast<int64_t>(blockIdx.x) * Lanes + threadIdx.x % Lanes;
}

/// f(offsets of packs, their number) for all of this thread's elements: several packs at a time, as long as there are
/// so many, to have several loads under way.
template <int V, int Lanes, class F>
__device__ inline void for_each_pack(const Shape& s, F f) {
  const int64_t channel = my_channel<Lanes>();
  if (channel >= s.channels) return;
  const int64_t row = s.length / V, count = s.images * row;
  const int64_t step = static_cast<int64_t>(gridDim.y) * (kThreads / Lanes);
  int64_t i = static_cast<int64_t>(blockIdx.y) * (kThreads / Lanes) + threadIdx.x / Lanes;
  int64_t image = i / row, at = i - image * row;
  const int64_t more_images = step / row, more_at = step - more_images * row;
  const auto next = [&] {
    const int64_t offset = (image * s.channels + channel) * s.length + at * V;
    image += more_images;
    at += more_at;
    if (at >= row) {
      at -= row;
      ++image;
    }
    return offset;
  };
  constexpr int kAtOnce = V > 4 ? 2 : 4;  // of long packs fewer: their elements are kept in float
  for (; i + (kAtOnce - 1) * step < count; i += kAtOnce * step) {
    int64_t offsets[kAtOnce];
    for (int k = 0; k < kAtOnce; ++k) offsets[k] = next();
    f(offsets, Number<kAtOnce>{});
  }
  for (; i < count; i += step) {
    const int64_t offsets[1] = {next()};
    f(offsets, Number<1>{});
  }
}

template <class T, int V, int N>
__device__ inline void load(Compute<T> (&values)[N * V], const T* from, const int64_t (&offsets)[N]) {
  for (int k = 0; k < N; ++k) {
    const Pack<T, V> pack = *reinterpret_cast<const Pack<T, V>*>(from + offsets[k]);
    for (int v = 0; v < V; ++v) values[k * V + v] = to_compute(pack.at[v]);
  }
}
template <class T, int V, int N>
__device__ inline void store(T* to, const int64_t (&offsets)[N], const Compute<T> (&values)[N * V]) {
  for (int k = 0; k < N; ++k) {
    Pack<T, V> pack;
    for (int v = 0; v < V; ++v) pack.at[v] = from_compute<T>(values[k * V + v]);
    *reinterpret_cast<Pack<T, V>*>(to + offsets[k]) = pack;
  }
}

// ---- what is summed up. Joined in double.

/// Number, mean and sum of squared distances from the mean of some elements; joined without cancellation (Chan, Golub
/// and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979).
template <class T>
struct Moments {
  T count, mean, squares;

  __device__ void join(T more, T its_mean, T its_squares) {
    if (more == T(0)) return;
    if (count == T(0)) {
      count = more;
      mean = its_mean;
      squares = its_squares;
      return;
    }
    const T all = count + more, part = more / all, distance = its_mean - mean;
    mean += distance * part;
    squares += its_squares + distance * distance * count * part;
    count = all;
  }
  template <class U>
  __device__ void join(const Moments<U>& other) {
    join(static_cast<T>(other.count), static_cast<T>(other.mean), static_cast<T>(other.squares));
  }
};

/// Of g, and of g times x's distance from the mean.
struct Sums {
  double g, g_distance;

  __device__ void join(const Sums& other) {
    g += other.g;
    g_distance += other.g_distance;
  }
};

/// Joins `mine` of all threads with the same lane; the result is in the threads below Lanes. S{} is nothing.
template <int Lanes, class S>
__device__ S join_block(const S& mine) {
  __shared__ S all[kThreads];
  const unsigned t = threadIdx.x;
  all[t] = mine;
  __syncthreads();
  for (unsigned half = kThreads / 2; half >= Lanes; half /= 2) {
    if (t < half) all[t].join(all[t + half]);
    __syncthreads();
  }
  return all[t % Lanes];
}

/// Joins what the blocks of this block's channels have left.
template <int Lanes, class S>
__device__ S join_slices(const S* partials, int slices, int64_t channels) {
  const int64_t channel = my_channel<Lanes>();
  S mine{};
  if (channel < channels) {
    for (int k = static_cast<int>(threadIdx.x / Lanes); k < slices; k += kThreads / Lanes) {
      mine.join(partials[channel * slices + k]);
    }
  }
  return join_block<Lanes>(mine);
}

template <int Lanes, class S>
__device__ void leave_slice(S* partials, const S& mine, int64_t channels) {
  const S joined = join_block<Lanes>(mine);
  const int64_t channel = my_channel<Lanes>();
  if (threadIdx.x < Lanes && channel < channels) partials[channel * gridDim.y + blockIdx.y] = joined;
}

// ---- forward

template <class T, int V, int Lanes>
__global__ void __launch_bounds__(kThreads) sum_moments(Moments<double>* partials, const T* x, Shape shape) {
  using C = Compute<T>;
  Moments<C> mine{};
  for_each_pack<V, Lanes>(shape, [&](const auto& offsets, auto number) {
    constexpr int kCount = decltype(number)::value * V;
    C values[kCount];
    load<T, V>(values, x, offsets);
    C sum = 0, squares = 0;
    for (int k = 0; k < kCount; ++k) sum += values[k];
    const C mean = sum / C(kCount);
    for (int k = 0; k < kCount; ++k) squares += (values[k] - mean) * (values[k] - mean);
    mine.join(C(kCount), mean, squares);
  });
  Moments<double> wide{};
  wide.join(mine);
  leave_slice<Lanes>(partials, wide, shape.channels);
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

/// `partials` is null if mean and var are given, `residual` where nothing is added; `least` is 0 for a relu, -infinity
/// for none.
template <class T, int V, int Lanes>
__global__ void __launch_bounds__(kThreads)
    normalise(T* out, Compute<T>* mean, Compute<T>* var, const T* x, PerChannel<T> weight, PerChannel<T> bias,
              const T* residual, Compute<T> least, double eps, const Moments<double>* partials, int slices, Shape shape,
              Learned<T> learned) {
  using C = Compute<T>;
  __shared__ C factors[3 * Lanes];
  const int64_t channel = my_channel<Lanes>();
  const bool leads = threadIdx.x < Lanes && channel < shape.channels;
  C m = 0, v = 0;
  if (partials) {
    const Moments<double> all = join_slices<Lanes>(partials, slices, shape.channels);
    const auto count = static_cast<double>(shape.images * shape.length);
    m = static_cast<C>(all.mean);
    v = static_cast<C>(all.squares / count);
    if (leads && blockIdx.y == 0) {
      mean[channel] = m;
      var[channel] = v;
      learned.learn(channel, static_cast<double>(m), static_cast<double>(v), count);
    }
  } else if (leads) {
    m = mean[channel];
    v = var[channel];
  }
  if (leads) {
    factors[threadIdx.x] = m;
    factors[Lanes + threadIdx.x] =
        static_cast<C>((weight ? weight.get(channel) : 1.0) / sqrt(static_cast<double>(v) + eps));
    factors[2 * Lanes + threadIdx.x] = bias ? static_cast<C>(bias.get(channel)) : C(0);
  }
  __syncthreads();
  const unsigned lane = threadIdx.x % Lanes;
  const C from = factors[lane], scale = factors[Lanes + lane], shift = factors[2 * Lanes + lane];
  for_each_pack<V, Lanes>(shape, [&](const auto& offsets, auto number) {
    constexpr int kCount = decltype(number)::value * V;
    C values[kCount];
    load<T, V>(values, x, offsets);
    for (int k = 0; k < kCount; ++k) values[k] = (values[k] - from) * scale + shift;
    if (residual) {
      C more[kCount];
      load<T, V>(more, residual, offsets);
      for (int k = 0; k < kCount; ++k) values[k] += more[k];
    }
    for (int k = 0; k < kCount; ++k) values[k] = values[k] < least ? least : values[k];  // NaN stays
    store<T, V>(out, offsets, values);
  });
}

// ---- backward: tensor/cpu/norm.cpp has the formulas

/// gs = g, or, behind a relu that gave `out`, 0 where that is 0.
template <class T, int V, int N>
__device__ inline void load_gradient(Compute<T> (&gs)[N * V], const T* g, const T* out, const int64_t (&offsets)[N]) {
  using C = Compute<T>;
  load<T, V>(gs, g, offsets);
  if (!out) return;
  C given[N * V];
  load<T, V>(given, out, offsets);
  for (int k = 0; k < N * V; ++k) gs[k] = given[k] <= C(0) ? C(0) : gs[k];  // a NaN is let through
}

/// `out` is null where no relu follows.
template <class T, int V, int Lanes>
__global__ void __launch_bounds__(kThreads)
    sum_products(Sums* partials, const T* g, const T* out, const T* x, const Compute<T>* mean, Shape shape) {
  using C = Compute<T>;
  const int64_t channel = my_channel<Lanes>();
  const C from = channel < shape.channels ? mean[channel] : C(0);
  C sum = 0, product = 0;
  for_each_pack<V, Lanes>(shape, [&](const auto& offsets, auto number) {
    constexpr int kCount = decltype(number)::value * V;
    C gs[kCount], xs[kCount], part = 0, product_part = 0;
    load_gradient<T, V>(gs, g, out, offsets);
    load<T, V>(xs, x, offsets);
    for (int k = 0; k < kCount; ++k) {
      part += gs[k];
      product_part += gs[k] * (xs[k] - from);
    }
    sum += part;
    product += product_part;
  });
  leave_slice<Lanes>(partials, Sums{static_cast<double>(sum), static_cast<double>(product)}, shape.channels);
}

/// `partials` is null if nothing depends on the sums. dx, dweight, dbias and dresidual may be null, as may `out`.
template <class T, int V, int Lanes>
__global__ void __launch_bounds__(kThreads)
    differentiate(T* dx, PerChannel<T> dweight, PerChannel<T> dbias, T* dresidual, const T* g, const T* out, const T* x,
                  const Compute<T>* mean, const Compute<T>* var, PerChannel<T> weight, double eps, bool batch,
                  const Sums* partials, int slices, Shape shape) {
  using C = Compute<T>;
  __shared__ C factors[4 * Lanes];
  const int64_t channel = my_channel<Lanes>();
  Sums sums{};
  if (partials) sums = join_slices<Lanes>(partials, slices, shape.channels);
  if (threadIdx.x < Lanes && channel < shape.channels) {
    const double r = 1 / sqrt(static_cast<double>(var[channel]) + eps);
    const double scale = weight ? weight.get(channel) * r : r;
    const auto number = static_cast<double>(shape.images * shape.length);
    if (blockIdx.y == 0) {
      if (dweight) dweight.put(channel, sums.g_distance * r);
      if (dbias) dbias.put(channel, sums.g);
    }
    factors[threadIdx.x] = mean[channel];
    factors[Lanes + threadIdx.x] = static_cast<C>(scale);
    factors[2 * Lanes + threadIdx.x] = static_cast<C>(batch ? -scale * r * r * sums.g_distance / number : 0);
    factors[3 * Lanes + threadIdx.x] = static_cast<C>(batch ? -scale * sums.g / number : 0);
  }
  __syncthreads();
  if (!dx && !dresidual) return;
  const unsigned lane = threadIdx.x % Lanes;
  const C from = factors[lane], of_g = factors[Lanes + lane], of_x = factors[2 * Lanes + lane],
          constant = factors[3 * Lanes + lane];
  for_each_pack<V, Lanes>(shape, [&](const auto& offsets, auto number) {
    constexpr int kCount = decltype(number)::value * V;
    C gs[kCount], xs[kCount];
    load_gradient<T, V>(gs, g, out, offsets);
    if (dresidual) store<T, V>(dresidual, offsets, gs);
    if (!dx) return;
    load<T, V>(xs, x, offsets);
    for (int k = 0; k < kCount; ++k) gs[k] = of_g * gs[k] + (of_x * (xs[k] - from) + constant);
    store<T, V>(dx, offsets, gs);
  });
}

// ---- which way

bool aligned(const View* view) { return !view || reinterpret_cast<uintptr_t>(view->data) % 16 == 0; }

/// f(TypeTag<T>, Number<V>, Number<Lanes>) for x, which `others` must be as well aligned as.
template <class F>
void choose(const char* op, const View& x, std::initializer_list<const View*> others, F f) {
  const int64_t length = shape_of(x).length;
  const bool all_aligned = aligned(&x) && std::all_of(others.begin(), others.end(), aligned);
  visit(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_floating_point_v<Compute<T>>) {
      if (length == 1) return f(tag, Number<1>{}, Number<kWarp>{});
      if (all_aligned && length % kPerLoad<T> == 0) return f(tag, Number<kPerLoad<T>>{}, Number<1>{});
      f(tag, Number<1>{}, Number<1>{});
    } else {
      refuse(op, x.dtype);
    }
  });
}

/// Blocks for the channels, times slices so that there are enough of them and each has enough to do.
Grid grid_of(const Shape& shape, int pack, int lanes) {
  constexpr int64_t kEnough = 1024, kMostSlices = 256, kPacksOfThread = 4;
  const int64_t blocks = (shape.channels + lanes - 1) / lanes;
  const int64_t of_slice = kThreads / lanes * kPacksOfThread, packs = shape.images * shape.length / pack;
  const int64_t most = std::clamp<int64_t>((packs + of_slice - 1) / of_slice, 1, kMostSlices);
  const int64_t slices = std::min((kEnough + blocks - 1) / blocks, most);
  return {dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(slices)), dim3(kThreads)};
}

template <class T>
T* data_or_null(const View* view) {
  return view ? view->as<T>() : nullptr;
}

void zero(const char* op, const View* view) {
  if (!view || view->numel == 0) return;
  TENDRIL_CUDA(op, cudaMemsetAsync, view->data, 0, static_cast<std::size_t>(view->numel) * size_of(view->dtype),
               current_stream());
}

/// `residual` and `relu` as in Kernels::batch_norm_relu.
void forward(const char* op, const View& out, const View& mean, const View& var, const View& x, const View* weight,
             const View* bias, const View* residual, bool relu, double eps, bool batch,
             const RunningStatistics& running) {
  if (x.numel == 0) return;
  const Shape shape = shape_of(x);
  choose(op, x, {&out, residual}, [&](auto tag, auto pack, auto lanes) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    constexpr int V = decltype(pack)::value, kLanes = decltype(lanes)::value;
    const Grid grid = grid_of(shape, V, kLanes);
    const auto run = [&](const Moments<double>* partials) {
      launch(op, normalise<T, V, kLanes>, grid, out.as<T>(), mean.as<C>(), var.as<C>(), x.as<const T>(),
             PerChannel<T>(weight), PerChannel<T>(bias), data_or_null<const T>(residual),
             relu ? C(0) : -std::numeric_limits<C>::infinity(), eps, partials, static_cast<int>(grid.blocks.y), shape,
             Learned<T>{running.mean, running.var, running.momentum});
    };
    if (!batch) return run(nullptr);
    const Workspace partials(static_cast<std::size_t>(shape.channels) * grid.blocks.y * sizeof(Moments<double>));
    launch(op, sum_moments<T, V, kLanes>, grid, partials.as<Moments<double>>(), x.as<const T>(), shape);
    run(partials.as<Moments<double>>());
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
  const Shape shape = shape_of(x);
  choose(op, x, {dx, dresidual, &g, out}, [&](auto tag, auto pack, auto lanes) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    constexpr int V = decltype(pack)::value, kLanes = decltype(lanes)::value;
    const Grid grid = grid_of(shape, V, kLanes);
    const auto run = [&](const Sums* partials) {
      const Grid last = dx || dresidual ? grid : Grid{dim3(grid.blocks.x), grid.threads};
      launch(op, differentiate<T, V, kLanes>, last, data_or_null<T>(dx), PerChannel<T>(dweight), PerChannel<T>(dbias),
             data_or_null<T>(dresidual), g.as<const T>(), data_or_null<const T>(out), x.as<const T>(),
             mean.as<const C>(), var.as<const C>(), PerChannel<T>(weight), eps, batch, partials,
             static_cast<int>(grid.blocks.y), shape);
    };
    if ((!batch || !dx) && !dweight && !dbias) return run(nullptr);
    const Workspace partials(static_cast<std::size_t>(shape.channels) * grid.blocks.y * sizeof(Sums));
    launch(op, sum_products<T, V, kLanes>, grid, partials.as<Sums>(), g.as<const T>(), data_or_null<const T>(out),
           x.as<const T>(), mean.as<const C>(), shape);
    run(partials.as<Sums>());
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
