#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tendril/tensor/dims.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/view.h"

TENDRIL_API_BEGIN

/// In which order kernels walk over operands of one shape, on every device: dimensions of size 1 count for nothing, the
/// others are sorted by the strides of operand 0, the fastest first, and neighbours are one where every operand permits
/// it. Pure functions of sizes and strides.
namespace tendril::plan {

// P has `ndim`, and references size(d) and stride(k, d) of operand k.

/// Puts a dimension in its place: before those of larger strides, behind those of equal ones. So of a tensor's
/// dimensions the last goes first.
template <class P, std::size_t N>
void insert(P& plan, int64_t size, const std::array<int64_t, N>& by) {
  if (size == 1) return;
  int at = plan.ndim++;
  for (; at > 0 && std::abs(plan.stride(0, at - 1)) > std::abs(by[0]); --at) {
    plan.size(at) = plan.size(at - 1);
    for (int k = 0; k < static_cast<int>(N); ++k) plan.stride(k, at) = plan.stride(k, at - 1);
  }
  plan.size(at) = size;
  for (std::size_t k = 0; k < N; ++k) plan.stride(static_cast<int>(k), at) = by[k];
}

/// Joins each dimension to the one before it where all N operands go on through both at one pace.
template <int N, class P>
void merge(P& plan) {
  int kept = 0;
  for (int d = 1; d < plan.ndim; ++d) {
    bool joins = true;
    for (int k = 0; k < N; ++k) joins = joins && plan.stride(k, d) == plan.stride(k, kept) * plan.size(kept);
    if (joins) {
      plan.size(kept) *= plan.size(d);
      continue;
    }
    plan.size(++kept) = plan.size(d);
    for (int k = 0; k < N; ++k) plan.stride(k, kept) = plan.stride(k, d);
  }
  if (plan.ndim > 0) plan.ndim = kept + 1;
}

/// Takes the fastest dimension out: its size and strides; size 1 where there is none.
template <class P, std::size_t N>
int64_t take_first(P& plan, std::array<int64_t, N>& by) {
  by = {};
  if (plan.ndim == 0) return 1;
  const int64_t size = plan.size(0);
  for (std::size_t k = 0; k < N; ++k) by[k] = plan.stride(static_cast<int>(k), 0);
  for (int d = 1; d < plan.ndim; ++d) {
    plan.size(d - 1) = plan.size(d);
    for (int k = 0; k < static_cast<int>(N); ++k) plan.stride(k, d - 1) = plan.stride(k, d);
  }
  --plan.ndim;
  return size;
}

/// Puts x's dimensions that a reduction to `out` keeps (those of equal sizes; operands x and out) into `kept` and the
/// others (x, and R - 1 operands of stride 0) into `reduced`, with strides times `unit`.
template <std::size_t R, class Kept, class Reduced>
void insert_reduction(Kept& kept, Reduced& reduced, const View& out, const View& x, int64_t unit) {
  for (int d = x.ndim - 1; d >= 0; --d) {
    if (out.sizes[d] == x.sizes[d]) {
      insert(kept, x.sizes[d], std::array<int64_t, 2>{x.strides[d] * unit, out.strides[d] * unit});
    } else {
      insert(reduced, x.sizes[d], std::array<int64_t, R>{x.strides[d] * unit});
    }
  }
}

/// Whether a reduction, merged, goes along rows: x's elements are closest in a dimension that is reduced.
template <class Kept, class Reduced>
bool by_rows(Kept& kept, Reduced& reduced) {
  return reduced.ndim > 0 && (kept.ndim == 0 || reduced.stride(0, 0) < kept.stride(0, 0));
}

}  // namespace tendril::plan

namespace tendril {

/// The plan of N operands, on the host.
template <int N>
struct Plan {
  int ndim = 0;
  std::array<int64_t, Dims::kMaxDims> sizes;
  std::array<std::array<int64_t, Dims::kMaxDims>, N> strides;  ///< in units of whoever makes it

  int64_t& size(int d) noexcept { return sizes[static_cast<std::size_t>(d)]; }
  int64_t& stride(int k, int d) noexcept { return strides[static_cast<std::size_t>(k)][static_cast<std::size_t>(d)]; }
  int64_t numel() const noexcept {
    int64_t product = 1;
    for (int d = 0; d < ndim; ++d) product *= sizes[static_cast<std::size_t>(d)];
    return product;
  }
};

/// Of views like views[0]; strides are the views' times `units` of each. One dimension at least: of size 1, then.
template <int N>
Plan<N> plan_of(const std::array<const View*, N>& views, const std::array<int64_t, N>& units) {
  Plan<N> all;
  const View& shape = *views[0];
  for (int d = shape.ndim - 1; d >= 0; --d) {
    if (shape.sizes[d] == 1) continue;
    std::array<int64_t, N> by;
    for (std::size_t k = 0; k < N; ++k) by[k] = views[k]->strides[d] * units[k];
    plan::insert(all, shape.sizes[d], by);
  }
  if (all.ndim == 0) {
    all.ndim = 1;
    all.sizes[0] = 1;
    for (std::size_t k = 0; k < N; ++k) all.strides[k][0] = units[k];
    return all;
  }
  plan::merge<N>(all);
  return all;
}

}  // namespace tendril

TENDRIL_API_END
