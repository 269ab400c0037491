#include <algorithm>

#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernels/find_in_rows.cuh"
#include "tendril/tensor/cuda/kernels/found.cuh"
#include "tendril/tensor/cuda/kernels/reduction_plan.h"
#include "tendril/tensor/cuda/runtime/workspace.h"

/// The largest or smallest along a dimension and where it first occurs (kernels.h).
namespace tendril::cuda {
namespace {

constexpr int kThreads = kFindThreads;

/// Lines of any step: rows and columns.
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
    const int64_t end = what.share_end();
    int64_t i = what.share_start() + in_line;
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
    const Found<C> other = found.from_lane(half);
    if (in_line < half) found.join(other, largest);
  }
  if (mine && in_line == 0) target.write_share(found, place, line, what.lines.count);
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

/// Sets how threads share the lines; `width` elements are loaded at once.
void share_out(LinesOf& what, int width) {
  if (what.by_row) {
    // Where lines are many a warp is enough for each: nobody waits at a barrier.
    const int64_t many = detail::kEnoughBlocks * (kThreads / kWarp) / (width > 1 ? 2 : 1);
    what.sharing = power_of_two_from(detail::ceil_div(what.length, int64_t{4} * width),
                                     what.lines.count >= many ? kWarp : kThreads);
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
  what.share = detail::ceil_div(detail::ceil_div(what.length, wanted), width) * width;  // all as aligned as the first
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
  const char* const op = largest ? "max" : "min";
  visit(x.dtype, [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    constexpr int kWidth = kPerLoad<T>;
    constexpr int64_t kLongest = int64_t{INT32_MAX} / 2;  // of a line whose places have 32 bits, with room to count on
    const bool wide = what.by_row && what.step == 1 && what.length >= 4 * kWidth && what.length <= kLongest;
    share_out(what, wide ? kWidth : 1);
    const int64_t blocks = detail::ceil_div(what.lines.count, what.across);
    const int64_t shares = detail::ceil_div(what.length, what.share);
    const Grid grid{dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(shares)),
                    dim3(static_cast<unsigned>(what.across * what.sharing))};
    const auto find = [&](const FoundTarget<T>& target) {
      if (!wide) return launch(op, find_extremum<T>, grid, target, x.as<const T>(), what, largest);
      const auto kernel = largest ? find_in_rows<kWidth, T, true> : find_in_rows<kWidth, T, false>;
      launch(op, kernel, grid, target, x.as<const T>(), what);
    };
    FoundTarget<T> target{values ? values->as<T>() : nullptr, indices ? indices->as<int64_t>() : nullptr, nullptr,
                          nullptr};
    if (shares == 1) return find(target);
    const auto slots = static_cast<std::size_t>(shares * what.lines.count);
    const Workspace partial(slots * (sizeof(int64_t) + sizeof(Compute<T>)));
    target.partial_places = partial.as<int64_t>();
    target.partial_values = reinterpret_cast<Compute<T>*>(target.partial_places + slots);
    find(target);
    launch(op, join_shares<T>, grid_for(what.lines.count), target, what.lines, shares, largest);
  });
}

}  // namespace tendril::cuda
