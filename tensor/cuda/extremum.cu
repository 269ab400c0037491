#include <algorithm>

#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernel.cuh"
#include "tendril/tensor/cuda/lanes.cuh"
#include "tendril/tensor/cuda/reduction_plan.h"

/// The largest or smallest along a dimension and where it first occurs (kernels.h).
namespace tendril::cuda {
namespace {

constexpr int kThreads = 256;

/// An element and its place; place -1 is none.
template <class C>
struct Found {
  C value = C(0);
  int64_t at = -1;

  /// A NaN wins over numbers; of equals, NaNs among them, the first in the dimension wins. So the order of joining
  /// does not matter.
  __device__ void join(const Found& other, bool largest) {
    if (other.at < 0) return;
    const bool nan = value != value, other_nan = other.value != other.value;
    const bool better = nan ? false : other_nan ? true : largest ? other.value > value : other.value < value;
    const bool equal = nan ? other_nan : other.value == value;
    if (at < 0 || better || (equal && other.at < at)) *this = other;
  }
};

struct LinesOf {
  Places<3> lines;  ///< x, values, indices
  int64_t length, step;
  int across;   ///< lines of a block
  int sharing;  ///< threads of a line
  bool by_row;  ///< neighbouring threads have neighbouring elements of one line, not neighbouring lines
};

template <class T>
__global__ void find_extremum(T* values, int64_t* indices, const T* x, LinesOf what, bool largest) {
  using C = Compute<T>;
  __shared__ C best[kThreads];
  __shared__ int64_t places[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  const int in_line = what.by_row ? thread % what.sharing : thread / what.across;
  const int of_line = what.by_row ? thread / what.sharing : thread % what.across;
  const int apart = what.by_row ? 1 : what.across;  // from thread to thread of a line
  const int64_t line = static_cast<int64_t>(blockIdx.x) * what.across + of_line;
  const bool mine = line < what.lines.count;
  int64_t place[3] = {};
  if (mine) what.lines.of(line, place);

  Found<C> found;
  if (mine) {
    const T* from = x + place[0];
    int64_t i = in_line;
    for (; i + 3 * what.sharing < what.length; i += 4 * what.sharing) {  // loads that do not wait for each other
      T loaded[4];
      for (int n = 0; n < 4; ++n) loaded[n] = from[(i + n * what.sharing) * what.step];
      for (int n = 0; n < 4; ++n) found.join({to_compute(loaded[n]), i + n * what.sharing}, largest);
    }
    for (; i < what.length; i += what.sharing) found.join({to_compute(from[i * what.step]), i}, largest);
  }
  best[thread] = found.value;
  places[thread] = found.at;
  __syncthreads();
  for (int half = what.sharing / 2; half > 0; half /= 2) {
    if (in_line < half) {
      const int other = thread + half * apart;
      found.join({best[other], places[other]}, largest);
      best[thread] = found.value;
      places[thread] = found.at;
    }
    __syncthreads();
  }
  if (!mine || in_line != 0) return;
  if (values) values[place[1]] = from_compute<T>(found.value);
  if (indices) indices[place[2]] = found.at;
}

}  // namespace

void extremum(bool largest, const View* values, const View* indices, const View& x, int dim) {
  if (x.numel == 0) return;
  LinesOf what{};
  const View& v = values ? *values : *indices;
  const View& n = indices ? *indices : *values;
  for (int d = x.ndim - 1; d >= 0; --d) {
    if (d != dim) what.lines.insert(x.sizes[d], {x.strides[d], v.strides[d], n.strides[d]});
  }
  what.lines.finish();
  what.length = x.sizes[dim];
  what.step = x.strides[dim];
  what.by_row = what.lines.ndim == 0 || what.step < what.lines.strides[0][0];
  if (what.by_row) {
    what.sharing = power_of_two_from(detail::ceil_div(what.length, 4), kThreads);
    what.across = kThreads / what.sharing;
  } else {
    const int least = power_of_two_from(what.lines.count, kWarp);
    what.sharing = power_of_two_from(detail::ceil_div(what.length, 16), kThreads / least);
    what.across = power_of_two_from(what.lines.count, kThreads / what.sharing);
  }
  const Grid grid{dim3(static_cast<unsigned>(detail::ceil_div(what.lines.count, what.across))),
                  dim3(static_cast<unsigned>(what.across * what.sharing))};
  visit(x.dtype, [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    launch(largest ? "max" : "min", find_extremum<T>, grid, values ? values->as<T>() : nullptr,
           indices ? indices->as<int64_t>() : nullptr, x.as<const T>(), what, largest);
  });
}

}  // namespace tendril::cuda
