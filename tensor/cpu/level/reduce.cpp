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
  } else if constexpr (op == Reduction::max) {  // x != x: a NaN wins and stays; | has no branch in its way
    return (x > a) | (x != x) ? x : a;
  } else if constexpr (op == Reduction::min) {
    return (x < a) | (x != x) ? x : a;
  } else if constexpr (op == Reduction::all) {
    return a && x;
  } else {
    return a || x;
  }
}

/// The sum of `rows` numbers, `kBlockLanes` apart, in pairs.
constexpr int64_t kBlockLanes = 16, kBlockRows = 16;
template <int64_t rows, class T>
float sum_in_pairs(const T* x) {
  if constexpr (rows == 1) {
    return static_cast<float>(*x);
  } else {
    return sum_in_pairs<rows / 2>(x) + sum_in_pairs<rows / 2>(x + rows / 2 * kBlockLanes);
  }
}

/// The sum of whole blocks of what float32 holds. Converting each number to double would take longer than reading it,
/// so 16 at a time are added up in float32, in pairs; what that makes is added in double. The error is at most (1 -
/// 2^-24)^-4 - 1, or 4 * 2^-24 but for terms of second order, of the sum of magnitudes, whatever the length, and 0 for
/// equal numbers. (PyTorch's sums, all in float32, add at least as many of them to one another.)
template <class T>
double sum_of_blocks(const T* x, int64_t blocks) {
  double lanes[kBlockLanes] = {};
  for (; blocks > 0; --blocks, x += kBlockLanes * kBlockRows) {
    float sums[kBlockLanes];
    for (int64_t l = 0; l < kBlockLanes; ++l) sums[l] = sum_in_pairs<kBlockRows>(x + l);
    for (int64_t l = 0; l < kBlockLanes; ++l) lanes[l] += static_cast<double>(sums[l]);
  }
  // Loops of constant lengths stay in registers.
  for (int64_t l = 0; l < 8; ++l) lanes[l] += lanes[l + 8];
  for (int64_t l = 0; l < 4; ++l) lanes[l] += lanes[l + 4];
  return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

constexpr int64_t kLanes = 32;  // enough independent chains to hide the adder's latency

/// Folds the many elements that fill lanes, or blocks; returns how many those were. Not inline: few elements would pay
/// for its stack frame.
template <Reduction op, class T>
[[gnu::noinline]] int64_t fold_lanes(Accumulator<op, T>& total, const T* x, int64_t count) {
  using A = Accumulator<op, T>;
  using C = Compute<T>;
  int64_t i = 0;
  if constexpr (op == Reduction::sum && std::is_same_v<C, float>) {
    constexpr int64_t kBlock = kBlockLanes * kBlockRows;
    if (count >= kBlock) {
      const double sum = sum_of_blocks(x, count / kBlock);
      if (sum - sum == 0) {  // else a block overflowed, which in double it might not have
        total += sum;
        i = count / kBlock * kBlock;
      }
    }
  }
  if (count - i < 2 * kLanes) return i;
  A lanes[kLanes];
  for (int64_t l = 0; l < kLanes; ++l) lanes[l] = static_cast<A>(static_cast<C>(x[i + l]));
  for (i += kLanes; i + kLanes <= count; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] = combine<op>(lanes[l], static_cast<A>(static_cast<C>(x[i + l])));
  }
  for (int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (int64_t l = 0; l < width; ++l) lanes[l] = combine<op>(lanes[l], lanes[l + width]);
  }
  total = combine<op>(total, lanes[0]);
  return i;
}

template <Reduction op, class T>
void fold_row(void* accumulator, const char* x, int64_t step, int64_t count) {
  using A = Accumulator<op, T>;
  using C = Compute<T>;
  A& total = *static_cast<A*>(accumulator);
  const bool contiguous = step == sizeof(T);
  int64_t i = contiguous && count >= 2 * kLanes ? fold_lanes<op, T>(total, reinterpret_cast<const T*>(x), count) : 0;
  for (; i < count; ++i) {
    total = combine<op>(total, static_cast<A>(static_cast<C>(*reinterpret_cast<const T*>(x + i * step))));
  }
}

/// kRows rows at once: each accumulator is loaded and stored once for all of them.
template <Reduction op, class T, int64_t kRows>
void fold_rows_into_columns(Accumulator<op, T>* totals, const char* x, int64_t count, int64_t row_step) {
  using A = Accumulator<op, T>;
  using C = Compute<T>;
#pragma GCC ivdep
  for (int64_t j = 0; j < count; ++j) {
    A total = totals[j];
#pragma GCC unroll 8
    for (int64_t r = 0; r < kRows; ++r) {
      total = combine<op>(total, static_cast<A>(static_cast<C>(reinterpret_cast<const T*>(x + r * row_step)[j])));
    }
    totals[j] = total;
  }
}

template <Reduction op, class T>
void fold_columns(void* accumulators, const char* x, int64_t step, int64_t count, int64_t row_step, int64_t rows) {
  using A = Accumulator<op, T>;
  using C = Compute<T>;
  A* totals = static_cast<A*>(accumulators);
  if (step == sizeof(T)) {
    for (; rows >= 8; rows -= 8, x += 8 * row_step) fold_rows_into_columns<op, T, 8>(totals, x, count, row_step);
    for (; rows > 0; --rows, x += row_step) fold_rows_into_columns<op, T, 1>(totals, x, count, row_step);
    return;
  }
  for (; rows > 0; --rows, x += row_step) {
    for (int64_t j = 0; j < count; ++j) {
      totals[j] = combine<op>(totals[j], static_cast<A>(static_cast<C>(*reinterpret_cast<const T*>(x + j * step))));
    }
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

/// Subtracting the largest first keeps exp from overflowing. Exponentials are made a block at a time and then added up,
/// both in registers of several: x is read twice, and the result written and read again (logarithm: x read once more).
template <class T, bool logarithm>
void softmax_line(void* to, int64_t out_step, const void* from, int64_t x_step, int64_t count) {
  using C = Compute<T>;
  constexpr int64_t kBlock = 512;
  T* out = static_cast<T*>(to);
  const T* x = static_cast<const T*>(from);
  C largest = -INFINITY;
  fold_row<Reduction::max, T>(&largest, reinterpret_cast<const char*>(x), x_step * static_cast<int64_t>(sizeof(T)),
                              count);
  double sum = 0;
  C block[kBlock];
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t length = count - first < kBlock ? count - first : kBlock;
    const T* const part = x + first * x_step;
    if (x_step == 1) {
#pragma GCC ivdep
      for (int64_t i = 0; i < length; ++i) block[i] = scalar_math::exponential(static_cast<C>(part[i]) - largest);
    } else {
      for (int64_t i = 0; i < length; ++i) {
        block[i] = scalar_math::exponential(static_cast<C>(part[i * x_step]) - largest);
      }
    }
    fold_row<Reduction::sum, C>(&sum, reinterpret_cast<const char*>(block), sizeof(C), length);
    if constexpr (!logarithm && std::is_same_v<C, T>) {
      for (int64_t i = 0; i < length; ++i) out[(first + i) * out_step] = block[i];
    }
  }
  if constexpr (logarithm) {
    const C log_sum = static_cast<C>(std::log(sum));
    const auto finish = [&](int64_t i, int64_t j) {  // in this order: x - largest is exact where it matters
      out[j] = static_cast<T>((static_cast<C>(x[i]) - largest) - log_sum);
    };
    if (x_step == 1 && out_step == 1) {
#pragma GCC ivdep
      for (int64_t i = 0; i < count; ++i) finish(i, i);
    } else {
      for (int64_t i = 0; i < count; ++i) finish(i * x_step, i * out_step);
    }
  } else if constexpr (std::is_same_v<C, T>) {
    const C scale = static_cast<C>(1 / sum);
    if (out_step == 1) {
      for (int64_t i = 0; i < count; ++i) out[i] *= scale;
    } else {
      for (int64_t i = 0; i < count; ++i) out[i * out_step] *= scale;
    }
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
