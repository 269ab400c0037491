#include <algorithm>
#include <cstdlib>

#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernels/kernel.cuh"
#include "tendril/tensor/cuda/kernels/lanes.cuh"
#include "tendril/tensor/cuda/kernels/reduction_plan.h"
#include "tendril/tensor/cuda/runtime/workspace.h"

/// Running sums along a dimension (kernels.h). They are kept in float for float32 and the half types (a tree within a
/// block's share; the CPU adds up in double), in double for float64, and wrap around in 64 bits for integers. A long
/// line is cut into shares: the first pass adds up each, a second one scans the totals, the last one scans the shares.
namespace tendril::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kEach = 4;  // elements a thread takes at once

template <class T>
using Sum = std::conditional_t<std::is_floating_point_v<Compute<T>>, Compute<T>, uint64_t>;

template <class T>
__device__ Sum<T> summand(T x) {
  return static_cast<Sum<T>>(to_compute(x));
}

struct Scan {
  Places<2> lines;  ///< x, out
  int64_t length, x_step, out_step;
  int across;     ///< lines of a block
  int sharing;    ///< threads of a line
  int64_t share;  ///< elements of a line that a block takes; blockIdx.y says which
  int64_t shares;
};

/// The total of `sharing` threads in a group up to and without this one, and of all.
template <class A>
struct Before {
  A mine, all;
};

/// `sharing` is a power of two; up to a warp, groups lie side by side in it; above, a group is the block.
template <class A>
__device__ Before<A> scan_lanes(A value, int sharing, A* shared) {
  const int in_group = static_cast<int>(threadIdx.x) % (sharing < kWarp ? sharing : kWarp);
  const int width = sharing < kWarp ? sharing : kWarp;
  A up_to = value;
  for (int distance = 1; distance < width; distance *= 2) {
    const A other = __shfl_up_sync(kAllLanes, up_to, static_cast<unsigned>(distance), width);
    if (in_group >= distance) up_to = other + up_to;
  }
  // Not up_to - value: for floating sums that is another number.
  A before = __shfl_up_sync(kAllLanes, up_to, 1, width);
  if (in_group == 0) before = A(0);
  A all = __shfl_sync(kAllLanes, up_to, width - 1, width);
  if (sharing > kWarp) {
    const int warp = static_cast<int>(threadIdx.x) / kWarp, warps = sharing / kWarp;
    __syncthreads();  // `shared` may still be read by an earlier call
    if (in_group == 0) shared[warp] = all;
    __syncthreads();
    A earlier = A(0);
    for (int w = 0; w < warp; ++w) earlier += shared[w];
    A total = earlier;
    for (int w = warp; w < warps; ++w) total += shared[w];
    before = earlier + before;
    all = total;
  }
  return {before, all};
}

/// Neighbouring threads have neighbouring elements of a line. A block has a share of one line, or `across` whole ones.
/// `carry` [lines][shares] is what comes before a share; null: nothing does.
template <class T>
__global__ void __launch_bounds__(kThreads) scan_rows(T* out, const T* x, Scan scan, const Sum<T>* carry) {
  using A = Sum<T>;
  __shared__ A shared[kThreads / kWarp];
  const int in_line = static_cast<int>(threadIdx.x) % scan.sharing;
  const int64_t line = static_cast<int64_t>(blockIdx.x) * scan.across + static_cast<int>(threadIdx.x) / scan.sharing;
  const bool mine = line < scan.lines.count;
  int64_t place[2] = {};
  if (mine) scan.lines.of(line, place);
  x += place[0];
  out += place[1];
  const int64_t start = static_cast<int64_t>(blockIdx.y) * scan.share;
  const int64_t end = start + scan.share < scan.length ? start + scan.share : scan.length;
  A total = carry && mine ? carry[line * scan.shares + blockIdx.y] : A(0);
  const int64_t stride = int64_t{scan.sharing} * kEach;
  for (int64_t tile = start; tile < end; tile += stride) {  // the same number of times in every thread
    const int64_t first = tile + int64_t{in_line} * kEach;
    A sums[kEach];
    A here = A(0);
    for (int e = 0; e < kEach; ++e) {
      if (mine && first + e < end) here += summand(x[(first + e) * scan.x_step]);
      sums[e] = here;
    }
    const Before<A> before = scan_lanes(here, scan.sharing, shared);
    for (int e = 0; e < kEach; ++e) {
      if (mine && first + e < end) {
        out[(first + e) * scan.out_step] = from_compute<T>(static_cast<Compute<T>>(total + (before.mine + sums[e])));
      }
    }
    total += before.all;
  }
}

/// The total of each share but the last: [lines][shares]. A block a share.
template <class T>
__global__ void __launch_bounds__(kThreads) add_up_shares(Sum<T>* totals, const T* x, Scan scan) {
  using A = Sum<T>;
  __shared__ A shared[kThreads / kWarp];
  int64_t place[2];
  scan.lines.of(blockIdx.x, place);
  x += place[0];
  const int64_t start = static_cast<int64_t>(blockIdx.y) * scan.share;
  const int64_t end = start + scan.share < scan.length ? start + scan.share : scan.length;
  A total = A(0);
  for (int64_t i = start + threadIdx.x; i < end; i += kThreads) total += summand(x[i * scan.x_step]);
  total = combine_lanes(total, kThreads, shared, [](A a, A b) { return a + b; });
  if (threadIdx.x == 0) totals[static_cast<int64_t>(blockIdx.x) * scan.shares + blockIdx.y] = total;
}

/// Makes of each line's totals what comes before each share.
template <class A>
__global__ void __launch_bounds__(kThreads) scan_totals(A* totals, int64_t lines, int64_t shares) {
  const int64_t line = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (line >= lines) return;
  A before = A(0);
  for (int64_t s = 0; s < shares; ++s) {
    const A total = totals[line * shares + s];
    totals[line * shares + s] = before;
    before += total;
  }
}

/// Neighbouring threads have neighbouring lines; `sharing` threads have consecutive shares of one.
template <class T>
__global__ void __launch_bounds__(kThreads) scan_columns(T* out, const T* x, Scan scan) {
  using A = Sum<T>;
  __shared__ A totals[kThreads];
  const int thread = static_cast<int>(threadIdx.x), at = thread % scan.across, part = thread / scan.across;
  const int64_t line = static_cast<int64_t>(blockIdx.x) * scan.across + at;
  const bool mine = line < scan.lines.count;
  int64_t place[2] = {};
  if (mine) scan.lines.of(line, place);
  x += place[0];
  out += place[1];
  const int64_t start = part * scan.share;
  const int64_t end = !mine ? start : start + scan.share < scan.length ? start + scan.share : scan.length;
  A total = A(0);
  if (scan.sharing > 1) {
    for (int64_t i = start; i < end; ++i) total += summand(x[i * scan.x_step]);
    totals[thread] = total;
    __syncthreads();
    total = A(0);
    for (int before = at; before < thread; before += scan.across) total += totals[before];
    // In place, the next thread's share is still its own: nobody writes what another reads.
  }
  for (int64_t i = start; i < end; ++i) {
    total += summand(x[i * scan.x_step]);
    out[i * scan.out_step] = from_compute<T>(static_cast<Compute<T>>(total));
  }
}

template <class T>
void cumsum_of(const View& out, const View& x, int dim) {
  using A = Sum<T>;
  Scan scan{};
  for (int d = x.ndim - 1; d >= 0; --d) {
    if (d != dim) scan.lines.insert(x.sizes[d], {x.strides[d], out.strides[d]});
  }
  scan.lines.finish();
  scan.length = x.sizes[dim];
  scan.x_step = x.strides[dim];
  scan.out_step = out.strides[dim];
  const auto ceil = [](int64_t count, int64_t each) { return static_cast<unsigned>(detail::ceil_div(count, each)); };

  if (scan.lines.ndim > 0 && scan.lines.strides[0][0] < std::abs(scan.x_step)) {
    const int least = power_of_two_from(scan.lines.count, kWarp);
    scan.sharing = power_of_two_from(scan.length / 32, kThreads / least);
    scan.across = power_of_two_from(scan.lines.count, kThreads / scan.sharing);
    scan.shares = scan.sharing;
    scan.share = detail::ceil_div(scan.length, scan.sharing);
    const Grid grid{dim3(ceil(scan.lines.count, scan.across)), dim3(static_cast<unsigned>(scan.across * scan.sharing))};
    return launch("cumsum", scan_columns<T>, grid, out.as<T>(), x.as<const T>(), scan);
  }
  // Up to a warp a line, or the block.
  const int lanes = power_of_two_from(detail::ceil_div(scan.length, kEach), kThreads);
  scan.sharing = lanes <= kWarp ? lanes : scan.length <= 4 * kWarp * kEach ? kWarp : kThreads;
  scan.across = kThreads / scan.sharing;
  scan.share = scan.length;
  scan.shares = 1;
  constexpr int64_t kLeastShare = int64_t{kThreads} * kEach * 4;
  if (scan.length >= 4 * kLeastShare && scan.lines.count < 256) {
    const int64_t wanted = std::min(scan.length / kLeastShare, detail::ceil_div(int64_t{1024}, scan.lines.count));
    scan.share = detail::ceil_div(detail::ceil_div(scan.length, wanted), kLeastShare) * kLeastShare;
    scan.shares = detail::ceil_div(scan.length, scan.share);
  }
  const Grid grid{dim3(ceil(scan.lines.count, scan.across), static_cast<unsigned>(scan.shares)), dim3(kThreads)};
  if (scan.shares == 1) {
    return launch("cumsum", scan_rows<T>, grid, out.as<T>(), x.as<const T>(), scan, nullptr);
  }
  const Workspace totals(static_cast<std::size_t>(scan.lines.count * scan.shares) * sizeof(A));
  launch("cumsum", add_up_shares<T>, grid, totals.as<A>(), x.as<const T>(), scan);
  launch("cumsum", scan_totals<A>, grid_for(scan.lines.count, kThreads), totals.as<A>(), scan.lines.count, scan.shares);
  launch("cumsum", scan_rows<T>, grid, out.as<T>(), x.as<const T>(), scan, totals.as<const A>());
}

}  // namespace

void cumsum(const View& out, const View& x, int dim) {
  visit(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, bool>) {
      refuse("cumsum", x.dtype);
    } else {
      if (x.numel > 0) cumsum_of<T>(out, x, dim);
    }
  });
}

}  // namespace tendril::cuda
