#include <cmath>

#include "tendril/tensor/cpu/level/level.h"
#include "tendril/tensor/scalar_math.h"

namespace tendril::cpu::TENDRIL_CPU_LEVEL {
namespace {

template <Reduction op, class A>
A combine(A a, A x) {
  if constexpr (op == Reduction::sum) {
    if constexpr (std::is_integral_v<A>) {
      return static_cast<A>(static_cast<uint64_t>(a) + static_cast<uint64_t>(x));  // wraps around
    } else {
      return a + x;
    }
  } else if constexpr (op == Reduction::prod) {
    if constexpr (std::is_integral_v<A>) {
      return static_cast<A>(static_cast<uint64_t>(a) * static_cast<uint64_t>(x));
    } else {
      return a * x;
    }
  } else if constexpr (op == Reduction::max) {  // x != x: a NaN wins and stays
    return x > a || x != x ? x : a;
  } else if constexpr (op == Reduction::min) {
    return x < a || x != x ? x : a;
  } else if constexpr (op == Reduction::all) {
    return a && x;
  } else {
    return a || x;
  }
}

template <Reduction op, class T>
void fold_row(void* accumulator, const char* x, int64_t step, int64_t count) {
  using A = Accumulator<op, T>;
  using C = Compute<T>;
  A& total = *static_cast<A*>(accumulator);
  if (step != sizeof(T)) {
    for (int64_t i = 0; i < count; ++i) {
      total = combine<op>(total, static_cast<A>(static_cast<C>(*reinterpret_cast<const T*>(x + i * step))));
    }
    return;
  }
  const T* data = reinterpret_cast<const T*>(x);
  constexpr int64_t kLanes = 16;  // enough independent chains to hide the adder's latency
  int64_t i = 0;
  if (count >= 2 * kLanes) {
    A lanes[kLanes];
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] = static_cast<A>(static_cast<C>(data[l]));
    for (i = kLanes; i + kLanes <= count; i += kLanes) {
      for (int64_t l = 0; l < kLanes; ++l)
        lanes[l] = combine<op>(lanes[l], static_cast<A>(static_cast<C>(data[i + l])));
    }
    for (int64_t width = kLanes / 2; width > 0; width /= 2) {
      for (int64_t l = 0; l < width; ++l) lanes[l] = combine<op>(lanes[l], lanes[l + width]);
    }
    total = combine<op>(total, lanes[0]);
  }
  for (; i < count; ++i) total = combine<op>(total, static_cast<A>(static_cast<C>(data[i])));
}

template <Reduction op, class T>
void fold_columns(void* accumulators, const char* x, int64_t step, int64_t count) {
  using A = Accumulator<op, T>;
  using C = Compute<T>;
  A* totals = static_cast<A*>(accumulators);
  if (step == sizeof(T)) {
    const T* data = reinterpret_cast<const T*>(x);
#pragma GCC ivdep
    for (int64_t j = 0; j < count; ++j) totals[j] = combine<op>(totals[j], static_cast<A>(static_cast<C>(data[j])));
    return;
  }
  for (int64_t j = 0; j < count; ++j) {
    totals[j] = combine<op>(totals[j], static_cast<A>(static_cast<C>(*reinterpret_cast<const T*>(x + j * step))));
  }
}

/// all and any are over bools; the others over everything else.
template <Reduction op, class T, class F>
constexpr F served(F function) {
  constexpr bool logical = op == Reduction::all || op == Reduction::any;
  return logical == std::is_same_v<T, bool> || op == Reduction::max || op == Reduction::min ? function : nullptr;
}
template <Reduction op>
constexpr ByDType<FoldRow> rows() {
  return {served<op, float>(fold_row<op, float>),     served<op, double>(fold_row<op, double>),
          served<op, int64_t>(fold_row<op, int64_t>), served<op, int32_t>(fold_row<op, int32_t>),
          served<op, uint8_t>(fold_row<op, uint8_t>), served<op, bool>(fold_row<op, bool>),
          served<op, Half>(fold_row<op, Half>),       served<op, BFloat16>(fold_row<op, BFloat16>)};
}
template <Reduction op>
constexpr ByDType<FoldColumns> columns() {
  return {served<op, float>(fold_columns<op, float>),     served<op, double>(fold_columns<op, double>),
          served<op, int64_t>(fold_columns<op, int64_t>), served<op, int32_t>(fold_columns<op, int32_t>),
          served<op, uint8_t>(fold_columns<op, uint8_t>), served<op, bool>(fold_columns<op, bool>),
          served<op, Half>(fold_columns<op, Half>),       served<op, BFloat16>(fold_columns<op, BFloat16>)};
}

/// Subtracting the largest first keeps exp from overflowing.
template <class T, bool logarithm>
void softmax_line(void* to, int64_t out_step, const void* from, int64_t x_step, int64_t count) {
  using C = Compute<T>;
  T* out = static_cast<T*>(to);
  const T* x = static_cast<const T*>(from);
  C largest = -INFINITY;
  for (int64_t i = 0; i < count; ++i) largest = combine<Reduction::max>(largest, static_cast<C>(x[i * x_step]));
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const C e = scalar_math::exponential(static_cast<C>(x[i * x_step]) - largest);
    sum += static_cast<double>(e);
    if constexpr (!logarithm && std::is_same_v<C, T>) out[i * out_step] = e;
  }
  if constexpr (logarithm) {
    const C log_sum = static_cast<C>(std::log(sum));
    for (int64_t i = 0; i < count; ++i) {  // in this order: x - largest is exact where it matters
      out[i * out_step] = static_cast<T>((static_cast<C>(x[i * x_step]) - largest) - log_sum);
    }
  } else if constexpr (std::is_same_v<C, T>) {
    const C scale = static_cast<C>(1 / sum);
    for (int64_t i = 0; i < count; ++i) out[i * out_step] *= scale;
  } else {  // a half type would round twice
    const C scale = static_cast<C>(1 / sum);
    for (int64_t i = 0; i < count; ++i) {
      out[i * out_step] = static_cast<T>(scalar_math::exponential(static_cast<C>(x[i * x_step]) - largest) * scale);
    }
  }
}

}  // namespace

extern const ByOp<Reduction, FoldRow> fold_row_loops;
const ByOp<Reduction, FoldRow> fold_row_loops = {rows<Reduction::sum>(), rows<Reduction::prod>(),
                                                 rows<Reduction::max>(), rows<Reduction::min>(),
                                                 rows<Reduction::all>(), rows<Reduction::any>()};

extern const ByOp<Reduction, FoldColumns> fold_columns_loops;
const ByOp<Reduction, FoldColumns> fold_columns_loops = {columns<Reduction::sum>(), columns<Reduction::prod>(),
                                                         columns<Reduction::max>(), columns<Reduction::min>(),
                                                         columns<Reduction::all>(), columns<Reduction::any>()};

extern const ByDType<SoftmaxLine> softmax_lines;
const ByDType<SoftmaxLine> softmax_lines = {
    softmax_line<float, false>, softmax_line<double, false>,  nullptr, nullptr, nullptr, nullptr,
    softmax_line<Half, false>,  softmax_line<BFloat16, false>};
extern const ByDType<SoftmaxLine> log_softmax_lines;
const ByDType<SoftmaxLine> log_softmax_lines = {
    softmax_line<float, true>, softmax_line<double, true>,  nullptr, nullptr, nullptr, nullptr,
    softmax_line<Half, true>,  softmax_line<BFloat16, true>};

}  // namespace tendril::cpu::TENDRIL_CPU_LEVEL
