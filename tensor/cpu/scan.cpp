#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <type_traits>

#include "tendril/tensor/cpu/convert.h"
#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/half_blocks.h"
#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/cpu/pieces.h"
#include "tendril/tensor/cpu/scratch.h"
#include "tendril/tensor/detail/dispatch.h"

/// Running results along a dimension. Floating sums, products and log-sums are kept in double.
///
/// Sums: a long line is divided into tiles. Each sum is the total before its tile plus the sum from the tile's first
/// element on, and the total before the next tile is the last of these. So threads that first add up tiles give the
/// same bits as one thread that writes as it adds (except for the payload of a NaN), and sums of positive numbers never
/// fall. Near the largest float64 a tile may overflow where a sum from the line's beginning would not, and the reverse.
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

/// The other operations go along each line in order, so that products leave the range of double only where those of
/// the elements so far do. Several threads share whole lines. next(element) is the result up to the element; A is the
/// type it works in.
template <class A, class T, class MakeNext>
void along_lines(const View& out, const View& x, int dim, int64_t cost, const MakeNext& make_next) {
  const int64_t length = x.sizes[dim], to = out.strides[dim], from = x.strides[dim];
  share_lines<2>({&out, &x}, dim, cost * length, [&](char* const* pointers) {
    auto next = make_next();
    if constexpr (is_half_type<T>) {
      const auto unit = static_cast<int64_t>(sizeof(T));
      const int64_t steps[] = {to * unit, from * unit};
      in_blocks_of_float<T, 1>(pointers, steps, length, [&](auto& blocks, int64_t some) {
        for (int64_t i = 0; i < some; ++i) blocks[0][i] = static_cast<float>(next(static_cast<A>(blocks[0][i])));
      });
    } else {
      T* const o = reinterpret_cast<T*>(pointers[0]);
      const T* const in = reinterpret_cast<const T*>(pointers[1]);
      for (int64_t i = 0; i < length; ++i) o[i * to] = convert<T>(next(static_cast<A>(in[i * from])));
    }
  });
}

template <class T>
void running_products(const View& out, const View& x, int dim) {
  using A = typename RunningSum<T>::A;
  along_lines<A, T>(out, x, dim, 1, [] { return [product = A(1)](A value) mutable { return product *= value; }; });
}

/// log(sum(e^x)) = largest + log(1 + others), where `others` is the sum of e^(x - largest) without the largest itself:
/// small terms are not lost beside the 1.
struct LogSum {
  double largest = -std::numeric_limits<double>::infinity(), others = -1;  ///< of no elements: log(0)

  double operator()(double x) {
    if (x == largest) {  // infinities too, whose difference is NaN
      others += 1;
    } else if (x > largest || x != x) {
      others = (1 + others) * std::exp(largest - x);
      largest = x;
    } else {
      others += std::exp(x - largest);
    }
    return largest + std::log1p(others);
  }
};

template <bool largest, class T>
void running_extrema(const View& out, const View& indices, const View& x, int dim) {
  const int64_t length = x.sizes[dim], to = out.strides[dim], place = indices.strides[dim], from = x.strides[dim];
  share_lines<3>({&out, &indices, &x}, dim, length, [&](char* const* pointers) {
    T* const o = reinterpret_cast<T*>(pointers[0]);
    auto* const n = reinterpret_cast<int64_t*>(pointers[1]);
    const T* const in = reinterpret_cast<const T*>(pointers[2]);
    T best = in[0];
    auto best_value = static_cast<Compute<T>>(best);
    int64_t at = 0;
    for (int64_t i = 0; i < length; ++i) {
      const T element = in[i * from];
      const auto value = static_cast<Compute<T>>(element);
      if ((largest ? value >= best_value : value <= best_value) || value != value) {
        best = element;
        best_value = value;
        at = i;
      }
      o[i * to] = best;
      n[i * place] = at;
    }
  });
}

/// Calls f with the type of a number; refuses bool, and integers unless they are served.
template <bool integers, class F>
void visit_numbers(const char* op, DType dtype, const F& f) {
  detail::visit(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_floating_point_v<Compute<T>> || (integers && !std::is_same_v<T, bool>)) {
      f(tag);
    } else {
      detail::raise<DTypeError>(op, ": no cpu kernel for ", dtype);
    }
  });
}

}  // namespace

void scan(Scan op, const View& out, const View* indices, const View& x, int dim) {
  switch (op) {
    case Scan::sum:
      return visit_numbers<true>(name_of(op), x.dtype,
                                 [&]<class T>(detail::TypeTag<T>) { running_sums<T>(out, x, dim); });
    case Scan::prod:
      return visit_numbers<true>(name_of(op), x.dtype, [&]<class T>(detail::TypeTag<T>) {
        if (x.numel > 0) running_products<T>(out, x, dim);
      });
    case Scan::max:
    case Scan::min:
      return detail::visit(x.dtype, [&]<class T>(detail::TypeTag<T>) {
        if (x.numel == 0) return;
        op == Scan::max ? running_extrema<true, T>(out, *indices, x, dim)
                        : running_extrema<false, T>(out, *indices, x, dim);
      });
    case Scan::logsumexp:
      return visit_numbers<false>(name_of(op), x.dtype, [&]<class T>(detail::TypeTag<T>) {
        if (x.numel > 0) along_lines<double, T>(out, x, dim, 4 * kExponentialCost, [] { return LogSum(); });
      });
  }
}

void recurrence(const View& out, const View& a, const View& b, int dim) {
  visit_numbers<false>("recurrence", b.dtype, [&]<class T>(detail::TypeTag<T>) {
    if (b.numel == 0) return;
    const int64_t length = b.sizes[dim], to = out.strides[dim], factor = a.strides[dim], summand = b.strides[dim];
    share_lines<3>({&out, &a, &b}, dim, length, [&](char* const* pointers) {
      T* const o = reinterpret_cast<T*>(pointers[0]);
      const T* const factors = reinterpret_cast<const T*>(pointers[1]);
      const T* const summands = reinterpret_cast<const T*>(pointers[2]);
      const auto wide = [](T value) { return static_cast<double>(static_cast<Compute<T>>(value)); };
      double sum = wide(summands[0]);
      o[0] = convert<T>(sum);
      for (int64_t i = 1; i < length; ++i) {
        sum = wide(summands[i * summand]) + wide(factors[i * factor]) * sum;
        o[i * to] = convert<T>(sum);
      }
    });
  });
}

}  // namespace tendril::cpu
