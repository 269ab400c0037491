#pragma once

#include <algorithm>
#include <cstdint>

#include "tendril/tensor/cuda/kernels/places.h"
#include "tendril/tensor/view.h"

/// How a reduction is laid over a device's threads: pure functions of sizes and strides, without CUDA. Nothing depends
/// on the device, so that a result does not either.
namespace tendril::cuda {

/// The dimension in which x's elements are closest is set apart (`length`, `step`). Either it is reduced: then a group
/// of threads walks along a row (by_row). Or it is kept: then neighbouring threads have neighbouring columns.
struct ReductionPlan {
  bool by_row = false;
  Places<2> kept;     ///< x, out: what is kept but for the dimension set apart
  Places<1> reduced;  ///< x: what is reduced but for the dimension set apart
  int64_t length = 1;
  int64_t step = 0;      ///< x's stride along it, in elements
  int64_t out_step = 0;  ///< the result's, if it is kept
  int width = 1;         ///< elements that a thread loads at once; above 1 only with step 1

  // by row: `lanes` threads work on a row's share, `across` of them side by side, lanes / across on different rows of
  // `reduced`. By column: `across` threads side by side, lanes / across sharing their columns; where columns are few
  // and what is kept beside them much ([n, 3, 4] summed over the 3), a block has the lanes of `stacked` of it.
  int lanes = 1;
  int across = 1;
  int stacked = 1;
  // The share of a block is [n inner_chunk, (n + 1) inner_chunk) of `length` (by row) and as much of reduced.count.
  int64_t outer_chunk = 1, inner_chunk = 1;
  int64_t outer_splits = 1, inner_splits = 1;

  int64_t splits() const { return outer_splits * inner_splits; }
  /// Elements of the result.
  int64_t results() const { return by_row ? kept.count : kept.count * length; }
};

namespace detail {

inline constexpr int kReductionThreads = 256;
inline constexpr int kWarpThreads = 32;
/// A launch of fewer blocks leaves a large device idle: the reduced dimensions are cut until there are so many.
inline constexpr int64_t kEnoughBlocks = 1024;

inline int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }

inline void plan_row_threads(ReductionPlan& plan) {
  const int64_t row = plan.reduced.count * plan.length;
  plan.lanes = power_of_two_from(ceil_div(row, 4 * plan.width), kReductionThreads);
  // A warp needs no shared memory: enough for a short row as long as there are many.
  if (plan.lanes > 32 && row <= 4096 && plan.kept.count >= 4096) plan.lanes = 32;
  plan.across = power_of_two_from(ceil_div(plan.length, plan.width), plan.lanes);

  const int64_t blocks = ceil_div(plan.kept.count * plan.lanes, kReductionThreads);
  const int64_t least = int64_t{kReductionThreads} * 4 * plan.width;  // elements that are worth a block
  int64_t splits = std::min(ceil_div(kEnoughBlocks, std::max<int64_t>(blocks, 1)), row / least);
  if (plan.lanes < kReductionThreads || splits < 2) splits = 1;
  plan.outer_chunk = ceil_div(plan.reduced.count, std::min(splits, plan.reduced.count));
  plan.outer_splits = ceil_div(plan.reduced.count, plan.outer_chunk);
  plan.inner_chunk = ceil_div(ceil_div(plan.length, std::max<int64_t>(splits / plan.outer_splits, 1)), least) * least;
  plan.inner_splits = ceil_div(plan.length, plan.inner_chunk);
}

inline void plan_column_threads(ReductionPlan& plan) {
  const int64_t columns = ceil_div(plan.length, plan.width);
  // At least a warp side by side where there are as many columns; more of them if there is little to share.
  const int least = power_of_two_from(columns, kWarpThreads);
  const int shared = power_of_two_from(ceil_div(plan.reduced.count, 8), kReductionThreads / least);
  plan.across = power_of_two_from(columns, kReductionThreads / shared);
  plan.lanes = plan.across * shared;
  const int64_t tiles = ceil_div(columns, plan.across);
  while (plan.stacked * plan.lanes < kReductionThreads && plan.kept.count * tiles >= 2 * plan.stacked * kEnoughBlocks) {
    plan.stacked *= 2;
  }

  const int64_t blocks = tiles * ceil_div(plan.kept.count, plan.stacked);
  int64_t splits = std::min({ceil_div(kEnoughBlocks, std::max<int64_t>(blocks, 1)),
                             plan.reduced.count / (int64_t{8} * shared), kEnoughBlocks});
  if (splits < 2) splits = 1;
  plan.outer_chunk = ceil_div(std::max<int64_t>(plan.reduced.count, 1), splits);
  plan.outer_splits = ceil_div(std::max<int64_t>(plan.reduced.count, 1), plan.outer_chunk);
  plan.inner_chunk = plan.length;
}

}  // namespace detail

/// For `out` with x's number of dimensions and size 1 in every reduced one; out.numel > 0. A load has at
/// most `row_vector` or `column_vector` elements. Rows may start anywhere; columns are loaded as vectors only where all
/// of them are aligned.
inline ReductionPlan plan_reduction(const View& out, const View& x, int row_vector, int column_vector) {
  ReductionPlan plan;
  plan::insert_reduction<1>(plan.kept, plan.reduced, out, x, 1);
  plan.kept.finish();
  plan.reduced.finish();

  plan.by_row = x.numel > 0 && plan::by_rows(plan.kept, plan.reduced);
  if (plan.by_row) {
    std::array<int64_t, 1> by;
    plan.length = plan.reduced.take_first(by);
    plan.step = by[0];
    if (plan.step == 1 && plan.length >= 4 * row_vector) plan.width = row_vector;
    detail::plan_row_threads(plan);
  } else {
    std::array<int64_t, 2> by;
    plan.length = plan.kept.take_first(by);
    plan.step = by[0];
    plan.out_step = by[1];
    const auto bytes = static_cast<uintptr_t>(column_vector) * size_of(x.dtype);
    if (plan.step == 1 && plan.length % column_vector == 0 && plan.kept.multiples(0, column_vector) &&
        plan.reduced.multiples(0, column_vector) && reinterpret_cast<uintptr_t>(x.data) % bytes == 0) {
      plan.width = column_vector;
    }
    detail::plan_column_threads(plan);
  }
  return plan;
}

/// The second pass: what the first one left in [splits][results], row-major, becomes the result.
inline ReductionPlan plan_second_pass(const ReductionPlan& first) {
  ReductionPlan plan;
  // The order in which the first pass counts results: the dimension set apart (by column) is the fastest.
  int64_t stride = 1;
  const auto keep = [&](int64_t size, int64_t out_stride) {
    plan.kept.insert(size, {stride, out_stride});
    stride *= size;
  };
  if (!first.by_row) keep(first.length, first.out_step);
  for (int d = 0; d < first.kept.ndim; ++d) keep(first.kept.sizes[d], first.kept.strides[d][1]);
  plan.kept.finish();
  plan.reduced.insert(first.splits(), {first.results()});
  plan.reduced.finish();
  std::array<int64_t, 2> by;
  plan.length = plan.kept.take_first(by);
  plan.step = by[0];
  plan.out_step = by[1];
  detail::plan_column_threads(plan);
  plan.outer_chunk = plan.reduced.count;  // there is no third pass
  plan.outer_splits = 1;
  return plan;
}

}  // namespace tendril::cuda
