#include <algorithm>
#include <array>
#include <cstdlib>

#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernels/kernel.cuh"
#include "tendril/tensor/cuda/kernels/reduction_plan.h"
#include "tendril/tensor/cuda/kernels/scanned.cuh"
#include "tendril/tensor/cuda/runtime/workspace.h"

/// Running results along a dimension (kernels.h). A long line is cut into shares: the first pass combines the elements
/// of each, a second one scans the totals, the last one scans the shares. Within a share threads combine as a tree, so
/// partial results are of any consecutive elements, not only of the first ones.
namespace tendril::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kEach = 4;  // elements a thread takes at once

template <int N>
struct ScanPlan {
  Places<N> lines;
  int64_t length;
  int across;     ///< lines of a block
  int sharing;    ///< threads of a line
  int64_t share;  ///< elements of a line that a block takes; blockIdx.y is the number of the share
  int64_t shares;
};

/// The total of `sharing` threads in a group up to and without this one, and of all.
template <class A>
struct Before {
  A mine, all;
};

/// `sharing` is a power of two; up to a warp, groups lie side by side in it; above, a group is the block.
template <class Op, class A>
__device__ Before<A> scan_lanes(const Op& op, A value, int sharing, A* shared) {
  const int in_group = static_cast<int>(threadIdx.x) % (sharing < kWarp ? sharing : kWarp);
  const int width = sharing < kWarp ? sharing : kWarp;
  A up_to = value;
  for (int distance = 1; distance < width; distance *= 2) {
    const A other = lane_before(up_to, distance, width);
    if (in_group >= distance) up_to = op.combine(other, up_to);
  }
  // Not up_to - value: for floating sums that is another number.
  A before = lane_before(up_to, 1, width);
  if (in_group == 0) before = op.identity();
  A all = lane_at(up_to, width - 1, width);
  if (sharing > kWarp) {
    const int warp = static_cast<int>(threadIdx.x) / kWarp, warps = sharing / kWarp;
    __syncthreads();  // `shared` may still be read by an earlier call
    if (in_group == 0) shared[warp] = all;
    __syncthreads();
    A earlier = op.identity();
    for (int w = 0; w < warp; ++w) earlier = op.combine(earlier, shared[w]);
    A total = earlier;
    for (int w = warp; w < warps; ++w) total = op.combine(total, shared[w]);
    before = op.combine(earlier, before);
    all = total;
  }
  return {before, all};
}

/// Scans elements start to end of a line; `total` is the result before start. Returns the result before end. Elements
/// that are not `mine` are left out. All threads of the block call it with the same range.
template <bool writes, class Op, class A>
__device__ A scan_share(const Op& op, int64_t start, int64_t end, bool mine, A total, int sharing, A* shared) {
  const int in_line = static_cast<int>(threadIdx.x) % sharing;
  const int64_t stride = int64_t{sharing} * kEach;
  for (int64_t tile = start; tile < end; tile += stride) {
    const int64_t first = tile + int64_t{in_line} * kEach;
    A up_to[kEach];
    A here = op.identity();
    for (int e = 0; e < kEach; ++e) {
      if (mine && first + e < end) here = op.combine(here, op.load(first + e));
      up_to[e] = here;
    }
    const Before<A> before = scan_lanes(op, here, sharing, shared);
    if constexpr (writes) {
      for (int e = 0; e < kEach; ++e) {
        if (mine && first + e < end) op.store(first + e, op.combine(total, op.combine(before.mine, up_to[e])));
      }
    }
    total = op.combine(total, before.all);
  }
  return total;
}

/// Neighbouring threads have neighbouring elements of a line. A block has a share of one line, or `across` whole ones.
/// `carry` [lines][shares] is the result before each share; null if each line is one share.
template <class Op>
__global__ void __launch_bounds__(kThreads, Op::kLeastBlocks)
    scan_rows(Op op, ScanPlan<Op::kArrays> plan, const typename Op::Total* carry) {
  using A = typename Op::Total;
  __shared__ A shared[kThreads / kWarp];
  const int64_t line = static_cast<int64_t>(blockIdx.x) * plan.across + static_cast<int>(threadIdx.x) / plan.sharing;
  const bool mine = line < plan.lines.count;
  int64_t place[Op::kArrays] = {};
  if (mine) plan.lines.of(line, place);
  op.move(place);
  const int64_t start = static_cast<int64_t>(blockIdx.y) * plan.share;
  const int64_t end = start + plan.share < plan.length ? start + plan.share : plan.length;
  const A before = carry && mine ? carry[line * plan.shares + blockIdx.y] : op.identity();
  scan_share<true>(op, start, end, mine, before, plan.sharing, shared);
}

/// The total of each share: [lines][shares]. A block a share.
template <class Op>
__global__ void __launch_bounds__(kThreads)
    add_up_shares(Op op, ScanPlan<Op::kArrays> plan, typename Op::Total* totals) {
  using A = typename Op::Total;
  __shared__ A shared[kThreads / kWarp];
  int64_t place[Op::kArrays];
  plan.lines.of(blockIdx.x, place);
  op.move(place);
  const int64_t start = static_cast<int64_t>(blockIdx.y) * plan.share;
  const int64_t end = start + plan.share < plan.length ? start + plan.share : plan.length;
  A total = op.identity();
  if constexpr (Op::kCommutes) {
    for (int64_t i = start + threadIdx.x; i < end; i += kThreads) total = op.combine(total, op.load(i));
    total = combine_lanes(total, kThreads, shared, [&](A a, A b) { return op.combine(a, b); });
  } else {
    total = scan_share<false>(op, start, end, true, total, kThreads, shared);
  }
  if (threadIdx.x == 0) totals[static_cast<int64_t>(blockIdx.x) * plan.shares + blockIdx.y] = total;
}

/// Replaces the total of each share by the result before it.
template <class Op>
__global__ void __launch_bounds__(kThreads)
    scan_totals(Op op, typename Op::Total* totals, int64_t lines, int64_t shares) {
  const int64_t line = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (line >= lines) return;
  auto before = op.identity();
  for (int64_t s = 0; s < shares; ++s) {
    const auto total = totals[line * shares + s];
    totals[line * shares + s] = before;
    before = op.combine(before, total);
  }
}

/// Neighbouring threads have neighbouring lines; `sharing` threads have consecutive shares of one.
template <class Op>
__global__ void __launch_bounds__(kThreads, Op::kLeastBlocks) scan_columns(Op op, ScanPlan<Op::kArrays> plan) {
  using A = typename Op::Total;
  __shared__ A totals[kThreads];
  const int thread = static_cast<int>(threadIdx.x), at = thread % plan.across, part = thread / plan.across;
  const int64_t line = static_cast<int64_t>(blockIdx.x) * plan.across + at;
  const bool mine = line < plan.lines.count;
  int64_t place[Op::kArrays] = {};
  if (mine) plan.lines.of(line, place);
  op.move(place);
  const int64_t start = part * plan.share;
  const int64_t end = !mine ? start : start + plan.share < plan.length ? start + plan.share : plan.length;
  A total = op.identity();
  if (plan.sharing > 1) {
    for (int64_t i = start; i < end; ++i) total = op.combine(total, op.load(i));
    totals[thread] = total;
    __syncthreads();
    total = op.identity();
    for (int before = at; before < thread; before += plan.across) total = op.combine(total, totals[before]);
    // In place, too: no thread writes elements that another reads.
  }
  for (int64_t i = start; i < end; ++i) {
    total = op.combine(total, op.load(i));
    op.store(i, total);
  }
}

/// Runs `op` on the lines of its arrays along `dim`, the first of which is read.
template <class Op>
void run(const char* name, const Op& op, const std::array<const View*, Op::kArrays>& arrays, int dim) {
  const View& x = *arrays[0];
  ScanPlan<Op::kArrays> plan{};
  for (int d = x.ndim - 1; d >= 0; --d) {
    std::array<int64_t, Op::kArrays> strides;
    for (std::size_t k = 0; k < arrays.size(); ++k) strides[k] = arrays[k]->strides[d];
    if (d != dim) plan.lines.insert(x.sizes[d], strides);
  }
  plan.lines.finish();
  plan.length = x.sizes[dim];
  const auto ceil = [](int64_t count, int64_t each) { return static_cast<unsigned>(detail::ceil_div(count, each)); };

  if (plan.lines.ndim > 0 && plan.lines.strides[0][0] < std::abs(x.strides[dim])) {
    const int least = power_of_two_from(plan.lines.count, kWarp);
    plan.sharing = power_of_two_from(plan.length / 32, kThreads / least);
    plan.across = power_of_two_from(plan.lines.count, kThreads / plan.sharing);
    plan.shares = plan.sharing;
    plan.share = detail::ceil_div(plan.length, plan.sharing);
    const Grid grid{dim3(ceil(plan.lines.count, plan.across)), dim3(static_cast<unsigned>(plan.across * plan.sharing))};
    return launch(name, scan_columns<Op>, grid, op, plan);
  }
  // Up to a warp a line, or the block.
  const int lanes = power_of_two_from(detail::ceil_div(plan.length, kEach), kThreads);
  plan.sharing = lanes <= kWarp ? lanes : plan.length <= 4 * kWarp * kEach ? kWarp : kThreads;
  plan.across = kThreads / plan.sharing;
  plan.share = plan.length;
  plan.shares = 1;
  constexpr int64_t kLeastShare = int64_t{kThreads} * kEach * 4;
  if (plan.length >= 4 * kLeastShare && plan.lines.count < 256) {
    const int64_t wanted = std::min(plan.length / kLeastShare, detail::ceil_div(int64_t{1024}, plan.lines.count));
    plan.share = detail::ceil_div(detail::ceil_div(plan.length, wanted), kLeastShare) * kLeastShare;
    plan.shares = detail::ceil_div(plan.length, plan.share);
  }
  const Grid grid{dim3(ceil(plan.lines.count, plan.across), static_cast<unsigned>(plan.shares)), dim3(kThreads)};
  if (plan.shares == 1) return launch(name, scan_rows<Op>, grid, op, plan, nullptr);
  using A = typename Op::Total;
  const Workspace totals(static_cast<std::size_t>(plan.lines.count * plan.shares) * sizeof(A));
  launch(name, add_up_shares<Op>, grid, op, plan, totals.as<A>());
  launch(name, scan_totals<Op>, grid_for(plan.lines.count, kThreads), op, totals.as<A>(), plan.lines.count,
         plan.shares);
  launch(name, scan_rows<Op>, grid, op, plan, totals.as<const A>());
}

template <template <class> class Op, class T>
void run_on(const char* name, const View& out, const View& x, int dim) {
  run(name, Op<T>{x.as<const T>(), out.as<T>(), x.strides[dim], out.strides[dim]}, {&x, &out}, dim);
}

}  // namespace

void scan(Scan op, const View& out, const View* indices, const View& x, int dim) {
  const char* const name = name_of(op);
  switch (op) {
    case Scan::sum:
    case Scan::prod:
      return visit(x.dtype, [&]<class T>(tendril::detail::TypeTag<T>) {
        if constexpr (std::is_same_v<T, bool>) {
          refuse(name, x.dtype);
        } else if (x.numel > 0) {
          op == Scan::sum ? run_on<RunningSum, T>(name, out, x, dim) : run_on<RunningProduct, T>(name, out, x, dim);
        }
      });
    case Scan::max:
    case Scan::min:
      return visit(x.dtype, [&](auto tag) {
        using T = Stored<typename decltype(tag)::type>;
        if (x.numel == 0) return;
        const RunningExtremum<T> extremum{x.as<const T>(), out.as<T>(),      indices->as<int64_t>(),
                                          x.strides[dim],  out.strides[dim], indices->strides[dim],
                                          op == Scan::max};
        run(name, extremum, {&x, &out, indices}, dim);
      });
    case Scan::logsumexp:
      return visit_floating(name, x.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        if (x.numel > 0) run_on<RunningLogSum, T>(name, out, x, dim);
      });
  }
}

void recurrence(const View& out, const View& a, const View& b, int dim) {
  visit_floating("recurrence", b.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (b.numel == 0) return;
    const Recurrence<T> op{b.as<const T>(), a.as<const T>(), out.as<T>(),
                           b.strides[dim],  a.strides[dim],  out.strides[dim]};
    run("recurrence", op, {&b, &a, &out}, dim);
  });
}

}  // namespace tendril::cuda
