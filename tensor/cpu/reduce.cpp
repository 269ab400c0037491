#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "tendril/tensor/cpu/axes.h"
#include "tendril/tensor/cpu/convert.h"
#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/cpu/scratch.h"
#include "tendril/tensor/detail/dispatch.h"

namespace tendril::cpu {
namespace {

template <Reduction op, class T>
constexpr Accumulator<op, T> identity() {
  using A = Accumulator<op, T>;
  using Limits = std::numeric_limits<A>;
  switch (fold_of(op)) {
    case Reduction::sum:
    case Reduction::any:
      return A(0);
    case Reduction::prod:
    case Reduction::all:
      return A(1);
    case Reduction::max:
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    default:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
}

/// One accumulator of any reduction.
struct alignas(8) Total {
  std::array<unsigned char, 8> bytes;
};

/// What depends on the reduction and the dtype, beside the innermost loops: the rest of this file is compiled once.
struct Totals {
  DType dtype;                                 ///< of an accumulator
  int64_t bytes;                               ///< of one
  Total nothing;                               ///< that of no elements
  void (*start)(void* totals, int64_t count);  ///< makes `count` of nothing
  /// Accumulators to results, `step` bytes apart.
  void (*finish)(char* out, int64_t step, const void* totals, int64_t count);
};

template <Reduction op, class T>
constexpr Totals totals_of() {
  using A = Accumulator<op, T>;
  static_assert(sizeof(A) <= sizeof(Total) && alignof(A) <= alignof(Total));
  Total nothing{};
  const auto bytes = std::bit_cast<std::array<unsigned char, sizeof(A)>>(identity<op, T>());
  std::copy(bytes.begin(), bytes.end(), nothing.bytes.begin());
  return {.dtype = dtype_of<A>,
          .bytes = sizeof(A),
          .nothing = nothing,
          .start = [](void* totals, int64_t count) { std::fill_n(static_cast<A*>(totals), count, identity<op, T>()); },
          .finish =
              [](char* out, int64_t step, const void* totals, int64_t count) {
                const A* const from = static_cast<const A*>(totals);
                for (int64_t i = 0; i < count; ++i) *reinterpret_cast<T*>(out + i * step) = convert<T>(from[i]);
              }};
}

template <Reduction op>
constexpr ByDType<Totals> kTotals = {totals_of<op, float>(),   totals_of<op, double>(),  totals_of<op, int64_t>(),
                                     totals_of<op, int32_t>(), totals_of<op, uint8_t>(), totals_of<op, bool>(),
                                     totals_of<op, Half>(),    totals_of<op, BFloat16>()};  // as DType has them

constexpr ByOp<Reduction, Totals> kAllTotals = {
    kTotals<Reduction::sum>, kTotals<Reduction::prod>, kTotals<Reduction::max>,
    kTotals<Reduction::min>, kTotals<Reduction::all>,  kTotals<Reduction::any>,
#define TENDRIL_REDUCTION(name, ...) kTotals<Reduction::name>,
#include "tendril/tensor/reductions.def"
};

/// A reduction of one dtype.
struct Fold {
  Fold(Reduction op, DType dtype)
      : rows(loops().fold_rows[static_cast<std::size_t>(op)]),
        columns(loops().fold_columns[static_cast<std::size_t>(op)]),
        totals(kAllTotals[static_cast<std::size_t>(op)][static_cast<std::size_t>(dtype)]),
        of_elements(static_cast<std::size_t>(dtype)),
        operation(op) {}

  /// Of what has been folded.
  FoldRows merge_rows() const noexcept {
    return loops().fold_rows[static_cast<std::size_t>(fold_of(operation))][static_cast<std::size_t>(totals.dtype)];
  }
  FoldColumns merge_columns() const noexcept {
    return loops().fold_columns[static_cast<std::size_t>(fold_of(operation))][static_cast<std::size_t>(totals.dtype)];
  }

  const ByDType<FoldRows>& rows;
  const ByDType<FoldColumns>& columns;
  const Totals& totals;
  const std::size_t of_elements;  ///< the dtype's index
  const Reduction operation;
};

/// Where there are too few results to share among threads, what each is made of is cut in pieces of about so many
/// elements. How depends on the shapes alone: results are the same whatever the number of threads.
constexpr int64_t kPiece = 32 * 1024;

/// Each result is made of rows of `size` elements, `step` apart, at the places of `reduced`.
void reduce_rows(const Fold& fold, const char* x, char* out, const Axes& kept, Axes reduced) {
  std::array<int64_t, 2> steps;  // of x, and of the result
  const int64_t size = plan::take_first(reduced, steps), step = steps[0];
  const int64_t results = kept.numel(), rows = reduced.numel();
  const FoldRows fold_rows = fold.rows[fold.of_elements];
  if (results >= 16 || rows * size < 2 * kPiece) {
    return parallel_for(results, grain_of(rows * size), [&](int64_t begin, int64_t end) {
      // Results beside each other at once.
      std::array<Total, 64> totals;
      std::array<int64_t, 2> next;  // of x, and of the result
      Axes others = kept;
      const int64_t width = plan::take_first(others, next);
      for (int64_t i = begin; i < end;) {
        const int64_t first = i % width,
                      count = std::min({end - i, width - first, static_cast<int64_t>(totals.size())});
        others.for_range(x + first * next[0], out + first * next[1], i / width, 1, [&](const char* from, char* to) {
          fold.totals.start(totals.data(), count);
          reduced.for_each(from, nullptr,
                           [&](const char* row, char*) { fold_rows(totals.data(), row, step, size, next[0], count); });
          fold.totals.finish(to, next[1], totals.data(), count);
        });
        i += count;
      }
    });
  }
  // A piece is several rows, or a part of one.
  const int64_t length = std::min(size, kPiece), cuts = (size + length - 1) / length;
  const int64_t height = std::max<int64_t>(1, kPiece / length), pieces = (rows + height - 1) / height * cuts;
  const Scratch<Total> memory(pieces);
  char* const totals = reinterpret_cast<char*>(memory.data());
  kept.for_each(x, out, [&](const char* from, char* to) {
    parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t first = piece / cuts * height, start = piece % cuts * length;
        char* const total = totals + piece * fold.totals.bytes;
        fold.totals.start(total, 1);
        reduced.for_range(
            from + start * step, nullptr, first, std::min(height, rows - first),
            [&](const char* row, char*) { fold_rows(total, row, step, std::min(length, size - start), 0, 1); });
      }
    });
    Total total = fold.totals.nothing;
    fold.merge_rows()(&total, totals, fold.totals.bytes, pieces, 0, 1);
    fold.totals.finish(to, 0, &total, 1);
  });
}

/// Results that lie beside each other are made together, row after row.
void reduce_columns(const Fold& fold, const char* x, char* out, Axes kept, Axes reduced) {
  constexpr int64_t kWidth = 512;           // accumulators that stay in the first cache
  std::array<int64_t, 2> steps, row_steps;  // of x, and of the result
  const int64_t size = plan::take_first(kept, steps), rows = plan::take_first(reduced, row_steps);
  const int64_t x_step = steps[0], out_step = steps[1], row_step = row_steps[0];
  const int64_t width = std::min(size, kWidth), strips = (size + width - 1) / width;
  const int64_t places = kept.numel(), slabs = reduced.numel();
  const FoldColumns fold_columns = fold.columns[fold.of_elements];
  // Folds rows [first, first + height) of one slab into `count` accumulators.
  const auto fold_piece = [&](const char* from, void* totals, int64_t count, int64_t slab, int64_t first,
                              int64_t height) {
    reduced.for_range(from + first * row_step, nullptr, slab, 1,
                      [&](const char* row, char*) { fold_columns(totals, row, x_step, count, row_step, height); });
  };
  if (places * strips >= 16 || slabs * rows * width < 2 * kPiece) {
    return parallel_for(places * strips, grain_of(slabs * rows * width), [&](int64_t begin, int64_t end) {
      std::array<Total, kWidth> totals;
      for (int64_t strip = begin; strip < end; ++strip) {
        const int64_t first = strip % strips * width, count = std::min(width, size - first);
        kept.for_range(x, out, strip / strips, 1, [&](const char* from, char* to) {
          fold.totals.start(totals.data(), count);
          for (int64_t slab = 0; slab < slabs; ++slab) {
            fold_piece(from + first * x_step, totals.data(), count, slab, 0, rows);
          }
          fold.totals.finish(to + first * out_step, out_step, totals.data(), count);
        });
      }
    });
  }
  // A piece is some rows of a slab; each has accumulators of its own.
  const int64_t height = std::clamp<int64_t>(kPiece / width, (rows + 63) / 64, rows),
                cuts = (rows + height - 1) / height;
  const int64_t pieces = slabs * cuts, piece_bytes = width * fold.totals.bytes;
  const Scratch<Total> memory(pieces * width);
  char* const all = reinterpret_cast<char*>(memory.data());
  kept.for_each(x, out, [&](const char* from, char* to) {
    for (int64_t first = 0; first < size; first += width) {
      const int64_t count = std::min(width, size - first);
      parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
        for (int64_t piece = begin; piece < end; ++piece) {
          char* const totals = all + piece * piece_bytes;
          fold.totals.start(totals, count);
          const int64_t top = piece % cuts * height;
          fold_piece(from + first * x_step, totals, count, piece / cuts, top, std::min(height, rows - top));
        }
      });
      fold.merge_columns()(all, all + piece_bytes, fold.totals.bytes, count, piece_bytes, pieces - 1);
      fold.totals.finish(to + first * out_step, out_step, all, count);
    }
  });
}

}  // namespace

void reduce(Reduction op, const View& out, const View& x) {
  if (out.numel == 0) return;
  const Fold fold(op, x.dtype);
  const auto bytes = static_cast<int64_t>(size_of(x.dtype));  // out's too
  if (x.numel == 0) {
    for_each_row<1>(nest_of<1>({&out}), [&](char* const* p, const int64_t* s, int64_t count) {
      for (int64_t i = 0; i < count; ++i) fold.totals.finish(p[0] + i * s[0], 0, &fold.totals.nothing, 1);
    });
    return;
  }
  TENDRIL_CHECK_AS(DTypeError, fold.rows[fold.of_elements], name_of(op), ": no cpu kernel for ", x.dtype);
  if (out.numel == 1 && x.contiguous && x.numel < 2 * kPiece) {  // nothing to sort out
    Total total = fold.totals.nothing;
    fold.rows[fold.of_elements](&total, x.as<const char>(), bytes, x.numel, 0, 1);
    fold.totals.finish(out.as<char>(), 0, &total, 1);
    return;
  }
  Axes kept, reduced;
  plan::insert_reduction<2>(kept, reduced, out, x, bytes);
  plan::merge<2>(kept);
  plan::merge<2>(reduced);
  if (kept.ndim == 0 || plan::by_rows(kept, reduced)) {
    reduce_rows(fold, x.as<const char>(), out.as<char>(), kept, reduced);
  } else {
    reduce_columns(fold, x.as<const char>(), out.as<char>(), kept, reduced);
  }
}

}  // namespace tendril::cpu
