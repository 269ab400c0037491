#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "tendril/tensor/cpu/parallel.h"
#include "tendril/tensor/detail/plan.h"
#include "tendril/tensor/dims.h"
#include "tendril/tensor/dtype.h"
#include "tendril/tensor/view.h"

/// How the CPU kernels walk over strided operands as the plan says (detail/plan.h), and share the way among threads:
/// memory is written in the order in which it lies. Results do not depend on either.
namespace tendril::cpu {

/// The plan of N operands, strides in bytes, and where they start. Dimension 0 is the innermost.
template <int N>
struct Nest : Plan<N> {
  std::array<char*, N> data;

  int64_t inner() const noexcept { return this->sizes[0]; }
  /// How often the innermost dimension is walked along.
  int64_t rows() const noexcept {
    int64_t count = 1;
    for (int d = 1; d < this->ndim; ++d) count *= this->sizes[static_cast<std::size_t>(d)];
    return count;
  }
};

template <int N>
Nest<N> nest_of(const std::array<const View*, N>& views) {
  std::array<int64_t, N> bytes;
  for (std::size_t k = 0; k < N; ++k) bytes[k] = static_cast<int64_t>(size_of(views[k]->dtype));
  Nest<N> nest{plan_of<N>(views, bytes), {}};
  for (std::size_t k = 0; k < N; ++k) nest.data[k] = views[k]->template as<char>();
  return nest;
}

/// Runs `body(pointers, steps, count)` over the innermost dimension of `rows` rows from row `first` on.
template <int N, class Body>
void for_rows(const Nest<N>& nest, int64_t first, int64_t rows, Body&& body) {
  const auto ndim = static_cast<std::size_t>(nest.ndim);
  std::array<int64_t, N> steps;
  for (std::size_t k = 0; k < N; ++k) steps[k] = nest.strides[k][0];
  std::array<char*, N> at = nest.data;
  std::array<int64_t, Dims::kMaxDims> index{};
  for (std::size_t d = 1; d < ndim && first > 0; ++d) {
    index[d] = first % nest.sizes[d];
    first /= nest.sizes[d];
    for (std::size_t k = 0; k < N; ++k) at[k] += index[d] * nest.strides[k][d];
  }
  for (; rows > 0; --rows) {
    body(at.data(), steps.data(), nest.sizes[0]);
    for (std::size_t d = 1; d < ndim; ++d) {
      for (std::size_t k = 0; k < N; ++k) at[k] += nest.strides[k][d];
      if (++index[d] < nest.sizes[d]) break;
      for (std::size_t k = 0; k < N; ++k) at[k] -= nest.strides[k][d] * nest.sizes[d];
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
  const bool few_long = rows < num_threads() && inner >= 2 * kParallelGrain;  // else a thread would have none
  if (rows > 1 && inner < 8 * kParallelGrain && !few_long) {
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
    for (int64_t row = begin / inner; row * inner < end; ++row) {
      const int64_t first = std::max<int64_t>(begin - row * inner, 0), past = std::min(end - row * inner, inner);
      for_rows<N>(nest, row, 1, [&](char* const* pointers, const int64_t* steps, int64_t) {
        std::array<char*, N> at;
        for (std::size_t k = 0; k < N; ++k) at[k] = pointers[k] + first * steps[k];
        for (int64_t i = first; i < past; ++i) {
          body(at.data());
          for (std::size_t k = 0; k < N; ++k) at[k] += steps[k];
        }
      });
    }
  });
}

/// ... in order, from this thread.
template <int N, class Body>
void for_each_line(const std::array<const View*, N>& views, int dim, const Body& body) {
  for_each_row<N>(nest_without<N>(views, dim), [&](char* const* first, const int64_t* steps, int64_t count) {
    std::array<char*, N> at;
    for (std::size_t k = 0; k < N; ++k) at[k] = first[k];
    for (int64_t i = 0; i < count; ++i) {
      body(at.data());
      for (std::size_t k = 0; k < N; ++k) at[k] += steps[k];
    }
  });
}

}  // namespace tendril::cpu
