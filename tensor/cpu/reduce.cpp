#include <algorithm>
#include <array>
#include <limits>
#include <memory>

#include "tendril/tensor/cpu/convert.h"
#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/detail/dispatch.h"

namespace tendril::cpu {
namespace {

/// Dimensions of a reduction, longest strides first, neighbours merged. Steps in bytes.
struct Axes {
  int count = 0;
  std::array<int64_t, Dims::kMaxDims> sizes;
  std::array<int64_t, Dims::kMaxDims> x_steps;
  std::array<int64_t, Dims::kMaxDims> out_steps;  // 0 for reduced dimensions

  void add(int64_t size, int64_t x_step, int64_t out_step) {
    int at = count++;
    for (; at > 0 && x_steps[static_cast<std::size_t>(at - 1)] < x_step; --at) {  // insertion sort
      const auto i = static_cast<std::size_t>(at);
      sizes[i] = sizes[i - 1];
      x_steps[i] = x_steps[i - 1];
      out_steps[i] = out_steps[i - 1];
    }
    const auto i = static_cast<std::size_t>(at);
    sizes[i] = size;
    x_steps[i] = x_step;
    out_steps[i] = out_step;
  }
  void merge() {
    int kept = 0;
    for (int d = 1; d < count; ++d) {
      const auto i = static_cast<std::size_t>(d), k = static_cast<std::size_t>(kept);
      if (x_steps[k] == x_steps[i] * sizes[i] && out_steps[k] == out_steps[i] * sizes[i]) {
        sizes[k] *= sizes[i];
        x_steps[k] = x_steps[i];
        out_steps[k] = out_steps[i];
      } else {
        ++kept;
        sizes[k + 1] = sizes[i];
        x_steps[k + 1] = x_steps[i];
        out_steps[k + 1] = out_steps[i];
      }
    }
    if (count > 0) count = kept + 1;
  }
  /// Splits off the innermost dimension; one of size 1 if there is none.
  void take_inner(int64_t& size, int64_t& x_step, int64_t& out_step) {
    size = 1;
    x_step = out_step = 0;
    if (count == 0) return;
    const auto last = static_cast<std::size_t>(--count);
    size = sizes[last];
    x_step = x_steps[last];
    out_step = out_steps[last];
  }
  int64_t numel() const noexcept {
    int64_t product = 1;
    for (int d = 0; d < count; ++d) product *= sizes[static_cast<std::size_t>(d)];
    return product;
  }
  /// Runs `body(x, out)` at `places` indices, in order, from number `first` on.
  template <class Body>
  void for_range(const char* x, char* out, int64_t first, int64_t places, Body&& body) const {
    std::array<int64_t, Dims::kMaxDims> index{};
    for (auto d = static_cast<std::size_t>(count); d-- > 0 && first > 0;) {
      index[d] = first % sizes[d];
      first /= sizes[d];
      x += index[d] * x_steps[d];
      out += index[d] * out_steps[d];
    }
    for (; places > 0; --places) {
      body(x, out);
      for (auto d = static_cast<std::size_t>(count); d-- > 0;) {
        x += x_steps[d];
        out += out_steps[d];
        if (++index[d] < sizes[d]) break;
        x -= x_steps[d] * sizes[d];
        out -= out_steps[d] * sizes[d];
        index[d] = 0;
      }
    }
  }
  template <class Body>
  void for_each(const char* x, char* out, Body&& body) const {
    for_range(x, out, 0, numel(), body);
  }
};

template <Reduction op, class T>
constexpr Accumulator<op, T> identity() {
  using A = Accumulator<op, T>;
  using Limits = std::numeric_limits<A>;
  switch (op) {
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

/// Where there are too few results to share among threads, what each is made of is cut in pieces of about so many
/// elements. How depends on the shapes alone: results are the same whatever the number of threads.
constexpr int64_t kPiece = 32 * 1024;

template <Reduction op, class T>
struct Fold {
  using A = Accumulator<op, T>;
  static constexpr auto at = static_cast<std::size_t>(op);
  FoldRow row = loops().fold_row[at][static_cast<std::size_t>(dtype_of<T>)];
  FoldColumns columns = loops().fold_columns[at][static_cast<std::size_t>(dtype_of<T>)];
  // Of what has been folded already.
  FoldRow row_of_totals = loops().fold_row[at][static_cast<std::size_t>(dtype_of<A>)];
  FoldColumns columns_of_totals = loops().fold_columns[at][static_cast<std::size_t>(dtype_of<A>)];
};

/// Each result is made of rows of `size` elements, `step` apart, at the places of `reduced`.
template <Reduction op, class T>
void reduce_rows(const Fold<op, T>& fold, const char* x, char* out, const Axes& kept, Axes reduced) {
  using A = Accumulator<op, T>;
  int64_t size, step, unused;
  reduced.take_inner(size, step, unused);
  const int64_t results = kept.numel(), rows = reduced.numel();
  if (results >= 16 || rows * size < 2 * kPiece) {
    return parallel_for(results, grain_of(rows * size), [&](int64_t begin, int64_t end) {
      kept.for_range(x, out, begin, end - begin, [&](const char* from, char* to) {
        A total = identity<op, T>();
        reduced.for_each(from, nullptr, [&](const char* row, char*) { fold.row(&total, row, step, size); });
        *reinterpret_cast<T*>(to) = convert<T>(total);
      });
    });
  }
  // A piece is several rows, or a part of one.
  const int64_t length = std::min(size, kPiece), cuts = (size + length - 1) / length;
  const int64_t height = std::max<int64_t>(1, kPiece / length), pieces = (rows + height - 1) / height * cuts;
  const std::unique_ptr<A[]> totals(new A[static_cast<std::size_t>(pieces)]);
  kept.for_each(x, out, [&](const char* from, char* to) {
    parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t first = piece / cuts * height, start = piece % cuts * length;
        A& total = totals[static_cast<std::size_t>(piece)] = identity<op, T>();
        reduced.for_range(from + start * step, nullptr, first, std::min(height, rows - first),
                          [&](const char* row, char*) { fold.row(&total, row, step, std::min(length, size - start)); });
      }
    });
    A total = identity<op, T>();
    fold.row_of_totals(&total, reinterpret_cast<const char*>(totals.get()), sizeof(A), pieces);
    *reinterpret_cast<T*>(to) = convert<T>(total);
  });
}

/// Results that lie beside each other are made together, row after row.
template <Reduction op, class T>
void reduce_columns(const Fold<op, T>& fold, const char* x, char* out, Axes kept, Axes reduced) {
  using A = Accumulator<op, T>;
  constexpr int64_t kWidth = 512;  // accumulators that stay in the first cache
  int64_t size, x_step, out_step, rows, row_step, unused;
  kept.take_inner(size, x_step, out_step);
  reduced.take_inner(rows, row_step, unused);
  const int64_t width = std::min(size, kWidth), strips = (size + width - 1) / width;
  const int64_t places = kept.numel(), slabs = reduced.numel();
  // Folds rows [first, first + height) of one slab into `width` accumulators.
  const auto fold_piece = [&](const char* from, A* totals, int64_t count, int64_t slab, int64_t first, int64_t height) {
    reduced.for_range(from + first * row_step, nullptr, slab, 1,
                      [&](const char* row, char*) { fold.columns(totals, row, x_step, count, row_step, height); });
  };
  const auto write = [&](char* to, const A* totals, int64_t count) {
    for (int64_t j = 0; j < count; ++j) *reinterpret_cast<T*>(to + j * out_step) = convert<T>(totals[j]);
  };
  if (places * strips >= 16 || slabs * rows * width < 2 * kPiece) {
    return parallel_for(places * strips, grain_of(slabs * rows * width), [&](int64_t begin, int64_t end) {
      std::array<A, kWidth> totals;
      for (int64_t strip = begin; strip < end; ++strip) {
        const int64_t first = strip % strips * width, count = std::min(width, size - first);
        kept.for_range(x, out, strip / strips, 1, [&](const char* from, char* to) {
          std::fill_n(totals.begin(), count, identity<op, T>());
          for (int64_t slab = 0; slab < slabs; ++slab) {
            fold_piece(from + first * x_step, totals.data(), count, slab, 0, rows);
          }
          write(to + first * out_step, totals.data(), count);
        });
      }
    });
  }
  // A piece is some rows of a slab; each has accumulators of its own.
  const int64_t height = std::clamp<int64_t>(kPiece / width, (rows + 63) / 64, rows),
                cuts = (rows + height - 1) / height;
  const int64_t pieces = slabs * cuts;
  const std::unique_ptr<A[]> all(new A[static_cast<std::size_t>(pieces * width)]);
  kept.for_each(x, out, [&](const char* from, char* to) {
    for (int64_t first = 0; first < size; first += width) {
      const int64_t count = std::min(width, size - first);
      parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
        for (int64_t piece = begin; piece < end; ++piece) {
          A* const totals = &all[static_cast<std::size_t>(piece * width)];
          std::fill_n(totals, count, identity<op, T>());
          const int64_t top = piece % cuts * height;
          fold_piece(from + first * x_step, totals, count, piece / cuts, top, std::min(height, rows - top));
        }
      });
      fold.columns_of_totals(all.get(), reinterpret_cast<const char*>(&all[static_cast<std::size_t>(width)]), sizeof(A),
                             count, width * static_cast<int64_t>(sizeof(A)), pieces - 1);
      write(to + first * out_step, all.get(), count);
    }
  });
}

template <Reduction op, class T>
void reduce_as(const View& out, const View& x) {
  using A = Accumulator<op, T>;
  const Fold<op, T> fold;
  TENDRIL_CHECK_AS(DTypeError, fold.row, name_of(op), ": no cpu kernel for ", x.dtype);
  if (out.numel == 1 && x.contiguous && x.numel < 2 * kPiece) {  // nothing to sort out
    A total = identity<op, T>();
    fold.row(&total, x.as<const char>(), sizeof(T), x.numel);
    *out.as<T>() = convert<T>(total);
    return;
  }
  Axes kept, reduced;
  for (int d = 0; d < x.ndim; ++d) {
    const auto x_step = x.strides[d] * static_cast<int64_t>(sizeof(T));
    const auto out_step = out.strides[d] * static_cast<int64_t>(sizeof(T));
    if (x.sizes[d] == 1) continue;
    if (out.sizes[d] == x.sizes[d]) {
      kept.add(x.sizes[d], x_step, out_step);
    } else {
      reduced.add(x.sizes[d], x_step, 0);
    }
  }
  kept.merge();
  reduced.merge();
  const auto last_step = [](const Axes& axes) { return axes.x_steps[static_cast<std::size_t>(axes.count - 1)]; };
  if (kept.count == 0 || (reduced.count > 0 && last_step(reduced) < last_step(kept))) {
    reduce_rows<op, T>(fold, x.as<const char>(), out.as<char>(), kept, reduced);
  } else {
    reduce_columns<op, T>(fold, x.as<const char>(), out.as<char>(), kept, reduced);
  }
}

template <Reduction op>
void reduce_any_type(const View& out, const View& x) {
  detail::visit(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (x.numel == 0) {
      if (out.numel == 0) return;
      for_each_row<1>(nest_of<1>({&out}), [](char* const* p, const int64_t* s, int64_t count) {
        for (int64_t i = 0; i < count; ++i) *reinterpret_cast<T*>(p[0] + i * s[0]) = convert<T>(identity<op, T>());
      });
      return;
    }
    reduce_as<op, T>(out, x);
  });
}

}  // namespace

void reduce(Reduction op, const View& out, const View& x) {
  switch (op) {
    case Reduction::sum:
      return reduce_any_type<Reduction::sum>(out, x);
    case Reduction::prod:
      return reduce_any_type<Reduction::prod>(out, x);
    case Reduction::max:
      return reduce_any_type<Reduction::max>(out, x);
    case Reduction::min:
      return reduce_any_type<Reduction::min>(out, x);
    case Reduction::all:
      return reduce_any_type<Reduction::all>(out, x);
    case Reduction::any:
      return reduce_any_type<Reduction::any>(out, x);
    case Reduction::count_:
      break;
  }
}

void extremum(bool largest, const View* values, const View* indices, const View& x, int dim) {
  detail::visit(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t length = x.sizes[dim], step = x.strides[dim];
    const auto better = [&](auto candidate, auto seen) {  // NaN wins
      return (largest ? candidate > seen : candidate < seen) || candidate != candidate;
    };
    const FoldRow fold = loops().fold_row[static_cast<std::size_t>(largest ? Reduction::max : Reduction::min)]
                                         [static_cast<std::size_t>(x.dtype)];
    const Compute<T> worst = largest ? identity<Reduction::max, T>() : identity<Reduction::min, T>();
    // A block's best is found without asking where; that is looked up in blocks that have a better one.
    const auto best_of = [&](const T* line) {
      constexpr int64_t kBlock = 256;
      int64_t best = 0;
      Compute<T> seen = worst;
      for (int64_t first = 0; first < length && !(seen != seen); first += kBlock) {
        const int64_t count = std::min(kBlock, length - first);
        Compute<T> top = worst;
        fold(&top, reinterpret_cast<const char*>(line + first * step), step * static_cast<int64_t>(sizeof(T)), count);
        if (!better(top, seen)) continue;
        seen = top;
        for (best = first; load(line + best * step) != top && !(top != top); ++best) {
        }
        while (top != top && !(load(line + best * step) != load(line + best * step))) ++best;
      }
      return best;
    };
    const View& v = values ? *values : *indices;
    const View& n = indices ? *indices : *values;
    share_lines<3>({&x, &v, &n}, dim, length, [&](char* const* at) {
      const T* line = reinterpret_cast<const T*>(at[0]);
      const int64_t best = best_of(line);
      if (values) *reinterpret_cast<T*>(at[1]) = line[best * step];
      if (indices) *reinterpret_cast<int64_t*>(at[2]) = best;
    });
  });
}

void cumsum(const View& out, const View& x, int dim) {
  detail::visit(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, bool>) {
      using A = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
      const int64_t length = x.sizes[dim], from = x.strides[dim], to = out.strides[dim];
      share_lines<2>({&out, &x}, dim, length, [&](char* const* at) {
        T* o = reinterpret_cast<T*>(at[0]);
        const T* line = reinterpret_cast<const T*>(at[1]);
        A total = 0;
        for (int64_t i = 0; i < length; ++i) {
          total += static_cast<A>(load(line + i * from));
          o[i * to] = convert<T>(total);
        }
      });
    } else {
      detail::raise<DTypeError>("cumsum: no cpu kernel for bool");
    }
  });
}

namespace {

void softmax_with(const ByDType<SoftmaxLine>& lines, const char* op, const View& out, const View& x, int dim) {
  const SoftmaxLine line = lines[static_cast<std::size_t>(x.dtype)];
  TENDRIL_CHECK_AS(DTypeError, line, op, ": no cpu kernel for ", x.dtype);
  const int64_t length = x.sizes[dim], from = x.strides[dim], to = out.strides[dim];
  if (out.numel == 0) return;
  share_lines<2>({&out, &x}, dim, 4 * length, [&](char* const* at) { line(at[0], to, at[1], from, length); });
}

}  // namespace

void softmax(const View& out, const View& x, int dim) { softmax_with(loops().softmax, "softmax", out, x, dim); }
void log_softmax(const View& out, const View& x, int dim) {
  softmax_with(loops().log_softmax, "log_softmax", out, x, dim);
}

}  // namespace tendril::cpu
