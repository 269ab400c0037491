#include <algorithm>
#include <limits>
#include <numeric>

#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/cpu/pieces.h"
#include "tendril/tensor/detail/dispatch.h"

/// What each line along one dimension becomes by itself: its best element, its order, its softmax.
namespace tendril::cpu {

void extremum(bool largest, const View* values, const View* indices, const View& x, int dim) {
  detail::visit(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t length = x.sizes[dim], step = x.strides[dim];
    const auto better = [&](auto candidate, auto seen) {  // NaN wins
      return (largest ? candidate > seen : candidate < seen) || candidate != candidate;
    };
    const FoldRows fold = loops().fold_rows[static_cast<std::size_t>(largest ? Reduction::max : Reduction::min)]
                                           [static_cast<std::size_t>(x.dtype)];
    using Limits = std::numeric_limits<Compute<T>>;
    const Compute<T> lowest = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    const Compute<T> worst = largest ? lowest : Limits::has_infinity ? Limits::infinity() : Limits::max();
    // Lines from memory are asked for two blocks ahead: the processor forgets its guess while a place is looked up.
    // (350 for 430 ns a line of 1024; from a near cache it costs 290 for 240.)
    const bool ahead_of_use = step == 1 && x.numel * static_cast<int64_t>(sizeof(T)) > (int64_t{1} << 20);
    // The best is found block by block without asking where; its place is looked up in its block, once.
    const auto best_in = [&](const T* line, int64_t begin, int64_t end) {
      constexpr int64_t kBlock = 512, kStretch = 64;
      int64_t best = begin;
      Compute<T> seen = worst;
      for (int64_t first = begin; first < end && !(seen != seen); first += kBlock) {
        if (ahead_of_use) {
          const char* ahead = reinterpret_cast<const char*>(line + first + 2 * kBlock);
          for (int64_t k = 0; k < kBlock * static_cast<int64_t>(sizeof(T)); k += 64) __builtin_prefetch(ahead + k);
        }
        Compute<T> top = worst;
        fold(&top, reinterpret_cast<const char*>(line + first * step), step * static_cast<int64_t>(sizeof(T)),
             std::min(kBlock, end - first), 0, 1);
        if (better(top, seen)) seen = top, best = first;
      }
      const bool is_nan = seen != seen;
      const auto is_best = [&](int64_t i) {  // | has no branch in its way
        const Compute<T> e = load(line + i * step);
        return (e == seen) | ((e != e) & is_nan);
      };
      for (int found = 0; best + kStretch <= end; best += kStretch) {  // a stretch without it is passed at once
        for (int64_t i = 0; i < kStretch; ++i) found |= is_best(best + i);
        if (found != 0) break;
      }
      while (!is_best(best)) ++best;
      return best;
    };
    const Pieces pieces(length);
    const auto best_of = [&](const T* line) {
      if (pieces.count() < 2) return best_in(line, 0, length);
      const auto found =
          pieces.of_each<int64_t>([&](int64_t begin, int64_t count) { return best_in(line, begin, begin + count); });
      int64_t best = found[0];
      for (std::size_t i = 1; i < static_cast<std::size_t>(pieces.count()); ++i) {
        const Compute<T> seen = load(line + best * step);
        if (seen != seen) break;
        if (better(load(line + found[i] * step), seen)) best = found[i];
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

void sort_places(const View& places, const View& x, bool descending) {
  if (x.numel == 0) return;
  const int dim = x.ndim - 1;
  detail::visit(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t length = x.sizes[dim], step = x.strides[dim];
    constexpr int64_t kCost = 30;  // of an element, in those of a sum
    share_lines<2>({&places, &x}, dim, kCost * length, [&](char* const* at) {
      int64_t* const order = reinterpret_cast<int64_t*>(at[0]);
      const T* const line = reinterpret_cast<const T*>(at[1]);
      const auto less = [](Compute<T> a, Compute<T> b) { return a < b || (b != b && a == a); };
      const auto before = [&](int64_t i, int64_t j) {
        const Compute<T> a = load(line + i * step), b = load(line + j * step);
        if (descending ? less(b, a) : less(a, b)) return true;
        if (descending ? less(a, b) : less(b, a)) return false;
        return i < j;
      };
      std::iota(order, order + length, int64_t{0});
      // Of few lines, halves of halves, as many as threads can sort at a time, which are then merged; there is one
      // result.
      int64_t parts = 1;
      while (2 * parts * (x.numel / length) <= num_threads() && length / (2 * parts) >= kParallelGrain / 2) parts *= 2;
      const auto place = [&](int64_t part) { return order + length * part / parts; };
      parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) std::sort(place(i), place(i + 1), before);
      });
      for (int64_t sorted = 1; sorted < parts; sorted *= 2) {
        parallel_for(parts / (2 * sorted), 1, [&](int64_t begin, int64_t end) {
          for (int64_t i = 2 * sorted * begin; i < 2 * sorted * end; i += 2 * sorted)
            std::inplace_merge(place(i), place(i + sorted), place(i + 2 * sorted), before);
        });
      }
    });
  });
}

namespace {

void softmax_with(const ByDType<SoftmaxLoops>& all, const char* op, const View& out, const View& x, int dim) {
  const SoftmaxLoops& loop = all[static_cast<std::size_t>(x.dtype)];
  TENDRIL_CHECK_AS(DTypeError, loop.line, op, ": no cpu kernel for ", x.dtype);
  const int64_t length = x.sizes[dim], from = x.strides[dim], to = out.strides[dim];
  if (out.numel == 0) return;
  const Pieces pieces(length, kExponentialCost);
  if (pieces.count() < 2) {
    return share_lines<2>(
        {&out, &x}, dim, kExponentialCost * length,
        [line = loop.line, length, from, to](char* const* at) { line(at[0], to, at[1], from, length); });
  }
  share_lines<2>({&out, &x}, dim, kExponentialCost * length, [&](char* const* at) {
    const auto element = static_cast<int64_t>(size_of(x.dtype));
    const auto out_at = [&](int64_t i) { return at[0] + i * to * element; };
    const auto x_at = [&](int64_t i) { return at[1] + i * from * element; };
    const double most =
        pieces.largest([&](int64_t begin, int64_t count) { return loop.largest(x_at(begin), from, count); });
    const double sum = pieces.sum([&](int64_t begin, int64_t count) {
      return loop.exponentials(out_at(begin), to, x_at(begin), from, count, most);
    });
    pieces.run(
        [&](int64_t begin, int64_t count) { loop.finish(out_at(begin), to, x_at(begin), from, count, most, sum); });
  });
}

}  // namespace

void softmax(const View& out, const View& x, int dim) { softmax_with(loops().softmax, "softmax", out, x, dim); }
void log_softmax(const View& out, const View& x, int dim) {
  softmax_with(loops().log_softmax, "log_softmax", out, x, dim);
}

}  // namespace tendril::cpu
