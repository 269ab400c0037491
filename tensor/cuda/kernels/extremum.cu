#include <algorithm>

#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernels/kernel.cuh"
#include "tendril/tensor/cuda/kernels/lanes.cuh"
#include "tendril/tensor/cuda/kernels/reduction_plan.h"
#include "tendril/tensor/cuda/runtime/workspace.h"

/// The largest or smallest along a dimension and where it first occurs (kernels.h).
namespace tendril::cuda {
namespace {

constexpr int kThreads = 256;

/// What a C travels as between the threads of a warp.
template <class C>
using Shuffled = std::conditional_t<sizeof(C) < sizeof(int), int, C>;

/// An element and its place; place -1 is none.
template <class C>
struct Found {
  C value = C(0);
  int64_t at = -1;

  /// Joins an element behind all others so far: cheaper, as of equals the first stays.
  __device__ void take(C next, int64_t place, bool largest) {
    const bool better = (largest ? next > value : next < value) || (next != next && value == value);
    if (at >= 0 && !better) return;
    value = next;
    at = place;
  }

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
  int across;     ///< lines of a block
  int sharing;    ///< threads of a line
  bool by_row;    ///< neighbouring threads have neighbouring elements of one line, not neighbouring lines
  int64_t share;  ///< elements of a line that a block takes; blockIdx.y says which
};

/// Where what is found goes: to the result, or, where a line is cut into shares, to [shares][lines].
template <class T>
struct FoundTarget {
  T* values;  ///< may be null, and so may be indices
  int64_t* indices;
  Compute<T>* partial_values;
  int64_t* partial_places;

  __device__ void write(const Found<Compute<T>>& found, const int64_t (&place)[3]) const {
    if (values) values[place[1]] = from_compute<T>(found.value);
    if (indices) indices[place[2]] = found.at;
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    find_extremum(FoundTarget<T> target, const T* x, LinesOf what, bool largest) {
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
    const int64_t start = static_cast<int64_t>(blockIdx.y) * what.share;
    const int64_t end = start + what.share < what.length ? start + what.share : what.length;
    int64_t i = start + in_line;
    for (; i + 3 * what.sharing < end; i += 4 * what.sharing) {  // loads that do not wait for each other
      T loaded[4];
      for (int n = 0; n < 4; ++n) loaded[n] = from[(i + n * what.sharing) * what.step];
      for (int n = 0; n < 4; ++n) found.take(to_compute(loaded[n]), i + n * what.sharing, largest);
    }
    for (; i < end; i += what.sharing) found.take(to_compute(from[i * what.step]), i, largest);
  }
  int half = what.sharing / 2;
  for (; half > 0 && !(what.by_row && half < kWarp); half /= 2) {
    best[thread] = found.value;
    places[thread] = found.at;
    __syncthreads();
    if (in_line < half) found.join({best[thread + half * apart], places[thread + half * apart]}, largest);
    __syncthreads();
  }
  for (; half > 0; half /= 2) {  // threads of one warp, neighbours
    const C value = static_cast<C>(__shfl_down_sync(kAllLanes, static_cast<Shuffled<C>>(found.value), half));
    const int64_t at = __shfl_down_sync(kAllLanes, found.at, half);
    if (in_line < half) found.join({value, at}, largest);
  }
  if (!mine || in_line != 0) return;
  if (!target.partial_places) return target.write(found, place);
  const int64_t slot = static_cast<int64_t>(blockIdx.y) * what.lines.count + line;
  target.partial_values[slot] = found.value;
  target.partial_places[slot] = found.at;
}

template <class T>
__global__ void __launch_bounds__(kGridThreads)
    join_shares(FoundTarget<T> target, Places<3> lines, int64_t shares, bool largest) {
  const int64_t line = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (line >= lines.count) return;
  int64_t place[3];
  lines.of(line, place);
  Found<Compute<T>> found;
  for (int64_t s = 0; s < shares; ++s) {
    const int64_t slot = s * lines.count + line;
    found.join({target.partial_values[slot], target.partial_places[slot]}, largest);
  }
  target.write(found, place);
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
    // Where lines are many a warp is enough for each: nobody waits at a barrier.
    const int most = what.lines.count >= detail::kEnoughBlocks * (kThreads / kWarp) ? kWarp : kThreads;
    what.sharing = power_of_two_from(detail::ceil_div(what.length, 4), most);
    what.across = kThreads / what.sharing;
  } else {
    const int least = power_of_two_from(what.lines.count, kWarp);
    what.sharing = power_of_two_from(detail::ceil_div(what.length, 16), kThreads / least);
    what.across = power_of_two_from(what.lines.count, kThreads / what.sharing);
  }
  const int64_t blocks = detail::ceil_div(what.lines.count, what.across);
  constexpr int64_t kLeastShare = 4096, kMostShares = 64;
  const int64_t wanted =
      std::clamp<int64_t>(std::min(detail::kEnoughBlocks / blocks, what.length / kLeastShare), 1, kMostShares);
  what.share = detail::ceil_div(what.length, wanted);
  const int64_t shares = detail::ceil_div(what.length, what.share);
  const Grid grid{dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(shares)),
                  dim3(static_cast<unsigned>(what.across * what.sharing))};
  const char* const op = largest ? "max" : "min";
  visit(x.dtype, [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    FoundTarget<T> target{values ? values->as<T>() : nullptr, indices ? indices->as<int64_t>() : nullptr, nullptr,
                          nullptr};
    if (shares == 1) return launch(op, find_extremum<T>, grid, target, x.as<const T>(), what, largest);
    const auto slots = static_cast<std::size_t>(shares * what.lines.count);
    const Workspace partial(slots * (sizeof(int64_t) + sizeof(Compute<T>)));
    target.partial_places = partial.as<int64_t>();
    target.partial_values = reinterpret_cast<Compute<T>*>(target.partial_places + slots);
    launch(op, find_extremum<T>, grid, target, x.as<const T>(), what, largest);
    launch(op, join_shares<T>, grid_for(what.lines.count), target, what.lines, shares, largest);
  });
}

}  // namespace tendril::cuda
