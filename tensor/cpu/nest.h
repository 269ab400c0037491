#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <utility>

#include "tendril/tensor/cpu/parallel.h"
#include "tendril/tensor/dims.h"
#include "tendril/tensor/dtype.h"
#include "tendril/tensor/view.h"

/// The order in which the CPU kernels walk over strided operands of one shape, and how they share the way among
/// threads. Results do not depend on either.
namespace tendril::cpu {

/// N operands of one shape: dimensions of size 1 are dropped, the others sorted by the steps of operand 0, longest
/// first, and neighbours merged where every operand permits it. Steps are in bytes.
template <int N>
struct Nest {
  int ndim = 0;  ///< at least 1 after `nest_of`
  std::array<int64_t, Dims::kMaxDims> sizes;
  std::array<std::array<int64_t, Dims::kMaxDims>, N> steps;
  std::array<char*, N> data;

  int64_t inner() const noexcept { return sizes[static_cast<std::size_t>(ndim - 1)]; }
  /// How often the innermost dimension is walked along.
  int64_t rows() const noexcept {
    int64_t count = 1;
    for (int d = 0; d < ndim - 1; ++d) count *= sizes[static_cast<std::size_t>(d)];
    return count;
  }
};

/// What operand 0 walks along fastest comes last: memory is written in the order in which it lies.
template <int N>
[[gnu::noinline]] void sort_by_steps(Nest<N>& nest) {
  for (int d = 1; d < nest.ndim; ++d) {
    for (auto i = static_cast<std::size_t>(d); i > 0; --i) {
      if (std::abs(nest.steps[0][i - 1]) >= std::abs(nest.steps[0][i])) break;
      std::swap(nest.sizes[i - 1], nest.sizes[i]);
      for (auto& steps : nest.steps) std::swap(steps[i - 1], steps[i]);
    }
  }
}

/// Joins each dimension to the one before it where all operands go on through both at one pace.
template <int N>
void merge_neighbours(Nest<N>& nest) {
  std::size_t kept = 0;
  for (std::size_t d = 1; d < static_cast<std::size_t>(nest.ndim); ++d) {
    bool merge = true;
    for (const auto& steps : nest.steps) merge = merge && steps[kept] == steps[d] * nest.sizes[d];
    if (!merge) ++kept;
    nest.sizes[kept] = merge ? nest.sizes[kept] * nest.sizes[d] : nest.sizes[d];
    for (auto& steps : nest.steps) steps[kept] = steps[d];
  }
  nest.ndim = static_cast<int>(kept) + 1;
}

template <int N>
Nest<N> nest_of(const std::array<const View*, N>& views) {
  Nest<N> nest;
  const View& shape = *views[0];
  bool sorted = true;
  for (std::size_t k = 0; k < N; ++k) nest.data[k] = views[k]->template as<char>();
  for (int d = 0; d < shape.ndim; ++d) {
    if (shape.sizes[d] == 1) continue;
    const auto at = static_cast<std::size_t>(nest.ndim++);
    nest.sizes[at] = shape.sizes[d];
    for (std::size_t k = 0; k < N; ++k) {
      nest.steps[k][at] = views[k]->strides[d] * static_cast<int64_t>(size_of(views[k]->dtype));
    }
    sorted = sorted && (at == 0 || std::abs(nest.steps[0][at - 1]) >= std::abs(nest.steps[0][at]));
  }
  if (nest.ndim == 0) {
    nest.ndim = 1;
    nest.sizes[0] = 1;
    for (std::size_t k = 0; k < N; ++k) nest.steps[k][0] = static_cast<int64_t>(size_of(views[k]->dtype));
    return nest;
  }
  if (!sorted) sort_by_steps(nest);
  merge_neighbours(nest);
  return nest;
}

/// Runs `body(pointers, steps, count)` over the innermost dimension of `rows` rows from row `first` on.
template <int N, class Body>
void for_rows(const Nest<N>& nest, int64_t first, int64_t rows, Body&& body) {
  const auto inner = static_cast<std::size_t>(nest.ndim - 1);
  std::array<int64_t, N> steps;
  for (std::size_t k = 0; k < N; ++k) steps[k] = nest.steps[k][inner];
  std::array<char*, N> at = nest.data;
  std::array<int64_t, Dims::kMaxDims> index{};
  for (std::size_t d = inner; d-- > 0 && first > 0;) {
    index[d] = first % nest.sizes[d];
    first /= nest.sizes[d];
    for (std::size_t k = 0; k < N; ++k) at[k] += index[d] * nest.steps[k][d];
  }
  for (; rows > 0; --rows) {
    body(at.data(), steps.data(), nest.sizes[inner]);
    for (std::size_t d = inner; d-- > 0;) {
      for (std::size_t k = 0; k < N; ++k) at[k] += nest.steps[k][d];
      if (++index[d] < nest.sizes[d]) break;
      for (std::size_t k = 0; k < N; ++k) at[k] -= nest.steps[k][d] * nest.sizes[d];
      index[d] = 0;
    }
  }
}

/// ... of every row, in order, on this thread.
template <int N, class Body>
void for_each_row(const Nest<N>& nest, Body&& body) {
  for_rows<N>(nest, 0, nest.rows(), body);
}

/// ... of every row or piece of one, on several threads where there is enough to do.
template <int N, class Body>
void share_rows(const Nest<N>& nest, const Body& body) {
  const int64_t rows = nest.rows(), inner = nest.inner();
  if (rows * inner < 2 * kParallelGrain) return for_each_row<N>(nest, body);
  if (rows > 1 && inner < 8 * kParallelGrain) {
    return parallel_for(rows, grain_of(inner),
                        [&](int64_t begin, int64_t end) { for_rows<N>(nest, begin, end - begin, body); });
  }
  for_each_row<N>(nest, [&](char* const* at, const int64_t* steps, int64_t count) {
    parallel_for(count, kParallelGrain, [&](int64_t begin, int64_t end) {
      std::array<char*, N> part;
      for (std::size_t k = 0; k < N; ++k) part[k] = at[k] + begin * steps[k];
      body(part.data(), steps, end - begin);
    });
  });
}

/// The nest over all dimensions but `dim`. Operands may differ in their size there.
template <int N>
Nest<N> nest_without(const std::array<const View*, N>& views, int dim) {
  std::array<View, N> rest;
  std::array<Dims, N> strides;
  std::array<const View*, N> pointers;
  Dims sizes(std::span<const int64_t>(views[0]->sizes, static_cast<std::size_t>(views[0]->ndim)));
  sizes.erase(dim);
  for (std::size_t k = 0; k < N; ++k) {
    strides[k] = Dims(std::span<const int64_t>(views[k]->strides, static_cast<std::size_t>(views[k]->ndim)));
    strides[k].erase(dim);
    rest[k] = {views[k]->data, sizes.data(), strides[k].data(), 0, sizes.size(), views[k]->dtype, false};
    pointers[k] = &rest[k];
  }
  return nest_of<N>(pointers);
}

/// Runs `body(pointers)` at every index of the dimensions other than `dim`, which starts at 0: once for each line. On
/// several threads where the lines, which cost as much as `length` elements each, are worth it.
template <int N, class Body>
void share_lines(const std::array<const View*, N>& views, int dim, int64_t length, const Body& body) {
  for (int d = 0; d < views[0]->ndim; ++d) {
    if (d != dim && views[0]->sizes[d] == 0) return;
  }
  const Nest<N> nest = nest_without<N>(views, dim);
  const int64_t inner = nest.inner(), lines = nest.rows() * inner;
  parallel_for(lines, grain_of(length), [&](int64_t begin, int64_t end) {
    const auto last = static_cast<std::size_t>(nest.ndim - 1);
    for (int64_t row = begin / inner; row * inner < end; ++row) {
      const int64_t first = std::max<int64_t>(begin - row * inner, 0), past = std::min(end - row * inner, inner);
      for_rows<N>(nest, row, 1, [&](char* const* pointers, const int64_t* steps, int64_t) {
        std::array<char*, N> at;
        for (std::size_t k = 0; k < N; ++k) at[k] = pointers[k] + first * steps[k];
        for (int64_t i = first; i < past; ++i) {
          body(at.data());
          for (std::size_t k = 0; k < N; ++k) at[k] += nest.steps[k][last];
        }
      });
    }
  });
}

/// ... in order, on this thread.
template <int N, class Body>
void for_each_line(const std::array<const View*, N>& views, int dim, const Body& body) {
  const ThreadLimit alone(1);
  share_lines<N>(views, dim, 1, body);
}

}  // namespace tendril::cpu
