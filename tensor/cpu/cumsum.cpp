#include <algorithm>
#include <array>
#include <cstdlib>
#include <type_traits>

#include "tendril/tensor/cpu/convert.h"
#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/half_blocks.h"
#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/cpu/scratch.h"
#include "tendril/tensor/detail/dispatch.h"

/// Running sums along a dimension, of floating numbers in double. A long line has tiles: an element's sum is what came
/// before its tile, plus the sum from the tile's beginning on; what came before the next tile is the last of these. So
/// threads that add up tiles first, and one that writes as it goes, give the same bits (but of what is not a number: of
/// two NaN that meet either may be kept), and sums of positive numbers never fall. (Of float64 near the largest number
/// a tile may overflow where a sum from the line's beginning would not, and the reverse, as in any sum that is made of
/// several.)
namespace tendril::cpu {
namespace {

/// A sum waits for the one before, about 4 cycles; those of several tiles do not wait for each other. (2^20 floats, one
/// thread: one after the other 1.23 ms, so 1.12 with both passes.) Not a multiple of a page: the places
/// that are read and written at a time would share the same few lines of a cache.
constexpr int64_t kTile = 2064, kAtOnce = 4, kGroup = kAtOnce * kTile;

template <class T>
struct RunningSum {
  using A = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  using Tiles = std::array<A, kAtOnce>;

  int64_t length, to, from;  ///< steps of the result and of x, in elements

  static A load_from(const T* x) { return static_cast<A>(load(x)); }

  /// The sum of `count` elements of a half type.
  A sum_of_halves(const T* x, int64_t count) const {
    A sum = 0;
    float block[kHalfBlock];
    for (int64_t i = 0; i < count; i += kHalfBlock) {
      const int64_t some = std::min(kHalfBlock, count - i);
      widen_block<T>(reinterpret_cast<const char*>(x + i * from), from * static_cast<int64_t>(sizeof(T)), some, block);
      for (int64_t k = 0; k < some; ++k) sum += static_cast<A>(block[k]);
    }
    return sum;
  }
  /// Writes `count` elements, before which there is `before`; returns their sum.
  A write_tile(T* out, const T* x, int64_t count, A before) const {
    A sum = 0;
    if constexpr (is_half_type<T>) {
      char* const pointers[] = {reinterpret_cast<char*>(out), const_cast<char*>(reinterpret_cast<const char*>(x))};
      const auto unit = static_cast<int64_t>(sizeof(T));
      const int64_t steps[] = {to * unit, from * unit};
      in_blocks_of_float<T, 1>(pointers, steps, count, [&](auto& blocks, int64_t some) {
        for (int64_t i = 0; i < some; ++i) {
          sum += static_cast<A>(blocks[0][i]);
          blocks[0][i] = static_cast<float>(before + sum);
        }
      });
    } else {
      const int64_t x_step = from, out_step = to;  // not in memory that writing to `out` could change
      for (int64_t i = 0; i < count; ++i) {
        sum += load_from(x + i * x_step);
        out[i * out_step] = convert<T>(before + sum);
      }
    }
    return sum;
  }

  /// The sums of a group's tiles.
  Tiles sums(const T* x) const {
    Tiles sum{};
    if constexpr (is_half_type<T>) {
      for (std::size_t t = 0; t < kAtOnce; ++t) {
        sum[t] = sum_of_halves(x + static_cast<int64_t>(t) * kTile * from, kTile);
      }
    } else {
      for (int64_t i = 0; i < kTile; ++i) {
        for (int64_t t = 0; t < kAtOnce; ++t) sum[static_cast<std::size_t>(t)] += load_from(x + (t * kTile + i) * from);
      }
    }
    return sum;
  }
  /// Writes a group, before whose tiles there is `before`.
  void write(T* out, const T* x, const Tiles& before) const {
    const Tiles start = before;
    if constexpr (is_half_type<T>) {
      for (int64_t t = 0; t < kAtOnce; ++t) {
        write_tile(out + t * kTile * to, x + t * kTile * from, kTile, start[static_cast<std::size_t>(t)]);
      }
    } else {
      Tiles sum{};
      for (int64_t i = 0; i < kTile; ++i) {
        for (std::size_t t = 0; t < kAtOnce; ++t) {
          const int64_t at = static_cast<int64_t>(t) * kTile + i;
          sum[t] += load_from(x + at * from);
          out[at * to] = convert<T>(start[t] + sum[t]);
        }
      }
    }
  }
  /// Makes of a group's sums what is before each, from `before` on, which becomes what is before the next group.
  static Tiles offsets(const Tiles& sum, A& before) {
    Tiles all;
    for (std::size_t t = 0; t < kAtOnce; ++t) {
      all[t] = before;
      before += sum[t];
    }
    return all;
  }
  /// Writes what is from `begin` on, tile by tile.
  void finish(T* out, const T* x, int64_t begin, A before) const {
    for (; begin < length; begin += kTile) {
      before += write_tile(out + begin * to, x + begin * from, std::min(kTile, length - begin), before);
    }
  }

  /// Without tiles: short lines, and integers, of which any order gives the same and a sum waits for a cycle only.
  void in_order(T* out, const T* x) const { write_tile(out, x, length, 0); }
  void on_one_thread(T* out, const T* x) const {
    A before = 0;
    int64_t begin = 0;
    // Each element is read twice: those that lie apart would come from memory twice, and halves be converted twice.
    if (!is_half_type<T> && std::abs(from) * static_cast<int64_t>(sizeof(T)) < 64) {
      for (; begin + kGroup <= length; begin += kGroup) {
        write(out + begin * to, x + begin * from, offsets(sums(x + begin * from), before));
      }
    }
    finish(out, x, begin, before);
  }
  /// `tiles` has room for a line's groups.
  void on_several(T* out, const T* x, Tiles* tiles) const {
    const int64_t groups = length / kGroup;
    const auto each = [groups](const auto& f) {
      parallel_for(groups, grain_of(kGroup), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) f(i);
      });
    };
    each([&](int64_t i) { tiles[i] = sums(x + i * kGroup * from); });
    A before = 0;
    for (int64_t i = 0; i < groups; ++i) tiles[i] = offsets(tiles[i], before);
    each([&](int64_t i) { write(out + i * kGroup * to, x + i * kGroup * from, tiles[i]); });
    finish(out, x, groups * kGroup, before);
  }
};

template <class T>
void running_sums(const View& out, const View& x, int dim) {
  if (x.numel == 0) return;
  const RunningSum<T> line{x.sizes[dim], out.strides[dim], x.strides[dim]};
  const auto at = [](char* const* pointers, const auto& f) {
    f(reinterpret_cast<T*>(pointers[0]), reinterpret_cast<const T*>(pointers[1]));
  };
  const bool alone = line.length < 2 * kParallelGrain || x.numel / line.length >= num_threads();
  const bool in_order = line.length < kGroup || std::is_integral_v<T>;
  if (alone || line.length < kGroup) {
    return share_lines<2>({&out, &x}, dim, line.length, [&](char* const* pointers) {
      at(pointers, [&](T* o, const T* in) { in_order ? line.in_order(o, in) : line.on_one_thread(o, in); });
    });
  }
  // Of few long lines one after the other, each on several threads.
  const Scratch<typename RunningSum<T>::Tiles> tiles(line.length / kGroup);
  for_each_line<2>({&out, &x}, dim, [&](char* const* pointers) {
    at(pointers, [&](T* o, const T* in) { line.on_several(o, in, tiles.data()); });
  });
}

}  // namespace

void cumsum(const View& out, const View& x, int dim) {
  detail::visit(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, bool>) {
      running_sums<T>(out, x, dim);
    } else {
      detail::raise<DTypeError>("cumsum: no cpu kernel for bool");
    }
  });
}

}  // namespace tendril::cpu
