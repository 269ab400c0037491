#include <algorithm>
#include <limits>
#include <numeric>
#include <type_traits>

#include "tendril/tensor/cpu/convert.h"
#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/detail/dispatch.h"

/// What each line along one dimension becomes by itself: its best element, its running sums, its softmax.
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
    // A block's best is found without asking where; that is looked up in blocks that have a better one.
    const auto best_of = [&](const T* line) {
      constexpr int64_t kBlock = 256;
      int64_t best = 0;
      Compute<T> seen = worst;
      for (int64_t first = 0; first < length && !(seen != seen); first += kBlock) {
        const int64_t count = std::min(kBlock, length - first);
        Compute<T> top = worst;
        fold(&top, reinterpret_cast<const char*>(line + first * step), step * static_cast<int64_t>(sizeof(T)), count, 0,
             1);
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
      std::iota(order, order + length, int64_t{0});
      std::sort(order, order + length, [&](int64_t i, int64_t j) {  // not stable_sort, which allocates
        const Compute<T> a = load(line + i * step), b = load(line + j * step);
        if (descending ? less(b, a) : less(a, b)) return true;
        if (descending ? less(a, b) : less(b, a)) return false;
        return i < j;
      });
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
