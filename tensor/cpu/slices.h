#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/cpu/parallel.h"
#include "tendril/tensor/cpu/paths.h"
#include "tendril/tensor/cpu/pieces.h"
#include "tendril/tensor/cpu/scratch.h"
#include "tendril/tensor/scalar_math.h"

/// How slices are written or added to the rows of a result that an index names, on one thread or several: with the same
/// bits on any number of them, since each row gets its slices in the index's order, or, where each thread has a copy of
/// the rows, in pieces that sizes alone decide.
namespace tendril::cpu {

/// Slices of `width` elements that lie together. An element of a line is one of width 1.
template <class T>
struct Slices {
  T* out;
  int64_t to, rows;  ///< `to`, `step` and `from`: steps from one to the next
  const int64_t* index;
  int64_t step;
  const T* source;
  int64_t from, count;
  int64_t width;

  int64_t numel() const noexcept { return count * width; }
  Slices part(int64_t begin, int64_t number) const noexcept {
    Slices some = *this;
    some.index += begin * step;
    some.source += begin * from;
    some.count = number;
    return some;
  }
};

struct Add {
  template <class T>
  void operator()(T& to, const T& x) const {
    to = static_cast<T>(scalar_math::added(load(&to), load(&x)));
  }
};
struct Write {
  template <class T>
  void operator()(T& to, const T& x) const {
    to = x;
  }
};

/// A line, or slices of one element each.
template <class T, class Put>
void put_line(T* out, int64_t to, const int64_t* index, int64_t step, const T* source, int64_t from, int64_t count,
              const Put& put) {
  for (int64_t i = 0; i < count; ++i) put(out[index[i * step] * to], source[i * from]);
}
/// One slice, which does not overlap the row.
template <class T, class Put>
[[gnu::always_inline]] inline void put_slice(T* row, const T* slice, int64_t width, const Put& put) {
#pragma GCC ivdep
  for (int64_t j = 0; j < width; ++j) put(row[j], slice[j]);
}

/// By value, so that nothing that is written to `out` could change it.
template <class T, class Put>
void in_order(const Slices<T> all, const Put& put) {
  if (all.width == 1) {
    return put_line(all.out, all.to, all.index, all.step, all.source, all.from, all.count, put);
  }
  for (int64_t i = 0; i < all.count; ++i) {
    put_slice(all.out + all.index[i * all.step] * all.to, all.source + i * all.from, all.width, put);
  }
}

/// Each thread goes over the whole index and takes, in order, what is for rows of its own. These are blocks of rows
/// that are dealt out in turn: where some rows get most of the slices, their neighbours are others'.
template <class T, class Put>
void by_own_rows(const Slices<T>& given, const Put& put) {
  constexpr int64_t kDeals = 64, kBlock = 64, kPart = 512;  // a block has as many elements, or is a row
  int shift = 0;
  while ((given.width << shift) < kBlock) ++shift;
  const int64_t deals = std::min(kDeals, ((given.rows - 1) >> shift) + 1);
  took(Path::own_rows, given.count * given.width);
  parallel_for(deals, std::max<int64_t>(1, deals / num_threads()), [&](int64_t begin, int64_t end) {
    if (end - begin == deals) return in_order(given, put);  // nobody helps
    const Slices<T> all = given;
    const uint64_t own = ~uint64_t{0} >> (kDeals - (end - begin)) << begin;
    std::array<uint16_t, kPart> found;
    for (int64_t first = 0; first < all.count; first += kPart) {
      const Slices<T> some = all.part(first, std::min(kPart, all.count - first));
      // Without a branch, which would be guessed wrong half of the time.
      std::size_t number = 0;
      for (int64_t i = 0; i < some.count; ++i) {
        found[number] = static_cast<uint16_t>(i);
        number += own >> (static_cast<uint64_t>(some.index[i * some.step]) >> shift) % kDeals & 1;
      }
      for (std::size_t k = 0; k < number; ++k) {
        const int64_t i = found[k];
        put_slice(some.out + some.index[i * some.step] * some.to, some.source + i * some.from, some.width, put);
      }
    }
  });
}

/// Each thread has columns of its own: for fewer rows than threads.
template <class T, class Put>
void by_own_columns(const Slices<T>& all, int64_t fewest, const Put& put) {
  took(Path::own_columns, all.count * all.width);
  parallel_for(all.width, std::max(fewest, grain_of(all.count)), [&](int64_t begin, int64_t end) {
    Slices<T> columns = all;
    columns.out += begin;
    columns.source += begin;
    columns.width = end - begin;
    in_order(columns, put);
  });
}

/// The pieces of which each has a copy of all rows: so few that a copy costs little beside a piece.
template <class T>
Pieces pieces_with_copies(const Slices<T>& all) {
  constexpr int64_t kSlicesOfARow = 8;
  return Pieces(all.count, all.width, all.count / (kSlicesOfARow * all.rows));
}

/// Each piece is added up in a copy of the rows, and the copies are added to `out` in their order.
template <class T>
void add_by_copies(const Slices<T>& all, const Pieces& pieces) {
  took(Path::row_copies);
  const T nothing = static_cast<T>(-0.0F);  // -0 + x is x, also where that is -0
  const int64_t size = all.rows * all.width;
  const Scratch<T> copies(pieces.count() * size);
  pieces.each([&](int64_t number) {
    Slices<T> piece = all.part(pieces.begin(number), pieces.end(number) - pieces.begin(number));
    piece.out = copies.data() + number * size;
    piece.to = all.width;
    std::fill_n(piece.out, size, nothing);
    in_order(piece, Add{});
  });
  parallel_for(all.rows, grain_of(pieces.count() * all.width), [&](int64_t begin, int64_t end) {
    for (int64_t number = 0; number < pieces.count(); ++number) {
      const T* sums = copies.data() + number * size;
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t j = 0; j < all.width; ++j) Add{}(all.out[row * all.to + j], sums[row * all.width + j]);
      }
    }
  });
}

}  // namespace tendril::cpu
