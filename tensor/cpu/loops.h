#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "tendril/tensor/cpu/level/level.h"
#include "tendril/tensor/cpu/parallel.h"
#include "tendril/tensor/dims.h"
#include "tendril/tensor/dtype.h"
#include "tendril/tensor/view.h"

/// How the CPU kernels walk over strided operands.
namespace tendril::cpu {

template <class T>
Compute<T> load(const T* p) {
  return static_cast<Compute<T>>(*p);
}

/// N operands of one shape, with dimensions of size 1 dropped and neighbours merged where every operand permits it.
/// Steps are in bytes.
template <int N>
struct Nest {
  int ndim = 0;  ///< at least 1 after `nest_of`
  std::array<int64_t, Dims::kMaxDims> sizes;
  std::array<std::array<int64_t, Dims::kMaxDims>, N> steps;
  std::array<char*, N> data;
};

template <int N>
Nest<N> nest_of(const std::array<const View*, N>& views) {
  Nest<N> nest;
  const View& shape = *views[0];
  for (std::size_t k = 0; k < N; ++k) nest.data[k] = views[k]->template as<char>();
  for (int d = 0; d < shape.ndim; ++d) {
    const int64_t size = shape.sizes[d];
    if (size == 1) continue;
    std::array<int64_t, N> step;
    bool merge = nest.ndim > 0;
    const auto last = static_cast<std::size_t>(nest.ndim - 1);
    for (std::size_t k = 0; k < N; ++k) {
      step[k] = views[k]->strides[d] * static_cast<int64_t>(size_of(views[k]->dtype));
      merge = merge && nest.steps[k][last] == step[k] * size;
    }
    const auto at = merge ? last : static_cast<std::size_t>(nest.ndim++);
    nest.sizes[at] = merge ? nest.sizes[at] * size : size;
    for (std::size_t k = 0; k < N; ++k) nest.steps[k][at] = step[k];
  }
  if (nest.ndim == 0) {
    nest.ndim = 1;
    nest.sizes[0] = 1;
    for (std::size_t k = 0; k < N; ++k) nest.steps[k][0] = static_cast<int64_t>(size_of(views[k]->dtype));
  }
  return nest;
}

/// Runs `body(pointers, steps, count)` over the innermost dimension of every row of the nest.
template <int N, class Body>
void for_each_row(const Nest<N>& nest, Body&& body) {
  const auto inner = static_cast<std::size_t>(nest.ndim - 1);
  std::array<int64_t, N> steps;
  for (std::size_t k = 0; k < N; ++k) steps[k] = nest.steps[k][inner];
  std::array<char*, N> at = nest.data;
  std::array<int64_t, Dims::kMaxDims> index{};
  while (true) {
    body(at.data(), steps.data(), nest.sizes[inner]);
    int d = nest.ndim - 2;
    for (; d >= 0; --d) {
      const auto i = static_cast<std::size_t>(d);
      for (std::size_t k = 0; k < N; ++k) at[k] += nest.steps[k][i];
      if (++index[i] < nest.sizes[i]) break;
      for (std::size_t k = 0; k < N; ++k) at[k] -= nest.steps[k][i] * nest.sizes[i];
      index[i] = 0;
    }
    if (d < 0) return;
  }
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

/// Runs `body(pointers)` at every index of the dimensions other than `dim`, which starts at 0: once for each line.
template <int N, class Body>
void for_each_line(const std::array<const View*, N>& views, int dim, Body&& body) {
  for (int d = 0; d < views[0]->ndim; ++d) {
    if (d != dim && views[0]->sizes[d] == 0) return;
  }
  for_each_row<N>(nest_without<N>(views, dim), [&](char* const* pointers, const int64_t* steps, int64_t count) {
    std::array<char*, N> at;
    for (std::size_t k = 0; k < N; ++k) at[k] = pointers[k];
    for (int64_t i = 0; i < count; ++i) {
      body(at.data());
      for (std::size_t k = 0; k < N; ++k) at[k] += steps[k];
    }
  });
}

/// One element, repeated for all.
inline bool is_repeated(const View& x) noexcept {
  for (int d = 0; d < x.ndim; ++d) {
    if (x.strides[d] != 0) return false;
  }
  return true;
}

/// Runs `loop` over operands that advance by `steps` throughout.
template <int N>
void run_evenly(Loop loop, const std::array<char*, N>& data, const std::array<int64_t, N>& steps, int64_t count) {
  if (count < 2 * kParallelGrain) [[likely]]
    return loop(data.data(), steps.data(), count);
  parallel_for(count, kParallelGrain, [&](int64_t begin, int64_t end) {
    std::array<char*, N> part = data;
    for (std::size_t k = 0; k < N; ++k) part[k] += begin * steps[k];
    loop(part.data(), steps.data(), end - begin);
  });
}

/// Runs `loop` in one go where each operand is contiguous or one element repeated, else row by row.
template <int N>
[[gnu::noinline]] void run_strided(Loop loop, const std::array<const View*, N>& views) {
  std::array<char*, N> data;
  std::array<int64_t, N> steps;
  for (std::size_t k = 0; k < N; ++k) {
    const View& x = *views[k];
    if (!x.contiguous && (k == 0 || !is_repeated(x))) return for_each_row<N>(nest_of<N>(views), loop);
    data[k] = x.as<char>();
    steps[k] = x.contiguous ? static_cast<int64_t>(size_of(x.dtype)) : 0;
  }
  run_evenly<N>(loop, data, steps, views[0]->numel);
}

/// Runs `loop` over operands of one shape.
template <int N>
void run(Loop loop, const std::array<const View*, N>& views) {
  const View& out = *views[0];
  if (out.numel == 0) return;
  bool contiguous = true;
  for (std::size_t k = 0; k < N; ++k) contiguous = contiguous && views[k]->contiguous;
  if (!contiguous) [[unlikely]]
    return run_strided<N>(loop, views);
  std::array<char*, N> data;
  std::array<int64_t, N> steps;
  for (std::size_t k = 0; k < N; ++k) {
    data[k] = views[k]->template as<char>();
    steps[k] = static_cast<int64_t>(size_of(views[k]->dtype));
  }
  run_evenly<N>(loop, data, steps, out.numel);
}

}  // namespace tendril::cpu
