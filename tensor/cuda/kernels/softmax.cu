#include <limits>
#include <type_traits>

#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernels/kernel.cuh"
#include "tendril/tensor/cuda/kernels/lanes.cuh"
#include "tendril/tensor/cuda/kernels/online.cuh"
#include "tendril/tensor/cuda/kernels/reduction_plan.h"

/// softmax and log_softmax along a dimension (kernels.h). Sums are kept in float for float32 and the half types (in a
/// tree; the CPU adds up in double), in double for float64. A row that fits into registers or shared memory (on an H100
/// 225 KiB) is read once.
namespace tendril::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMostThreads = 512;                // for a long row
constexpr std::size_t kSharedBytes = 40 * 1024;  // beside the static arrays, without asking for more than 48 KiB
constexpr int kStaticBytes = 2 * 1024;           // what those may be at most

template <class T>
constexpr int kWidth = kPerLoad<T> < 4 ? kPerLoad<T> : 4;

/// What is done with each element once the row is known.
template <class C>
struct Finish {
  C largest, by;  // by: 1 / sum, or log(sum)
  bool logarithms;

  __device__ Finish(C most, C sum, bool log) : largest(most), by(log ? logarithm(sum) : 1 / sum), logarithms(log) {}
  __device__ C operator()(C x) const {
    return logarithms ? (x - largest) - by : exponential(x - largest) * by;  // x - largest is exact where it matters
  }
};

/// `lanes` threads a row of at most lanes * E elements, which stay in registers. V elements are loaded at once.
template <int V, int E, class T>
__global__ void __launch_bounds__(kThreads)
    softmax_short_rows(T* out, const T* x, Places<2> rows, int64_t length, int lanes, bool logarithms) {
  using C = Compute<T>;
  using Vector = Pack<T, V>;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / lanes;
  const bool mine = row < rows.count;
  int64_t place[2] = {};
  if (mine) rows.of(row, place);
  const int64_t count = mine ? length : 0;

  C values[E];
  C largest = -std::numeric_limits<C>::infinity();
  for (int e = 0; e < E / V; ++e) {
    const int64_t i = static_cast<int64_t>(e * lanes + lane) * V;
    if (i < count) {
      const Vector loaded = *reinterpret_cast<const Vector*>(x + place[0] + i);
      for (int v = 0; v < V; ++v) values[e * V + v] = to_compute(loaded.at[v]);
    } else {
      for (int v = 0; v < V; ++v) values[e * V + v] = -std::numeric_limits<C>::infinity();
    }
    for (int v = 0; v < V; ++v) largest = Larger{}(largest, values[e * V + v]);
  }
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    largest = Larger{}(largest, __shfl_xor_sync(kAllLanes, largest, distance));
  }
  C sum = 0;
  for (int e = 0; e < E / V; ++e) {
    if (static_cast<int64_t>(e * lanes + lane) * V >= count) break;
    for (int v = 0; v < V; ++v) {
      const C power = exponential(values[e * V + v] - largest);
      sum += power;
      if (!logarithms) values[e * V + v] = power;
    }
  }
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(kAllLanes, sum, distance);
  }
  const C log_sum = logarithms ? logarithm(sum) : C(0), scale = 1 / sum;
  for (int e = 0; e < E / V; ++e) {
    const int64_t i = static_cast<int64_t>(e * lanes + lane) * V;
    if (i >= count) break;
    Vector result;
    for (int v = 0; v < V; ++v) {
      const C value = values[e * V + v];
      result.at[v] = from_compute<T>(logarithms ? (value - largest) - log_sum : value * scale);
    }
    *reinterpret_cast<Vector*>(out + place[1] + i) = result;
  }
}

/// A block a row. Elements before the first aligned one and behind the last go one by one; `cached` rows stay in shared
/// memory, where each thread finds what it put there itself.
template <int V, class T>
__global__ void __launch_bounds__(kMostThreads)
    softmax_long_rows(T* out, const T* x, Places<2> rows, int64_t length, bool cached, bool logarithms) {
  using C = Compute<T>;
  using Vector = Pack<T, V>;
  TENDRIL_DYNAMIC_SHARED(Vector, kept);
  __shared__ C shared[kMostThreads / kWarp];
  __shared__ C known[2];
  int64_t place[2];
  rows.of(blockIdx.x, place);
  x += place[0];
  out += place[1];
  const int64_t thread = threadIdx.x, threads = blockDim.x;
  const auto misplaced = [](const T* p) {
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(p) % sizeof(Vector) / sizeof(T));
  };
  int64_t head = misplaced(x) == 0 ? 0 : V - misplaced(x);
  if (head > length || misplaced(out) != misplaced(x)) head = length;  // all of it one by one
  const int64_t vectors = (length - head) / V, tail = head + vectors * V;
  const auto* from = reinterpret_cast<const Vector*>(x + head);
  auto* to = reinterpret_cast<Vector*>(out + head);

  Online<C> mine;
  for (int64_t i = thread; i < head; i += threads) mine.take(to_compute(x[i]));
  in_groups(thread, vectors, threads, [&](auto number, int64_t i) {
    constexpr int kCount = decltype(number)::value;
    Vector loaded[kCount];
    C values[kCount * V];
    for (int k = 0; k < kCount; ++k) loaded[k] = from[i + k * threads];
    for (int k = 0; k < kCount; ++k) {
      if (cached) kept[i + k * threads] = loaded[k];
      for (int v = 0; v < V; ++v) values[k * V + v] = to_compute(loaded[k].at[v]);
    }
    mine.take(values);
  });
  for (int64_t i = tail + thread; i < length; i += threads) mine.take(to_compute(x[i]));

  const C most = combine_lanes(mine.largest, static_cast<int>(threads), shared, Larger{});
  if (thread == 0) known[0] = most;
  __syncthreads();
  const C largest = known[0];
  const C part = mine.sum * Online<C>::factor(mine.largest, largest);
  const C total = combine_lanes(part, static_cast<int>(threads), shared, Plus{});
  if (thread == 0) known[1] = total;
  __syncthreads();

  const Finish<C> finish(largest, known[1], logarithms);
  for (int64_t i = thread; i < head; i += threads) out[i] = from_compute<T>(finish(to_compute(x[i])));
  in_groups(thread, vectors, threads, [&](auto number, int64_t i) {
    constexpr int kCount = decltype(number)::value;
    Vector result[kCount];
    for (int k = 0; k < kCount; ++k) result[k] = cached ? kept[i + k * threads] : from[i + k * threads];
    for (int k = 0; k < kCount; ++k) {
      for (int v = 0; v < V; ++v) result[k].at[v] = from_compute<T>(finish(to_compute(result[k].at[v])));
      to[i + k * threads] = result[k];
    }
  });
  for (int64_t i = tail + thread; i < length; i += threads) out[i] = from_compute<T>(finish(to_compute(x[i])));
}

/// Along any other dimension: neighbouring threads have neighbouring lines, `sharing` threads a line.
template <class T>
__global__ void __launch_bounds__(kThreads)
    softmax_lines(T* out, const T* x, Places<2> lines, int64_t length, int64_t x_step, int64_t out_step, int across,
                  bool logarithms) {
  using C = Compute<T>;
  __shared__ C largest[kThreads];
  __shared__ C sums[kThreads];
  const int thread = static_cast<int>(threadIdx.x), at = thread % across, first = thread / across;
  const int sharing = static_cast<int>(blockDim.x) / across;
  const int64_t line = static_cast<int64_t>(blockIdx.x) * across + at;
  int64_t place[2] = {};
  if (line < lines.count) lines.of(line, place);
  const int64_t count = line < lines.count ? length : 0;
  x += place[0];
  out += place[1];

  Online<C> mine;
  for (int64_t i = first; i < count; i += sharing) mine.take(to_compute(x[i * x_step]));
  largest[thread] = mine.largest;
  sums[thread] = mine.sum;
  __syncthreads();
  for (int half = sharing / 2; half > 0; half /= 2) {
    if (first < half) {
      const int other = thread + half * across;
      mine.join({largest[other], sums[other]});
      largest[thread] = mine.largest;
      sums[thread] = mine.sum;
    }
    __syncthreads();
  }
  const Finish<C> finish(largest[at], sums[at], logarithms);
  for (int64_t i = first; i < count; i += sharing) {
    out[i * out_step] = from_compute<T>(finish(to_compute(x[i * x_step])));
  }
}

/// How much dynamic shared memory a block of `kernel` may have on the current device, which is then allowed.
template <class... P>
std::size_t most_shared_memory(const char* op, void (*kernel)(P...)) {
  int most = 0;
  TENDRIL_CUDA(op, cudaDeviceGetAttribute, &most, cudaDevAttrMaxSharedMemoryPerBlockOptin, current_device());
  const int dynamic = most - kStaticBytes;
  if (dynamic <= static_cast<int>(kSharedBytes)) return kSharedBytes;
  TENDRIL_CUDA(op, cudaFuncSetAttribute, reinterpret_cast<const void*>(kernel),
               cudaFuncAttributeMaxDynamicSharedMemorySize, dynamic);
  return static_cast<std::size_t>(dynamic);
}

template <class T>
void softmax_of(const char* op, const View& out, const View& x, int dim, bool logarithms) {
  Places<2> lines;
  for (int d = x.ndim - 1; d >= 0; --d) {
    if (d != dim) lines.insert(x.sizes[d], {x.strides[d], out.strides[d]});
  }
  lines.finish();
  const int64_t length = x.sizes[dim], x_step = x.strides[dim], out_step = out.strides[dim];
  T* const to = out.as<T>();
  const T* const from = x.as<const T>();
  const auto blocks = [](int64_t count, int64_t each) {
    return dim3(static_cast<unsigned>(detail::ceil_div(count, each)));
  };

  if (length > 1 && (x_step != 1 || out_step != 1)) {
    const int least = power_of_two_from(lines.count, kWarp);
    const int sharing = power_of_two_from(detail::ceil_div(length, 16), kThreads / least);
    const int across = power_of_two_from(lines.count, kThreads / sharing);
    const Grid grid{blocks(lines.count, across), dim3(static_cast<unsigned>(across * sharing))};
    return launch(op, softmax_lines<T>, grid, to, from, lines, length, x_step, out_step, across, logarithms);
  }
  constexpr int kVector = kWidth<T>;
  const bool aligned = length % kVector == 0 && lines.multiples(0, kVector) && lines.multiples(1, kVector) &&
                       reinterpret_cast<uintptr_t>(to) % (kVector * sizeof(T)) == 0 &&
                       reinterpret_cast<uintptr_t>(from) % (kVector * sizeof(T)) == 0;
  const auto short_rows = [&](auto wide, auto narrow, int elements) {
    const int lanes = power_of_two_from(detail::ceil_div(length, elements), kWarp);
    const Grid grid{blocks(lines.count * lanes, kThreads), dim3(kThreads)};
    launch(op, aligned ? wide : narrow, grid, to, from, lines, length, lanes, logarithms);
  };
  if (length <= 4 * kWarp) return short_rows(softmax_short_rows<kVector, 4, T>, softmax_short_rows<1, 4, T>, 4);
  if (length <= 8 * kWarp) return short_rows(softmax_short_rows<kVector, 8, T>, softmax_short_rows<1, 8, T>, 8);
  if (length <= 16 * kWarp) return short_rows(softmax_short_rows<kVector, 16, T>, softmax_short_rows<1, 16, T>, 16);
  if constexpr (sizeof(Compute<T>) < 8) {  // 32 doubles a thread are more registers than the compiler gives
    if (length <= 32 * kWarp) return short_rows(softmax_short_rows<kVector, 32, T>, softmax_short_rows<1, 32, T>, 32);
  }
  const std::size_t bytes = static_cast<std::size_t>(length) * sizeof(T);
  const auto kernel = softmax_long_rows<kPerLoad<T>, T>;
  const bool cached = bytes <= kSharedBytes || bytes <= most_shared_memory(op, kernel);
  const Grid grid{blocks(lines.count, 1), dim3(length < 4096 ? kThreads : kMostThreads),
                  cached ? static_cast<unsigned>(bytes) : 0};
  launch(op, kernel, grid, to, from, lines, length, cached, logarithms);
}

void softmax_with(const char* op, const View& out, const View& x, int dim, bool logarithms) {
  visit_floating(op, x.dtype, [&](auto tag) {
    if (out.numel > 0) softmax_of<typename decltype(tag)::type>(op, out, x, dim, logarithms);
  });
}

}  // namespace

void softmax(const View& out, const View& x, int dim) { softmax_with("softmax", out, x, dim, false); }
void log_softmax(const View& out, const View& x, int dim) { softmax_with("log_softmax", out, x, dim, true); }

}  // namespace tendril::cuda
