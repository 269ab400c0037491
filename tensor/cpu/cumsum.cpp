#include <algorithm>
#include <array>
#include <cstdlib>
#include <type_traits>

#include "tendril/tensor/cpu/convert.h"
#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/cpu/scratch.h"
#include "tendril/tensor/detail/dispatch.h"

/// Running sums along a dimension, of floating numbers in double. A long line has tiles: an element's sum is what came
/// before its tile, plus the sum from the tile's beginning on; what came before the next tile is the last of these. So
/// threads that add up tiles first, and one that writes as it goes, give the same bits, and sums of positive numbers
/// never fall. (Of float64 near the largest number a tile may overflow where a sum from the line's beginning would not,
/// and the reverse, as in any sum that is made of several.)
namespace tendril::cpu {
namespace {

/// A sum waits for the one before, about 4 cycles; those of several tiles do not wait for each other. (2^20 floats in a
/// near cache, one thread: one after the other 1.23 ms, so 1.07 with both passes.) Not a multiple of a page: the places
/// that are read and written at a time would share the same few lines of a cache.
constexpr int64_t kTile = 2064, kAtOnce = 4, kGroup = kAtOnce * kTile;

template <class T>
struct RunningSum {
  using A = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  using Tiles = std::array<A, kAtOnce>;

  int64_t length, to, from;  ///< steps of the result and of x, in elements

  static A load_from(const T* x) { return static_cast<A>(load(x)); }

  /// The sums of a group's tiles.
  Tiles sums(const T* x) const {
    Tiles sum{};
    for (int64_t i = 0; i < kTile; ++i) {
      for (int64_t t = 0; t < kAtOnce; ++t) sum[static_cast<std::size_t>(t)] += load_from(x + (t * kTile + i) * from);
    }
    return sum;
  }
  /// Writes a group, before whose tiles there is `before`.
  void write(T* out, const T* x, const Tiles& before) const {
    const Tiles start = before;  // not in memory that writing to `out` could change
    Tiles sum{};
    for (int64_t i = 0; i < kTile; ++i) {
      for (std::size_t t = 0; t < kAtOnce; ++t) {
        const int64_t at = static_cast<int64_t>(t) * kTile + i;
        sum[t] += load_from(x + at * from);
        out[at * to] = convert<T>(start[t] + sum[t]);
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
    while (begin < length) {
      const int64_t end = std::min(begin + kTile, length);
      A sum = 0;
      for (; begin < end; ++begin) {
        sum += load_from(x + begin * from);
        out[begin * to] = convert<T>(before + sum);
      }
      before += sum;
    }
  }

  /// Without tiles: short lines, and integers, of which any order gives the same and a sum waits for a cycle only.
  void in_order(T* out, const T* x) const {
    const RunningSum here = *this;  // not in memory that writing to `out` could change
    A sum = 0;
    for (int64_t i = 0; i < here.length; ++i) {
      sum += load_from(x + i * here.from);
      out[i * here.to] = convert<T>(sum);
    }
  }
  void on_one_thread(T* out, const T* x) const {
    A before = 0;
    int64_t begin = 0;
    // Each element is read twice. Those that lie apart would come from memory twice; a half type is slow to convert.
    if (sizeof(T) > 2 && std::abs(from) * static_cast<int64_t>(sizeof(T)) < 64) {
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
  if (line.length < kGroup || (alone && std::is_integral_v<T>)) {
    return share_lines<2>({&out, &x}, dim, line.length, [&](char* const* pointers) {
      at(pointers, [&](T* o, const T* in) { line.in_order(o, in); });
    });
  }
  if (alone) {
    return share_lines<2>({&out, &x}, dim, line.length, [&](char* const* pointers) {
      at(pointers, [&](T* o, const T* in) { line.on_one_thread(o, in); });
    });
  }
  // Of few long lines one after the other, each on several threads.
  const Scratch<typename RunningSum<T>::Tiles> tiles(line.length / kGroup);
  for_each_row<2>(nest_without<2>({&out, &x}, dim), [&](char* const* first, const int64_t* steps, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      char* const pointers[] = {first[0] + i * steps[0], first[1] + i * steps[1]};
      at(pointers, [&](T* o, const T* in) { line.on_several(o, in, tiles.data()); });
    }
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
