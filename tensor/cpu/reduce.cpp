#include <algorithm>
#include <limits>

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
  /// Runs `body(x, out)` at every index.
  template <class Body>
  void for_each(const char* x, char* out, Body&& body) const {
    std::array<int64_t, Dims::kMaxDims> index{};
    while (true) {
      body(x, out);
      int d = count - 1;
      for (; d >= 0; --d) {
        const auto i = static_cast<std::size_t>(d);
        x += x_steps[i];
        out += out_steps[i];
        if (++index[i] < sizes[i]) break;
        x -= x_steps[i] * sizes[i];
        out -= out_steps[i] * sizes[i];
        index[i] = 0;
      }
      if (d < 0) return;
    }
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

template <Reduction op, class T>
void reduce_as(const View& out, const View& x) {
  using A = Accumulator<op, T>;
  const FoldRow fold_row = loops().fold_row[static_cast<std::size_t>(op)][static_cast<std::size_t>(x.dtype)];
  const FoldColumns fold_columns =
      loops().fold_columns[static_cast<std::size_t>(op)][static_cast<std::size_t>(x.dtype)];
  TENDRIL_CHECK_AS(DTypeError, fold_row, name_of(op), ": no cpu kernel for ", x.dtype);
  if (out.numel == 1 && x.contiguous) {  // all to one: nothing to sort out
    A total = identity<op, T>();
    fold_row(&total, x.as<const char>(), sizeof(T), x.numel);
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

  const bool by_row =
      kept.count == 0 || (reduced.count > 0 && reduced.x_steps[static_cast<std::size_t>(reduced.count - 1)] <
                                                   kept.x_steps[static_cast<std::size_t>(kept.count - 1)]);
  if (by_row) {
    int64_t size, step, unused;
    reduced.take_inner(size, step, unused);
    kept.for_each(x.as<const char>(), out.as<char>(), [&](const char* from, char* to) {
      A total = identity<op, T>();
      reduced.for_each(from, nullptr, [&](const char* row, char*) { fold_row(&total, row, step, size); });
      *reinterpret_cast<T*>(to) = convert<T>(total);
    });
    return;
  }
  constexpr int64_t kAccumulators = 256;  // accumulators that stay in the first cache
  int64_t size, x_step, out_step;
  kept.take_inner(size, x_step, out_step);
  kept.for_each(x.as<const char>(), out.as<char>(), [&](const char* from, char* to) {
    for (int64_t first = 0; first < size; first += kAccumulators) {
      const int64_t count = std::min(kAccumulators, size - first);
      std::array<A, kAccumulators> totals;
      std::fill_n(totals.begin(), count, identity<op, T>());
      reduced.for_each(from + first * x_step, nullptr,
                       [&](const char* row, char*) { fold_columns(totals.data(), row, x_step, count); });
      for (int64_t j = 0; j < count; ++j) {
        *reinterpret_cast<T*>(to + (first + j) * out_step) = convert<T>(totals[static_cast<std::size_t>(j)]);
      }
    }
  });
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
    const auto best_of = [&](const T* line) {
      int64_t best = 0;
      auto seen = load(line);
      for (int64_t i = 1; i < length && !(seen != seen); ++i) {
        const auto candidate = load(line + i * step);
        if ((largest ? candidate > seen : candidate < seen) || candidate != candidate) {
          best = i;
          seen = candidate;
        }
      }
      return best;
    };
    const View& v = values ? *values : *indices;
    const View& n = indices ? *indices : *values;
    for_each_line<3>({&x, &v, &n}, dim, [&](char* const* at) {
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
      for_each_line<2>({&out, &x}, dim, [&](char* const* at) {
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
  for_each_line<2>({&out, &x}, dim, [&](char* const* at) { line(at[0], to, at[1], from, length); });
}

}  // namespace

void softmax(const View& out, const View& x, int dim) { softmax_with(loops().softmax, "softmax", out, x, dim); }
void log_softmax(const View& out, const View& x, int dim) {
  softmax_with(loops().log_softmax, "log_softmax", out, x, dim);
}

}  // namespace tendril::cpu
