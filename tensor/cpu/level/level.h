#pragma once

#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "tendril/tensor/dtype.h"
#include "tendril/tensor/kernels.h"

/// The innermost loops. The files of this folder are compiled once for every machine (level `base`) and again for newer
/// ones (CMakeLists.txt); the processor picks at start-up. Everything that is not a plain loop (dispatch, odometers,
/// errors) is outside and compiled once.
///
/// Code here lives in `namespace tendril::cpu::TENDRIL_CPU_LEVEL` and calls nothing inline from elsewhere but
/// arithmetic: an inline function compiled for a newer machine could be the copy that the linker keeps for all. A test
/// looks.
#ifndef TENDRIL_CPU_LEVEL
#define TENDRIL_CPU_LEVEL base
#endif

namespace tendril::cpu {

/// Operand k starts at `pointers[k]` and advances by `steps[k]` bytes; operand 0 is the output. The pointer behind the
/// last operand's is to the number (a double) of an operation that has one.
using Loop = void (*)(char* const* pointers, const int64_t* steps, int64_t count);
/// Folds each of `rows` rows, `row_step` bytes apart, of `count` elements, `step` bytes apart, into an accumulator of
/// its own.
using FoldRows = void (*)(void* accumulators, const char* x, int64_t step, int64_t count, int64_t row_step,
                          int64_t rows);
/// Folds element j of each row, in order, into accumulator j, for `count` of them; rows lie `row_step` bytes apart.
using FoldColumns = void (*)(void* accumulators, const char* x, int64_t step, int64_t count, int64_t row_step,
                             int64_t rows);
/// Softmax of a line, or its logarithm; steps in elements.
struct SoftmaxLoops {
  /// out[i * out_step] = that of x
  void (*line)(void* out, int64_t out_step, const void* x, int64_t x_step, int64_t count);
  /// The same in three steps, of which each may go over a line in pieces. The largest element; a NaN is.
  double (*largest)(const void* x, int64_t step, int64_t count);
  /// The sum of e^(x - largest); `out` may be written to, for the last step.
  double (*exponentials)(void* out, int64_t out_step, const void* x, int64_t x_step, int64_t count, double largest);
  /// out, with the sum over the whole line
  void (*finish)(void* out, int64_t out_step, const void* x, int64_t x_step, int64_t count, double largest, double sum);
};

/// One [m, k] by [k, n] product; strides in elements, `row` from row to row, `column` within one.
struct Gemm {
  int64_t m, n, k;
  const void* a;
  int64_t a_row, a_column;
  const void* b;
  int64_t b_row, b_column;
  void* out;
  int64_t out_row, out_column;
  bool accumulate = false;  ///< add to what is in `out`
};

/// Products with one b that is packed once, for a that comes in few rows at a time. An element's bits depend on its row
/// of a alone, not on the others.
struct PackedProduct {
  int64_t (*bytes)(int64_t k, int64_t n);          ///< of a packed b; it lies at a multiple of 64
  void (*pack)(const Gemm& g, void* packed);       ///< g.b, of a product with k and n
  void (*run)(const Gemm& g, const void* packed);  ///< instead of g.b; columns of a and out lie together
};

/// Lines of scores; steps in elements.
struct CrossEntropyLoops {
  /// The largest element, and the logarithm of the sum of e^(x - largest).
  void (*log_sum_exp)(const void* x, int64_t step, int64_t count, void* largest, void* log_sum);
  /// Both for a piece of a line: its largest element, and the sum of e^(x - largest) with the line's.
  double (*largest)(const void* x, int64_t step, int64_t count);
  double (*exponentials)(const void* x, int64_t step, int64_t count, double largest);
  /// out = -share e^((x - largest) - log_sum)
  void (*backward)(void* out, int64_t out_step, const void* x, int64_t x_step, int64_t count, const void* largest,
                   const void* log_sum, const void* share);
};

/// Of some numbers: how many, their mean, and the sum of their squared differences from it.
struct Moments {
  double count = 0, mean = 0, squares = 0;
};

/// A channel's row of `count` elements, for batch normalisation. Sums are added to, and kept in double.
struct ChannelLoops {
  void (*moments)(const void* x, int64_t count, Moments* all);  ///< takes the row in; x is read from memory once
  /// of g to sums[0], of g (x - mean) to sums[1]
  void (*products)(const void* g, const void* x, double mean, int64_t count, double* sums);
  /// out = (x - mean) scale + shift
  void (*affine)(void* out, const void* x, double mean, double scale, double shift, int64_t count);
  /// out = g a + (x - mean) b + c
  void (*combine)(void* out, const void* g, const void* x, double mean, double a, double b, double c, int64_t count);
  /// out = (x - mean) scale + shift + residual, or 0 where that is negative; residual may be null
  void (*affine_relu)(void* out, const void* x, const void* residual, double mean, double scale, double shift,
                      int64_t count);
  /// to = g where y is above 0 (or NaN), else 0: the gradient of a relu that gave y
  void (*relu_gradient)(void* to, const void* g, const void* y, int64_t count);
};

/// `count` pixels of `channels` elements each, one behind the other: images in channels-last order. What belongs to a
/// channel (mean, scale, ...) is an array of the elements' type; sums are added to, and kept in double.
struct PixelLoops {
  /// Takes the pixels in beside `before` others, whose means and sums of squared differences from them are given.
  void (*moments)(const void* x, int64_t count, int64_t channels, double before, double* mean, double* squares);
  /// of g to sums[c], of g (x - mean) to products[c]. With y g is 0 first where y is not above 0 (or NaN), and is
  /// written to `to` (may be null) as it is then.
  void (*products)(const void* g, const void* y, void* to, const void* x, const void* mean, int64_t count,
                   int64_t channels, double* sums, double* products);
  /// out = (x - mean) scale + shift; with `relu` plus residual (may be null), and 0 where that is negative
  void (*affine)(void* out, const void* x, const void* residual, bool relu, const void* mean, const void* scale,
                 const void* shift, int64_t count, int64_t channels);
  /// out = g a + (x - mean) b + c; y as in products (may be null)
  void (*combine)(void* out, const void* g, const void* y, const void* x, const void* mean, const void* a,
                  const void* b, const void* c, int64_t count, int64_t channels);
  /// Of the pixels at `places` (`count` of them, at least 1, below 2^31) each channel's largest, and its place.
  void (*largest)(const void* image, const int64_t* places, int64_t count, int64_t channels, void* values,
                  int64_t* indices);
};

/// A line of `count` elements, for layer normalisation; weight and bias may be null. Sums are kept in double. Beside
/// lines of a half type weight, bias, dweight and dbias are float.
struct LineLoops {
  double (*squares)(const void* x, int64_t count);  ///< their sum
  /// out = (x - mean) rstd weight + bias
  void (*normalise)(void* out, const void* x, double mean, double rstd, const void* weight, const void* bias,
                    int64_t count);
  /// of g weight to sums[0], of g weight (x - mean) to sums[1]
  void (*products)(const void* g, const void* x, double mean, const void* weight, int64_t count, double* sums);
  /// out = g weight a + (x - mean) b + c
  void (*combine)(void* out, const void* g, const void* x, double mean, const void* weight, double a, double b,
                  double c, int64_t count);
  /// Adds g (x - mean) rstd to dweight and g to dbias, element by element, of which either may be null: sums of a few
  /// lines, in the elements' type (float for a half type).
  void (*parameters)(void* dweight, void* dbias, const void* g, const void* x, double mean, double rstd, int64_t count);
  /// Moves such sums to those of all lines; they begin again at 0.
  void (*drain)(double* to, void* sums, int64_t count);
};

/// A row of `count` scores of attention. `added` is what a mask adds, or null.
struct AttentionLoops {
  /// s = s scale + added; gives the largest, -infinity where there is none.
  double (*largest)(void* s, int64_t count, double scale, const void* added);
  /// s = e^(s - shift); gives the sum.
  double (*exponentials)(void* s, int64_t count, double shift);
  void (*multiply)(void* x, int64_t count, double factor);
  /// s = p = e^(s scale + added - log_sum); d = p (d - dot) scale
  void (*gradient)(void* s, void* d, int64_t count, double scale, const void* added, double log_sum, double dot);
  double (*dot)(const void* x, const void* y, int64_t count);
};

/// An optimizer's functor over `count` elements.
using StepLoop = void (*)(const void* rule, void* const* arrays, int64_t count);
/// By which of its arrays a step has, and by dtype (float32, float64); null where it has none such.
using StepLoops = std::array<std::array<StepLoop, 2>, std::size_t{1} << StepBlock::kMostArrays>;

/// One step of an LSTM (kernels.h); everything is contiguous.
struct LstmStep {
  void* gates;
  const void *x_gates, *c;
  void *next_c, *tanh_c, *h;
  int64_t batch, cells;
};
struct LstmStepBackward {
  void *d_gates, *d_c;
  const void *d_h, *d_out, *gates, *c, *tanh_c;  ///< d_out may be null
  int64_t batch, cells;
};
struct LstmLoops {
  void (*forward)(const LstmStep& step);
  void (*backward)(const LstmStepBackward& step);
};

/// `count` windows beside each other, each of rows x columns pixels of a plane, all of them inside it. Writes the
/// largest of each and its place in the plane (of fewer than 2^31 pixels).
struct WindowRow {
  const void* plane;
  int64_t width;                       ///< of the plane
  int64_t top, rows, row_step;         ///< of the windows
  int64_t left, columns, column_step;  ///< of the first one
  int64_t stride, count;               ///< from one to the next
  void* values;
  int64_t* indices;
};

/// Channels that Winograd's form (winograd.h) maps together, and whose products lie together.
inline constexpr int64_t kWinogradLanes = 8, kWinogradPanel = 16;

/// 3x3 kernels of kWinogradLanes channels and of others; steps in elements, of either sign.
struct WinogradKernels {
  float* data;
  int64_t lane_step, other_step, row_step, column_step;
  bool operator==(const WinogradKernels&) const = default;
};

/// The maps of Winograd's form, of float32, kWinogradLanes channels at a time. Images come and go by strips: rows of
/// `columns` pixels of kWinogradLanes channels each, whose tiles lie 4 columns apart. Of each tile there are 36
/// elements, `step` from one to the next; tiles lie `tile_step` apart.
struct WinogradLoops {
  /// Of 6x6 pixels, and of a result's gradient's 4x4.
  void (*patches)(const float* strip, int64_t columns, int64_t tiles, float* out, int64_t step, int64_t tile_step);
  void (*gradients)(const float* strip, int64_t columns, int64_t tiles, float* out, int64_t step, int64_t tile_step);
  /// 4x4 pixels a tile, plus bias (of the channels; may be null), and 0 where that is negative if `relu`.
  void (*results)(const float* m, int64_t step, int64_t tile_step, int64_t tiles, const float* bias, bool relu,
                  float* strip, int64_t columns);
  /// Of `count` other channels, kWinogradPanel apart in `out`.
  void (*kernels)(const WinogradKernels& w, int64_t count, float* out, int64_t step);
  void (*kernel_gradients)(const float* m, int64_t step, int64_t count, const WinogradKernels& w);
  /// out [rows, kWinogradPanel] = x [rows, depth] (steps `row` and `column`) times y [depth, kWinogradPanel], or plus.
  void (*multiply)(const float* x, int64_t row, int64_t column, const float* y, int64_t depth, float* out, int64_t rows,
                   bool add);
};

/// float16 to float32, and back; the result comes first.
struct HalfCasts {
  Loop widen, narrow;
};

/// A tile's elements along what is written together, and along what is read together. Of those tried (16 to 256 by 8 to
/// 64, before lines were made in a buffer) the fastest for large matrices, also where rows lie a power of two apart.
inline constexpr int64_t kTileAlong = 64, kTileAcross = 16;
/// out[j][i] = x[i][j] for i < width, j < height: rows become columns. Neighbours in `out` are those of i, in `x` those
/// of j; steps in bytes.
using TransposeTile = void (*)(char* out, int64_t out_step, const char* x, int64_t x_step, int64_t width,
                               int64_t height);
/// For elements of 1, 2, 4 and 8 bytes.
struct TransposeLoops {
  std::array<TransposeTile, 4> near;  ///< all of `out` stays in a near cache
  std::array<TransposeTile, 4> far;   ///< its rows lie far apart
  /// ... and it stays in no cache: lines go to memory without being read first, where the processor can.
  std::array<TransposeTile, 4> streamed;
};

/// The words of `blocks` Philox blocks from number `first` of the stream of `seed` on (philox.h). Up to kRandomBlocks -
/// 1 blocks more may be written.
using RandomWords = void (*)(uint64_t seed, uint64_t first, int64_t blocks, uint32_t* out);
inline constexpr int64_t kRandomBlocks = 8;

template <class F>
using ByDType = std::array<F, kNumDTypes>;
template <class Op, class F>
using ByOp = std::array<ByDType<F>, static_cast<std::size_t>(Op::count_)>;

/// One level's loops; null where a dtype is not served.
struct Loops {
  const char* name;
  const ByOp<Unary, Loop>& unary;
  const ByOp<Predicate, Loop>& predicate;
  const ByOp<Binary, Loop>& binary;
  const ByOp<Compare, Loop>& compare;
  const ByOp<Unary, Loop>& unary_gradient;                   ///< out, g, what was kept
  const std::array<ByOp<Binary, Loop>, 2>& binary_gradient;  ///< for x, for y: out, g, x, y
  const HalfCasts& half_casts;
  const TransposeLoops& transpose;
  const ByOp<Reduction, FoldRows>& fold_rows;
  const ByOp<Reduction, FoldColumns>& fold_columns;
  const ByDType<SoftmaxLoops>& softmax;
  const ByDType<SoftmaxLoops>& log_softmax;
  const ByDType<void (*)(const Gemm&)>& gemm;
  const ByDType<PackedProduct>& packed_product;
  const ByDType<CrossEntropyLoops>& cross_entropy;
  const ByDType<ChannelLoops>& channel;
  const ByDType<PixelLoops>& pixel;
  const ByDType<LineLoops>& line;
  const std::array<StepLoops, std::variant_size_v<StepRule>>& step;
  const ByDType<LstmLoops>& lstm;
  const ByDType<void (*)(const WindowRow&)>& max_pool;
  const ByDType<AttentionLoops>& attention;
  const WinogradLoops& winograd;
  const RandomWords& random_words;
};

/// The best for this machine.
extern const Loops* best_loops;
inline const Loops& loops() noexcept { return *best_loops; }
/// All that this machine can run, the plainest first; for tests.
std::vector<const Loops*> all_loops();

/// The type that arithmetic on T happens in.
template <class T>
using Compute = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

/// What a reduction adds up in: double for floating sums, so that float32 results are correctly rounded or nearly so.
template <Reduction op, class T>
using Accumulator =
    std::conditional_t<fold_of(op) == Reduction::all || fold_of(op) == Reduction::any, bool,
                       std::conditional_t<fold_of(op) == Reduction::max || fold_of(op) == Reduction::min, Compute<T>,
                                          std::conditional_t<std::is_floating_point_v<Compute<T>>, double, int64_t>>>;

}  // namespace tendril::cpu
