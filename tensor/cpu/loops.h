#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "tendril/tensor/cpu/level/level.h"
#include "tendril/tensor/cpu/nest.h"
#include "tendril/tensor/cpu/parallel.h"
#include "tendril/tensor/cpu/paths.h"
#include "tendril/tensor/dtype.h"
#include "tendril/tensor/view.h"

/// How the innermost loops are run over operands.
namespace tendril::cpu {

/// Of elements of `unit` bytes; `of` is a half of loops().transpose.
inline TransposeTile transpose_tile_of(const std::array<TransposeTile, 4>& of, int64_t unit) noexcept {
  return of[static_cast<std::size_t>(std::countr_zero(static_cast<uint64_t>(unit)))];
}

template <class T>
Compute<T> load(const T* p) {
  return static_cast<Compute<T>>(*p);
}

/// One element, repeated for all.
inline bool is_repeated(const View& x) noexcept {
  for (int d = 0; d < x.ndim; ++d) {
    if (x.strides[d] != 0) return false;
  }
  return true;
}

/// Whether operand k lies together along dimension `d` and not along the innermost.
template <int N>
bool lies_across(const Nest<N>& nest, std::size_t k, std::size_t d, int64_t unit) noexcept {
  return nest.strides[k][d] == unit && nest.strides[k][0] >= 64;
}

/// The dimension along which an operand lies across operand 0; -1: there is none that it is worth turning.
template <int N>
int crossing_dim(const Nest<N>& nest, const std::array<int64_t, N>& units) noexcept {
  for (std::size_t k = 1; k < N; ++k) {
    for (int d = nest.ndim - 1; d > 0; --d) {
      if (nest.sizes[static_cast<std::size_t>(d)] >= 8 &&
          lies_across<N>(nest, k, static_cast<std::size_t>(d), units[k])) {
        return d;
      }
    }
  }
  return -1;
}

/// Where operands lie across the others: by tiles, in which those are turned first.
template <int N, class Body>
void run_by_tiles(const Body& loop, Nest<N> nest, int crossing, const std::array<int64_t, N>& units) {
  took(Path::tiles, nest.rows() * nest.inner());
  const auto cross = static_cast<std::size_t>(crossing);
  const int64_t along = nest.inner(), across = nest.sizes[cross];
  std::array<int64_t, N> inner_steps, cross_steps, steps;
  std::array<bool, N> turned{};
  for (std::size_t k = 0; k < N; ++k) {
    inner_steps[k] = nest.strides[k][0];
    cross_steps[k] = nest.strides[k][cross];
    turned[k] = k > 0 && lies_across<N>(nest, k, cross, units[k]);
    steps[k] = turned[k] ? units[k] : inner_steps[k];
  }
  // What is left are strips of tiles: the crossing dimension is walked along in steps of a tile.
  nest.sizes[0] = 1;
  nest.sizes[cross] = (across + kTileAcross - 1) / kTileAcross;
  for (auto& each : nest.strides) each[cross] *= kTileAcross;
  int64_t after = 1;  // strips that differ in a faster dimension
  for (std::size_t d = 1; d < cross; ++d) after *= nest.sizes[d];
  parallel_for(nest.rows(), grain_of(along * kTileAcross), [&](int64_t begin, int64_t end) {
    alignas(64) std::array<std::array<char, kTileAlong * kTileAcross * sizeof(int64_t)>, N> buffers;
    int64_t strip = begin;
    for_rows<N>(nest, begin, end - begin, [&](char* const* at, const int64_t*, int64_t) {
      const int64_t first = strip++ / after % nest.sizes[cross] * kTileAcross;
      const int64_t height = std::min(kTileAcross, across - first);
      for (int64_t i = 0; i < along; i += kTileAlong) {
        const int64_t width = std::min(kTileAlong, along - i);
        std::array<char*, N> row;
        std::array<int64_t, N> to_next = cross_steps;
        for (std::size_t k = 0; k < N; ++k) {
          row[k] = at[k] + i * inner_steps[k];
          if (!turned[k]) continue;
          to_next[k] = kTileAlong * units[k];
          transpose_tile_of(loops().transpose.near, units[k])(buffers[k].data(), to_next[k], row[k], inner_steps[k],
                                                              width, height);
          row[k] = buffers[k].data();
        }
        for (int64_t j = 0; j < height; ++j) {
          loop(row.data(), steps.data(), width);
          for (std::size_t k = 0; k < N; ++k) row[k] += to_next[k];
        }
      }
    });
  });
}

/// Runs `loop` over operands that lie differently.
template <int N, class Body>
void run_nest(const Body& loop, const std::array<const View*, N>& views) {
  const Nest<N> nest = nest_of<N>(views);
  if (nest.ndim > 1 && views[0]->numel >= 4096) {
    std::array<int64_t, N> units;
    for (std::size_t k = 0; k < N; ++k) units[k] = static_cast<int64_t>(size_of(views[k]->dtype));
    if (const int crossing = crossing_dim<N>(nest, units); crossing >= 0)
      return run_by_tiles<N>(loop, nest, crossing, units);
  }
  share_rows<N>(nest, loop);
}

/// Runs `loop` over operands that advance by `steps` throughout.
template <int N, class Body>
void run_evenly(Body loop, const std::array<char*, N>& data, const std::array<int64_t, N>& steps, int64_t count) {
  if (count < 2 * kParallelGrain) [[likely]]
    return loop(data.data(), steps.data(), count);
  parallel_for(count, kParallelGrain, [&](int64_t begin, int64_t end) {
    std::array<char*, N> part = data;
    for (std::size_t k = 0; k < N; ++k) part[k] += begin * steps[k];
    loop(part.data(), steps.data(), end - begin);
  });
}

/// Runs `loop` in one go where each operand is contiguous or one element repeated, else row by row.
template <int N, class Body>
[[gnu::noinline]] void run_strided(Body loop, const std::array<const View*, N>& views) {
  std::array<char*, N> data;
  std::array<int64_t, N> steps;
  for (std::size_t k = 0; k < N; ++k) {
    const View& x = *views[k];
    if (!x.contiguous && (k == 0 || !is_repeated(x))) return run_nest<N>(loop, views);
    data[k] = x.as<char>();
    steps[k] = x.contiguous ? static_cast<int64_t>(size_of(x.dtype)) : 0;
  }
  run_evenly<N>(loop, data, steps, views[0]->numel);
}

/// Runs `loop`, a Loop or what is called like one, over operands of one shape.
template <int N, class Body>
void run(Body loop, const std::array<const View*, N>& views) {
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
