#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernels/kernel.cuh"
#include "tendril/tensor/cuda/kernels/lanes.cuh"
#include "tendril/tensor/cuda/kernels/online.cuh"
#include "tendril/tensor/cuda/kernels/reduction_plan.h"

/// Up to a block a line, in any layout (kernels.h has the formulas).
namespace tendril::cuda {
namespace {

constexpr int kThreads = 256;

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

template <class T>
__global__ void __launch_bounds__(kThreads)
    log_sum_exp_lines(T* largest, T* log_sum, const T* x, Places<3> lines, int64_t length, int64_t step, int lanes) {
  __shared__ T shared[kThreads / kWarp];
  __shared__ T known[kThreads];
  const Mine<3> at(lines, lanes);
  Online<T> mine;
  for (int64_t i = at.lane; i < (at.exists ? length : 0); i += lanes) mine.take(x[at.place[2] + i * step]);
  const T most = combine_lanes(mine.largest, lanes, shared, Larger{});
  if (at.lane == 0) known[at.group] = most;
  __syncthreads();
  const T part = mine.sum * Online<T>::factor(mine.largest, known[at.group]);
  const T total = combine_lanes(part, lanes, shared, Plus{});
  if (at.lane == 0 && at.exists) {
    largest[at.place[0]] = most;
    log_sum[at.place[1]] = logarithm(total);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    cross_entropy_backward_lines(T* dx, const T* x, const T* largest, const T* log_sum, const int64_t* index,
                                 const T* share, Places<6> lines, int64_t length, int64_t dx_step, int64_t x_step,
                                 int lanes) {
  const Mine<6> at(lines, lanes);
  if (!at.exists) return;
  const T most = largest[at.place[2]], log = log_sum[at.place[3]], scale = share[at.place[5]];
  const int64_t target = index[at.place[4]];
  for (int64_t i = at.lane; i < length; i += lanes) {
    const T probability = exponential((x[at.place[1] + i * x_step] - most) - log);
    dx[at.place[0] + i * dx_step] = ((i == target ? T(1) : T(0)) - probability) * scale;
  }
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

template <class F>
void visit_float_or_double(DType dtype, F&& f) {
  if (dtype == kFloat32) return f(float{});
  if (dtype != kFloat64) refuse("cross_entropy", dtype);
  f(double{});
}

/// How many threads a line of `length` gets.
int lanes_for(int64_t length) { return power_of_two_from((length + 3) / 4, kThreads); }
Grid grid_of(int64_t lines, int lanes) {
  const int64_t each = kThreads / lanes;
  return {dim3(static_cast<unsigned>((lines + each - 1) / each)), dim3(kThreads)};
}

}  // namespace

void log_sum_exp(const View& largest, const View& log_sum, const View& x, int dim) {
  visit_float_or_double(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (largest.numel == 0) return;
    const auto lines = lines_of({&largest, &log_sum, &x}, dim);
    const int lanes = lanes_for(x.sizes[dim]);
    launch("cross_entropy", log_sum_exp_lines<T>, grid_of(lines.count, lanes), largest.as<T>(), log_sum.as<T>(),
           x.as<const T>(), lines, x.sizes[dim], x.strides[dim], lanes);
  });
}

void cross_entropy_backward(const View& dx, const View& x, int dim, const View& largest, const View& log_sum,
                            const View& index, const View& share) {
  visit_float_or_double(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (dx.numel == 0) return;
    const auto lines = lines_of({&dx, &x, &largest, &log_sum, &index, &share}, dim);
    const int lanes = lanes_for(x.sizes[dim]);
    launch("cross_entropy", cross_entropy_backward_lines<T>, grid_of(lines.count, lanes), dx.as<T>(), x.as<const T>(),
           largest.as<const T>(), log_sum.as<const T>(), index.as<const int64_t>(), share.as<const T>(), lines,
           x.sizes[dim], dx.strides[dim], x.strides[dim], lanes);
  });
}

}  // namespace tendril::cuda
