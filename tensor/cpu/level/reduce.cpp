#include <cmath>

#include "tendril/tensor/cpu/level/halves.h"
#include "tendril/tensor/cpu/level/lanes.h"
#include "tendril/tensor/cpu/level/level.h"
#include "tendril/tensor/scalar_math.h"

namespace tendril::cpu::TENDRIL_CPU_LEVEL {
namespace {

template <Reduction op, class A>
A combine(A a, A x) {
  constexpr Reduction fold = fold_of(op);
  if constexpr (fold == Reduction::sum) {
    if constexpr (std::is_integral_v<A>) {
      return static_cast<A>(static_cast<uint64_t>(a) + static_cast<uint64_t>(x));  // wraps around
    } else {
      return a + x;
    }
  } else if constexpr (fold == Reduction::prod) {
    if constexpr (std::is_integral_v<A>) {
      return static_cast<A>(static_cast<uint64_t>(a) * static_cast<uint64_t>(x));
    } else {
      return a * x;
    }
  } else if constexpr (fold == Reduction::max) {  // x != x: a NaN wins and stays; | has no branch in its way
    return ((x > a) | (x != x)) ? x : a;
  } else if constexpr (fold == Reduction::min) {
    return ((x < a) | (x != x)) ? x : a;
  } else if constexpr (fold == Reduction::all) {
    return a && x;
  } else {
    return a || x;
  }
}

/// What is folded of an element: itself, or what the table has.
template <Reduction op, class T>
T element([[maybe_unused]] T x) {
  using namespace std;
  using namespace scalar_math;
#define TENDRIL_REDUCTION(name, doc, fold, expression, ...) \
  if constexpr (op == Reduction::name) return static_cast<T>(expression);
#include "tendril/tensor/reductions.def"
  return x;
}
/// ... as the accumulator has it.
template <Reduction op, class T>
Accumulator<op, T> taken(T x) {
  return static_cast<Accumulator<op, T>>(element<op>(static_cast<Compute<T>>(x)));
}

using Floats = Lanes<float>::Vector;
using Doubles = Lanes<double>::Vector;
constexpr int64_t kFloats = Lanes<float>::count, kDoubles = Lanes<double>::count;
constexpr int64_t kBlockLanes = 16, kBlockRows = 16, kSumBlock = kBlockLanes * kBlockRows;
/// A long row is read at so many places at once: one alone has too few lines on their way from memory.
constexpr int64_t kPlaces = 8, kPlaceElements = kSumBlock / kPlaces, kApart = 1024;

/// Lanes `lane` and those behind it of a row of 16 numbers that are summed up in float32. Of bfloat16, whose bits are
/// the upper half of a float's, lanes 0 to 7 are the numbers at even places: one instruction each, without shuffles.
template <class T>
Floats floats_at(const T* x, int64_t lane) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    typedef uint32_t Pairs __attribute__((vector_size(kRegisterBytes), aligned(2), may_alias));
    const Pairs pairs = *reinterpret_cast<const Pairs*>(x + lane % 8 * 2);
    return reinterpret_cast<Floats>(lane < 8 ? pairs << 16 : pairs & 0xffff0000u);
  } else if constexpr (std::is_same_v<T, float>) {
    return *reinterpret_cast<const Floats*>(x + lane);
  } else {
    alignas(Floats) float wide[kFloats];
    widen(x + lane, kFloats, wide);
    return *reinterpret_cast<const Floats*>(wide);
  }
}

/// The sums of `rows` numbers each, `kBlockLanes` apart, in pairs.
template <int64_t rows, class T>
[[gnu::always_inline]] inline Floats sum_in_pairs(const T* x, int64_t lane) {
  if constexpr (rows == 1) {
    return floats_at(x, lane);
  } else {
    return sum_in_pairs<rows / 2>(x, lane) + sum_in_pairs<rows / 2>(x + rows / 2 * kBlockLanes, lane);
  }
}

/// ... of a block that is made of rows at `places` places, `apart` from one another.
template <int64_t places, class T>
[[gnu::always_inline]] inline Floats sum_of_places(const T* x, int64_t apart, int64_t lane) {
  if constexpr (places == 1) {
    return sum_in_pairs<kBlockRows / kPlaces>(x, lane);
  } else {
    return sum_of_places<places / 2>(x, apart, lane) + sum_of_places<places / 2>(x + places / 2 * apart, apart, lane);
  }
}

/// The first half of the lanes of Floats as doubles, or the second. (A template, so that Clang passes by the branch
/// that is for other registers.)
template <bool second, class V>
Doubles as_doubles(V v) {
  if constexpr (kFloats == 8) {
    constexpr int k = second ? 4 : 0;
    return __builtin_convertvector(__builtin_shufflevector(v, v, k, k + 1, k + 2, k + 3), Doubles);
  } else {
    constexpr int k = second ? 2 : 0;
    return __builtin_convertvector(__builtin_shufflevector(v, v, k, k + 1), Doubles);
  }
}

/// Adds sums(first lane) to the lanes.
template <class Sums>
[[gnu::always_inline]] inline void add_to_lanes(Doubles* lanes, Sums sums) {
#pragma GCC unroll 4
  for (int64_t i = 0; i < kBlockLanes / kFloats; ++i) {
    const Floats added = sums(i * kFloats);
    lanes[2 * i] += as_doubles<false>(added);
    lanes[2 * i + 1] += as_doubles<true>(added);
  }
}
/// Adds `rows` rows of 16 numbers to their lanes.
template <int64_t rows, class T>
[[gnu::always_inline]] inline void add_rows(Doubles* lanes, const T* x) {
  add_to_lanes(
      lanes, [&](int64_t lane) __attribute__((always_inline)) { return sum_in_pairs<rows>(x, lane); });
}

/// What is folded of `count` numbers: those themselves, or as put into `block`.
template <Reduction op, class T>
auto numbers([[maybe_unused]] float* block, const T* x, [[maybe_unused]] int64_t count) {
  if constexpr (op == fold_of(op)) {
    return x;
  } else {
    widen(x, count, block);
    for (int64_t l = 0; l < count; ++l) block[l] = element<op>(block[l]);
    return static_cast<const float*>(block);
  }
}

/// The sum of whole blocks of what float32 holds, and of the rows behind them. Converting each number to double would
/// take longer than reading it, so 16 at a time are added up in float32, in pairs; what that makes is added in double.
/// The error is at most (1 - 2^-24)^-4 - 1, or 4 * 2^-24 but for terms of second order, of the sum of magnitudes,
/// whatever the length, and 0 for equal numbers. (PyTorch's sums, all in float32, add at least as many of them to one
/// another.) In registers by name: left to itself the compiler splits the 16 lanes so that they go through memory after
/// each row.
template <Reduction op, class T>
double sum_of_rows(const T* x, int64_t rows) {
  Doubles lanes[kBlockLanes / kDoubles] = {};
  float block[kSumBlock];
  if (rows * kBlockLanes >= kPlaces * kApart) {  // places in pages of their own
    const int64_t blocks = rows / kBlockRows, apart = blocks * kPlaceElements;
    for (int64_t i = 0; i < blocks; ++i, x += kPlaceElements) {
      if constexpr (op == fold_of(op)) {
        add_to_lanes(
            lanes, [&](int64_t lane) __attribute__((always_inline)) { return sum_of_places<kPlaces>(x, apart, lane); });
      } else {
        for (int64_t p = 0; p < kPlaces; ++p) {
          numbers<op>(block + p * kPlaceElements, x + p * apart, kPlaceElements);
        }
        add_rows<kBlockRows>(lanes, static_cast<const float*>(block));
      }
    }
    x += (kPlaces - 1) * apart;
    rows -= blocks * kBlockRows;
  }
  for (; rows >= kBlockRows; rows -= kBlockRows, x += kSumBlock) {
    add_rows<kBlockRows>(lanes, numbers<op>(block, x, kSumBlock));
  }
  auto rest = numbers<op>(block, x, rows * kBlockLanes);
  if (rows & 8) add_rows<8>(lanes, rest);
  rest += (rows & 8) * kBlockLanes;
  if (rows & 4) add_rows<4>(lanes, rest);
  rest += (rows & 4) * kBlockLanes;
  if (rows & 2) add_rows<2>(lanes, rest);
  rest += (rows & 2) * kBlockLanes;
  if (rows & 1) add_rows<1>(lanes, rest);
#pragma GCC unroll 4
  for (int64_t i = 0; i < 8 / kDoubles; ++i) lanes[i] += lanes[i + 8 / kDoubles];
#pragma GCC unroll 2
  for (int64_t i = 0; i < 4 / kDoubles; ++i) lanes[i] += lanes[i + 4 / kDoubles];
  const auto at = [&](int64_t l) { return lanes[l / kDoubles][l % kDoubles]; };
  return (at(0) + at(2)) + (at(1) + at(3));
}

constexpr int64_t kLanes = 32;  // enough independent chains to hide the adder's latency

/// Folds the many elements that fill lanes, or blocks; returns how many those were.
template <Reduction op, class T>
[[gnu::always_inline]] inline int64_t fold_lanes(Accumulator<op, T>& total, const T* x, int64_t count) {
  using A = Accumulator<op, T>;
  using C = Compute<T>;
  int64_t i = 0;
  if constexpr (fold_of(op) == Reduction::sum && std::is_same_v<C, float>) {
    if (count >= kSumBlock) {
      const double sum = sum_of_rows<op>(x, count / kBlockLanes);
      if (sum - sum == 0) {  // else a block overflowed, which in double it might not have
        total += sum;
        i = count / kBlockLanes * kBlockLanes;
      }
    }
  }
  if (count - i < 2 * kLanes) return i;
  A lanes[kLanes];
  for (int64_t l = 0; l < kLanes; ++l) lanes[l] = taken<op>(x[i + l]);
  for (i += kLanes; i + kLanes <= count; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] = combine<op>(lanes[l], taken<op>(x[i + l]));
  }
  for (int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (int64_t l = 0; l < width; ++l) lanes[l] = combine<op>(lanes[l], lanes[l + width]);
  }
  total = combine<op>(total, lanes[0]);
  return i;
}

/// Rows whose elements lie together, and are many. Not inline: few elements would pay for its stack frame.
template <Reduction op, class T>
[[gnu::noinline]] void fold_long_rows(Accumulator<op, T>* totals, const char* x, int64_t count, int64_t row_step,
                                      int64_t rows) {
  for (; rows > 0; --rows, x += row_step, ++totals) {
    const T* const row = reinterpret_cast<const T*>(x);
    Accumulator<op, T> total = *totals;
    for (int64_t i = fold_lanes<op, T>(total, row, count); i < count; ++i)
      total = combine<op>(total, taken<op>(row[i]));
    *totals = total;
  }
}

template <Reduction op, class T>
void fold_rows(void* accumulators, const char* x, int64_t step, int64_t count, int64_t row_step, int64_t rows) {
  auto* totals = static_cast<Accumulator<op, T>*>(accumulators);
  if (step == sizeof(T) && count >= 2 * kLanes) return fold_long_rows<op, T>(totals, x, count, row_step, rows);
  for (; rows > 0; --rows, x += row_step, ++totals) {
    Accumulator<op, T> total = *totals;
    for (int64_t i = 0; i < count; ++i) {
      total = combine<op>(total, taken<op>(*reinterpret_cast<const T*>(x + i * step)));
    }
    *totals = total;
  }
}

/// kRows rows at once: each accumulator is loaded and stored once for all of them.
template <Reduction op, class T, int64_t kRows>
void fold_rows_into_columns(Accumulator<op, T>* totals, const char* x, int64_t count, int64_t row_step) {
  using A = Accumulator<op, T>;
#pragma GCC ivdep
  for (int64_t j = 0; j < count; ++j) {
    A total = totals[j];
#pragma GCC unroll 8
    for (int64_t r = 0; r < kRows; ++r) {
      total = combine<op>(total, taken<op>(reinterpret_cast<const T*>(x + r * row_step)[j]));
    }
    totals[j] = total;
  }
}

template <Reduction op, class T>
void fold_columns(void* accumulators, const char* x, int64_t step, int64_t count, int64_t row_step, int64_t rows) {
  using A = Accumulator<op, T>;
  A* totals = static_cast<A*>(accumulators);
  if (step == sizeof(T)) {
    for (; rows >= 8; rows -= 8, x += 8 * row_step) fold_rows_into_columns<op, T, 8>(totals, x, count, row_step);
    for (; rows > 0; --rows, x += row_step) fold_rows_into_columns<op, T, 1>(totals, x, count, row_step);
    return;
  }
  for (; rows > 0; --rows, x += row_step) {
    for (int64_t j = 0; j < count; ++j) {
      totals[j] = combine<op>(totals[j], taken<op>(*reinterpret_cast<const T*>(x + j * step)));
    }
  }
}

/// all and any are over bools; the others over everything else, but that nobody adds up functions of narrow integers
/// (they are made int64 first).
template <Reduction op, class T>
constexpr bool serves() {
  constexpr Reduction fold = fold_of(op);
  constexpr bool logical = op == Reduction::all || op == Reduction::any, is_bool = std::is_same_v<T, bool>;
  if constexpr (fold == Reduction::max || fold == Reduction::min) return op == fold || !is_bool;
  if constexpr (op != fold) return sizeof(T) == 8 || !std::is_integral_v<T>;
  return logical == is_bool;
}
template <Reduction op, class T>
constexpr FoldRows row() {
  if constexpr (serves<op, T>()) {
    return fold_rows<op, T>;
  } else {
    return nullptr;
  }
}
template <Reduction op, class T>
constexpr FoldColumns column() {
  if constexpr (serves<op, T>()) {
    return fold_columns<op, T>;
  } else {
    return nullptr;
  }
}
template <Reduction op>
constexpr ByDType<FoldRows> rows() {
  return {row<op, float>(),   row<op, double>(), row<op, int64_t>(), row<op, int32_t>(),
          row<op, uint8_t>(), row<op, bool>(),   row<op, Half>(),    row<op, BFloat16>()};
}
template <Reduction op>
constexpr ByDType<FoldColumns> columns() {
  return {column<op, float>(),   column<op, double>(), column<op, int64_t>(), column<op, int32_t>(),
          column<op, uint8_t>(), column<op, bool>(),   column<op, Half>(),    column<op, BFloat16>()};
}

/// Subtracting the largest first keeps exp from overflowing. Exponentials are made a block at a time and then added up,
/// both in registers of several: x is read twice, and the result written and read again (logarithm: x read once more).
/// The three steps are always inline, so that a short line is one call.
template <class T>
[[gnu::always_inline]] inline double largest(const void* x, int64_t step, int64_t count) {
  Compute<T> most = -INFINITY;
  fold_rows<Reduction::max, T>(&most, static_cast<const char*>(x), step * static_cast<int64_t>(sizeof(T)), count, 0, 1);
  return static_cast<double>(most);
}

template <class T, bool logarithm>
[[gnu::always_inline]] inline double exponentials(void* to, int64_t out_step, const void* from, int64_t x_step,
                                                  int64_t count, double most) {
  using C = Compute<T>;
  constexpr int64_t kBlock = 512;
  [[maybe_unused]] T* out = static_cast<T*>(to);
  const T* x = static_cast<const T*>(from);
  const C largest = static_cast<C>(most);
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
    fold_rows<Reduction::sum, C>(&sum, reinterpret_cast<const char*>(block), sizeof(C), length, 0, 1);
    if constexpr (!logarithm && std::is_same_v<C, T>) {
      for (int64_t i = 0; i < length; ++i) out[(first + i) * out_step] = block[i];
    }
  }
  return sum;
}

template <class T, bool logarithm>
[[gnu::always_inline]] inline void finish(void* to, int64_t out_step, const void* from, int64_t x_step, int64_t count,
                                          double most, double sum) {
  using C = Compute<T>;
  T* out = static_cast<T*>(to);
  [[maybe_unused]] const T* x = static_cast<const T*>(from);
  [[maybe_unused]] const C largest = static_cast<C>(most);
  if constexpr (logarithm) {
    const C log_sum = static_cast<C>(std::log(sum));
    const auto element = [&](int64_t i, int64_t j) {  // in this order: x - largest is exact where it matters
      out[j] = static_cast<T>((static_cast<C>(x[i]) - largest) - log_sum);
    };
    if (x_step == 1 && out_step == 1) {
#pragma GCC ivdep
      for (int64_t i = 0; i < count; ++i) element(i, i);
    } else {
      for (int64_t i = 0; i < count; ++i) element(i * x_step, i * out_step);
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

template <class T, bool logarithm>
void softmax_line(void* out, int64_t out_step, const void* x, int64_t x_step, int64_t count) {
  const double most = largest<T>(x, x_step, count);
  const double sum = exponentials<T, logarithm>(out, out_step, x, x_step, count, most);
  finish<T, logarithm>(out, out_step, x, x_step, count, most, sum);
}

template <class T, bool logarithm>
constexpr SoftmaxLoops softmax_for = {softmax_line<T, logarithm>, largest<T>, exponentials<T, logarithm>,
                                      finish<T, logarithm>};
template <bool logarithm>
constexpr ByDType<SoftmaxLoops> softmaxes = {{softmax_for<float, logarithm>,
                                              softmax_for<double, logarithm>,
                                              {},
                                              {},
                                              {},
                                              {},
                                              softmax_for<Half, logarithm>,
                                              softmax_for<BFloat16, logarithm>}};

}  // namespace

extern const ByOp<Reduction, FoldRows> fold_rows_loops;
const ByOp<Reduction, FoldRows> fold_rows_loops = {
    rows<Reduction::sum>(), rows<Reduction::prod>(), rows<Reduction::max>(),
    rows<Reduction::min>(), rows<Reduction::all>(),  rows<Reduction::any>(),
#define TENDRIL_REDUCTION(name, ...) rows<Reduction::name>(),
#include "tendril/tensor/reductions.def"
};

extern const ByOp<Reduction, FoldColumns> fold_columns_loops;
const ByOp<Reduction, FoldColumns> fold_columns_loops = {
    columns<Reduction::sum>(), columns<Reduction::prod>(), columns<Reduction::max>(),
    columns<Reduction::min>(), columns<Reduction::all>(),  columns<Reduction::any>(),
#define TENDRIL_REDUCTION(name, ...) columns<Reduction::name>(),
#include "tendril/tensor/reductions.def"
};

extern const ByDType<SoftmaxLoops> softmax_loops;
const ByDType<SoftmaxLoops> softmax_loops = softmaxes<false>;
extern const ByDType<SoftmaxLoops> log_softmax_loops;
const ByDType<SoftmaxLoops> log_softmax_loops = softmaxes<true>;

}  // namespace tendril::cpu::TENDRIL_CPU_LEVEL
