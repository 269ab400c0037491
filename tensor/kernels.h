#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "tendril/tensor/device.h"
#include "tendril/tensor/error.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/geometry.h"
#include "tendril/tensor/optim_step.h"
#include "tendril/tensor/scalar.h"
#include "tendril/tensor/view.h"

TENDRIL_API_BEGIN

namespace tendril::detail {
class PreparedForms;  // prepared_weight.h
}  // namespace tendril::detail

/// A backend is a table of functions over `View`s: the seam between tensors and machines.
namespace tendril {

enum class Unary : uint8_t {
#define TENDRIL_UNARY(name, ...) name,
#include "tendril/tensor/pointwise.def"
  count_
};
enum class Predicate : uint8_t {
#define TENDRIL_PREDICATE(name, ...) name,
#include "tendril/tensor/pointwise.def"
  count_
};
enum class Binary : uint8_t {
#define TENDRIL_BINARY(name, ...) name,
#include "tendril/tensor/pointwise.def"
  count_
};
enum class Compare : uint8_t {
#define TENDRIL_COMPARE(name, ...) name,
#include "tendril/tensor/pointwise.def"
  count_
};
enum class Reduction : uint8_t {
  sum,
  prod,
  max,
  min,
  all,
  any,
#define TENDRIL_REDUCTION(name, ...) name,
#include "tendril/tensor/reductions.def"
  count_
};
/// The operation of a running result.
enum class Scan : uint8_t { sum, prod, max, min, logsumexp };

/// How two results become one: of the reductions of a function of each element (reductions.def), that of the others
/// which they fold with.
constexpr Reduction fold_of(Reduction op) noexcept {
  constexpr Reduction folds[] = {
      Reduction::sum, Reduction::prod, Reduction::max, Reduction::min, Reduction::all, Reduction::any,
#define TENDRIL_REDUCTION(name, doc, fold, ...) Reduction::fold,
#include "tendril/tensor/reductions.def"
  };
  return folds[static_cast<int>(op)];
}

/// Whose words an index out of range is reported in: operations that users know are made of others.
enum class IndexUse : uint8_t {
  gather,
  scatter_add,
  scatter,
  index_select,
  index_add,
  index_fill,
  index_copy,
  embedding,
  nll_loss,
  cross_entropy
};
/// "gather: index 7 is out of range for dimension 1 of size 5", "embedding: index 9 is out of range for a weight of 5
/// rows", "nll_loss: target 3 is out of range for 3 classes".
std::string index_error_text(IndexUse use, int64_t index, int dim, int64_t size);

/// What an operation does with its (promoted) input dtype; see pointwise.def.
enum class DTypeRule : uint8_t { kSame, kAny, kFloat, kDivide, kShift, kInteger };
/// Whether the operation computes in `dtype`: whether there is a kernel.
constexpr bool computes_in(DTypeRule rule, DType dtype) noexcept {
  if (is_floating(dtype)) return rule != DTypeRule::kShift && rule != DTypeRule::kInteger;
  if (dtype == kBool) return rule == DTypeRule::kAny || rule == DTypeRule::kInteger;
  return rule != DTypeRule::kFloat;
}

namespace detail {
constexpr double kParameters[] = {
#define TENDRIL_UNARY(...) 0,
#define TENDRIL_PARAMETRIC(name, doc, dtypes, expression, saves, gradient, fused, low, high, value) value,
#include "tendril/tensor/pointwise.def"
};
constexpr bool kHasParameter[] = {
#define TENDRIL_UNARY(...) false,
#define TENDRIL_PARAMETRIC(...) true,
#include "tendril/tensor/pointwise.def"
};
}  // namespace detail
/// Whether a unary operation has a number, and which unless one is given.
inline bool has_parameter(Unary op) noexcept { return detail::kHasParameter[static_cast<int>(op)]; }
inline double parameter_of(Unary op) noexcept { return detail::kParameters[static_cast<int>(op)]; }
const char* name_of(Unary op) noexcept;
const char* name_of(Predicate op) noexcept;
const char* name_of(Binary op) noexcept;
const char* name_of(Compare op) noexcept;
const char* name_of(Reduction op) noexcept;
const char* name_of(Scan op) noexcept;  ///< of its function: "cumsum"

/// Along one dimension, output i of a mean is over inputs [begin[i], end[i]), and multiplied by scale[i]. Neither begin
/// nor end decreases. All three are in the host's memory, and need last no longer than the call.
struct PoolAxis {
  const int64_t* begin;
  const int64_t* end;
  const double* scale;
};

/// What goes from step to step in one direction of one layer of an LSTM, for T steps and a batch of N, from what x
/// gives to the gates: autograd/ops/lstm.h has the formulas. Contiguous but for the weight, and of one floating dtype.
struct LstmSteps {
  View x_gates;  ///< [T, N, 4 H], like the gates' activations
  View weight;   ///< [4 H, H]
  View h0, c0;   ///< [N, H]
  bool reverse;  ///< from the last step to the first
};

/// One direction of one layer of an LSTM, for T steps and a batch of N: autograd/ops/lstm.h has the formulas. All
/// contiguous and of one floating dtype; no size is 0.
struct LstmLayer {
  View x;                         ///< [T, N, I]
  View weight_ih, weight_hh;      ///< [4 H, I] and [4 H, H]
  const View *bias_ih, *bias_hh;  ///< [4 H], both null or neither
  const View *h0, *c0;            ///< [N, H], or null: zeros
  bool reverse;                   ///< from the last step to the first
  int way = 0;                    ///< of several that the device has: lstm_layer_reserve chooses
};
/// Gradients of its results (null: zero), and of its arguments, like these (null: not wanted).
struct LstmLayerGradients {
  const View *output, *c_n;
  const View *x, *weight_ih, *weight_hh, *bias_ih, *bias_hh, *h0, *c0;
};

/// How operands of attention lie, [b, h, rows, columns] each, be they tensors or gradients of them: `data` counts for
/// nothing.
struct AttentionLayout {
  View query, key, value, out;
};
/// Which keys a query of attention sees, and what is added to its scores.
struct AttentionMask {
  double scale = 1;            ///< of the scores
  bool causal = false;         ///< query i sees keys 0 to i
  const void* data = nullptr;  ///< null: no mask; else bool (true is seen), or of the query's dtype, added
  bool is_bool = false;
  const int64_t* offsets = nullptr;  ///< of each of b h, in elements from data; in the host's memory
  int64_t row = 0, column = 0;       ///< strides, in elements
};

/// What batch normalisation learns of the batches: [c], each null or of x's dtype or that which mean is of, contiguous.
/// running = (1 - momentum) running + momentum * (the mean, or the unbiased variance).
struct RunningStatistics {
  const View* mean = nullptr;
  const View* var = nullptr;
  double momentum = 0;
};

/// What class_losses reads and writes for each line: contiguous, like x but for the size 1 along the classes, and, but
/// for the indices, of the dtype that is computed in.
struct ClassLosses {
  const View& index;    ///< int64; looked at by the kernel as those of `gather` are, but for `ignored`
  const View* weight;   ///< of each class, contiguous; may be null: 1
  int64_t ignored;      ///< an index that counts for nothing, whatever the line holds
  const View& loss;     ///< weight * -log(softmax(x) at index)
  const View& weights;  ///< weight, or 0 where ignored
  const View& shares;   ///< -weights: what cross_entropy_backward takes for a sum of the losses
  const View& largest;  ///< as log_sum_exp's
  const View& log_sum;  ///< as log_sum_exp's
};

/// The functions of one device. Callers have checked shapes and promoted dtypes (raw.h does); a kernel refuses a dtype
/// that it does not serve with DTypeError and checks the values of indices.
///
/// Common contract: "like out" means same sizes, strides free (0 where broadcast). `out` never has a stride 0 on a
/// size above 1, and overlaps an input either exactly (in place) or not at all. `numel` 0 is allowed everywhere.
/// Inputs of binary, compare, add_scaled and where may be one number in the host's memory (View::host), read before the
/// function returns. Such a number for binary is of the dtype `computed_in`: float32 beside the half types.
/// Every slot may be null: `require` then says "softmax: no cuda kernel".
struct Kernels {
  const char* device = "";
  /// Whether the kernels for images (from conv2d to batch_norm_relu_backward, but for the weights of convolutions,
  /// which may be either then) take operands and results that all lie in channels-last order, as ones that are all
  /// contiguous.
  bool channels_last = false;

  // ---- pointwise
  /// x like out, same dtype; kFloat ops: floating. p is for the ops that have a number.
  void (*unary)(Unary op, const View& out, const View& x, double p) = nullptr;
  void (*predicate)(Predicate op, const View& out, const View& x) = nullptr;           ///< out bool, x like out
  void (*binary)(Binary op, const View& out, const View& x, const View& y) = nullptr;  ///< like out, same dtype
  /// The table's fused gradients: out = the gradient of x for g, all like out, floating, same dtype. `kept` is x, or y
  /// where the row saves that.
  void (*unary_gradient)(Unary op, const View& out, const View& g, const View& kept, double p) = nullptr;
  /// ... of x (operand 0) or y (1). x and y may be numbers in the host's memory, of out's dtype.
  void (*binary_gradient)(Binary op, int operand, const View& out, const View& g, const View& x,
                          const View& y) = nullptr;
  void (*compare)(Compare op, const View& out, const View& x, const View& y) = nullptr;  ///< out bool; x, y same dtype
  void (*add_scaled)(const View& out, const View& x, const View& y, Scalar alpha) = nullptr;  ///< out = x + alpha * y
  void (*where)(const View& out, const View& mask, const View& x, const View& y) = nullptr;   ///< mask bool
  void (*clamp)(const View& out, const View& x, const Scalar* low, const Scalar* high) = nullptr;  ///< null: no bound

  // ---- filling and copying
  void (*copy)(const View& out, const View& x) = nullptr;  ///< x like out, any two dtypes
  void (*fill)(const View& out, Scalar value) = nullptr;
  void (*arange)(const View& out, Scalar start, Scalar step) = nullptr;  ///< out is 1-d

  // ---- along dimensions. `out` has x's ndim, with size 1 in every reduced dimension.
  void (*reduce)(Reduction op, const View& out,
                 const View& x) = nullptr;  ///< same dtype (all, any: both bool); numel 0: the identity
  /// Largest (or smallest) along `dim` and where it first occurs; NaN wins. `values` or `indices` (int64) may be null.
  void (*extremum)(bool largest, const View* values, const View* indices, const View& x, int dim) = nullptr;
  /// Element i of a line of `out` is made of x's elements 0 to i along `dim`; x like out, same dtype. Sums and
  /// products: not of bool; logsumexp: floating. max and min write to `indices` (int64, like out) where the value last
  /// occurs; a NaN wins. `indices` is null for the others. The strides along dim may be negative.
  void (*scan)(Scan op, const View& out, const View* indices, const View& x, int dim) = nullptr;
  /// out[i] = a[i] out[i - 1] + b[i] along `dim`, where out[0] = b[0]; all like out, floating, same dtype. The strides
  /// along dim may be negative.
  void (*recurrence)(const View& out, const View& a, const View& b, int dim) = nullptr;
  /// int64 places along the last dimension that put x in order, ascending or descending; equal elements keep theirs,
  /// and NaN counts as larger than all. `places` like x, contiguous.
  void (*sort_places)(const View& places, const View& x, bool descending) = nullptr;
  void (*softmax)(const View& out, const View& x, int dim) = nullptr;      ///< floating, same dtype
  void (*log_softmax)(const View& out, const View& x, int dim) = nullptr;  ///< floating, same dtype
  /// Both like out: the largest of each line of x, and the logarithm of the sum of e^(x - largest). float32 or
  /// float64.
  void (*log_sum_exp)(const View& largest, const View& log_sum, const View& x, int dim) = nullptr;
  /// All that a loss by class asks of the lines of x, floating. Null slot: made of log_sum_exp and other operations.
  void (*class_losses)(const ClassLosses& losses, const View& x, int dim) = nullptr;
  /// dx = share * ([the place along `dim` is index] - softmax(x)); largest and log_sum are log_sum_exp's; index (int64)
  /// and share are like them. An index that is no place is nowhere. x is float32 or float64 or, where class_losses is
  /// there, of a half type beside the others in float32.
  void (*cross_entropy_backward)(const View& dx, const View& x, int dim, const View& largest, const View& log_sum,
                                 const View& index, const View& share) = nullptr;

  // ---- products. a is [m, k], b is [k, n], out is [m, n], or all three with a leading batch; same dtype; any strides.
  // On the CPU out may be float32 beside operands of a half type.
  void (*matmul)(const View& out, const View& a, const View& b) = nullptr;
  /// The product of two matrices plus bias [n] in each row (may be null), then `after` of that (null: nothing), a
  /// function without a number; all floating. Product and sum are rounded once where the device does it in one call. A
  /// relu may make NaN 0 here, and gelu_tanh be as exact as the device has it. Null slot: made of other operations.
  void (*linear)(const View& out, const View& a, const View& b, const View* bias, const Unary* after) = nullptr;

  // ---- one step of an LSTM for a batch of N with H cells. All contiguous, one floating dtype; gates are [N, 4 H], in
  // the order input, forget, cell, output; the rest is [N, H].
  /// `gates` holds h W_hh^T; becomes the gates' activations on adding `x_gates`. next_c = f c + i g,
  /// tanh_c = tanh(next_c), h = o tanh_c.
  void (*lstm_cell)(const View& gates, const View& x_gates, const View& c, const View& next_c, const View& tanh_c,
                    const View& h) = nullptr;
  /// `d_c` holds the gradient of next_c, becomes that of c. The gradient of h is d_h + d_out, which may be null.
  void (*lstm_cell_backward)(const View& d_gates, const View& d_c, const View& d_h, const View* d_out,
                             const View& gates, const View& c, const View& tanh_c) = nullptr;

  // ---- all steps of a layer one after another, where a device has better than lstm_cell and matmul in turns: both or
  // neither. False: such steps are not served, and nothing was written. `output`, `cells` and `tanh_c` are [T, N, H].
  bool (*lstm_steps)(const LstmSteps& steps, const View& gates, const View& cells, const View& tanh_c,
                     const View& output) = nullptr;
  /// `d_c` and `d_h` hold the gradients of the last step's results, but for what d_output (null: zero) adds; they
  /// become those of c0 and, if `to_h0`, h0. Of x_gates of `steps` the sizes alone are read.
  bool (*lstm_steps_backward)(const LstmSteps& steps, const View& d_gates, const View& d_c, const View& d_h,
                              const View* d_output, const View& gates, const View& cells, const View& tanh_c,
                              bool to_h0) = nullptr;

  // ---- a whole layer of an LSTM at once, where a device has better than steps: all three or none.
  /// Sets layer.way, and gives the size in bytes of what `lstm_layer` keeps for the backward pass (if there will be
  /// one: `training`), or -1: this layer is not served, do it step by step.
  int64_t (*lstm_layer_reserve)(LstmLayer& layer, bool training) = nullptr;
  /// Writes output [T, N, H], c_n [N, H] and `reserve`, which is null if no backward pass will follow.
  void (*lstm_layer)(const LstmLayer& layer, const View& output, const View& c_n, void* reserve) = nullptr;
  /// `output` and `reserve` are of the forward call; afterwards `reserve` is no good for another backward call.
  void (*lstm_layer_backward)(const LstmLayer& layer, const View& output, void* reserve,
                              const LstmLayerGradients& gradients) = nullptr;

  // ---- images, floating. x is [n, c, h, w], out [n, o, p, q], weight [o, c / groups, kernel h, kernel w]; all
  // contiguous and of one dtype, but that on the CPU conv2d's out may be float32 beside operands of a half type; sizes
  // fit the geometry.
  /// The three maps of a convolution (in machine learning's sense: the kernel is not flipped): the result from image
  /// and weight; the image's gradient from the result's and the weight; the weight's gradient from the image and the
  /// result's.
  void (*conv2d)(const View& out, const View& x, const View& weight, const ConvGeometry& geometry) = nullptr;
  /// conv2d, plus bias [o] (of x's dtype or float32; may be null); with `relu`, what is negative becomes 0 (NaN stays).
  /// Null slot: made of other operations.
  /// `prepared`, here and below, has forms of this weight where it is not null, whose elements lie where they did when
  /// those were made, and may get others.
  void (*conv2d_relu)(const View& out, const View& x, const View& weight, const View* bias, bool relu,
                      const ConvGeometry& geometry, detail::PreparedForms* prepared) = nullptr;
  void (*conv2d_data)(const View& x, const View& out, const View& weight, const ConvGeometry& geometry,
                      detail::PreparedForms* prepared) = nullptr;
  void (*conv2d_filter)(const View& weight, const View& x, const View& out, const ConvGeometry& geometry) = nullptr;
  /// `indices` (int64) are places in the h w elements of a plane. NaN wins.
  void (*max_pool2d)(const View& out, const View& indices, const View& x, const PoolGeometry& geometry) = nullptr;
  /// dx = 0 but for the sums of what of g belongs to each place; of every plane. `indices` are what max_pool2d gave for
  /// this geometry.
  void (*max_pool2d_backward)(const View& dx, const View& g, const View& indices,
                              const PoolGeometry& geometry) = nullptr;
  /// out = scale_h scale_w (sum over a rectangle); and its transpose, x = scatter of out.
  void (*mean_pool2d)(const View& out, const View& x, const PoolAxis& h, const PoolAxis& w) = nullptr;
  void (*mean_pool2d_transpose)(const View& x, const View& out, const PoolAxis& h, const PoolAxis& w) = nullptr;

  // ---- batch normalisation of x [n, c, s], contiguous (channels-last: [n, s, c] is), floating. mean and var (biased)
  // are [c] of the dtype that is computed in; weight and bias [c] of x's dtype or, beside a half type, both float32;
  // they may be null: 1 and 0.
  /// out = (x - mean) / sqrt(var + eps) * weight + bias. With `batch`, mean and var are x's and are written, and
  /// `running` learns of them; else they are read.
  void (*batch_norm)(const View& out, const View& mean, const View& var, const View& x, const View* weight,
                     const View* bias, double eps, bool batch, const RunningStatistics& running) = nullptr;
  /// Gradients for g like out, of which any may be null. With `batch`, mean and var depend on x.
  void (*batch_norm_backward)(const View* dx, const View* dweight, const View* dbias, const View& g, const View& x,
                              const View& mean, const View& var, const View* weight, double eps, bool batch) = nullptr;
  /// batch_norm, then `residual` (like x; may be null) is added, and what is negative becomes 0 (NaN stays). Null slot:
  /// made of other operations.
  void (*batch_norm_relu)(const View& out, const View& mean, const View& var, const View& x, const View* weight,
                          const View* bias, const View* residual, double eps, bool batch,
                          const RunningStatistics& running) = nullptr;
  /// Its gradients for g, of which any may be null; `out` is its result. dresidual is g where out is above 0 (or NaN).
  void (*batch_norm_relu_backward)(const View* dx, const View* dweight, const View* dbias, const View* dresidual,
                                   const View& g, const View& out, const View& x, const View& mean, const View& var,
                                   const View* weight, double eps, bool batch) = nullptr;

  // ---- normalisation of each line of x [n, m], contiguous, floating, n and m above 0. weight and bias are [m] of the
  // same dtype or, beside a half type, float32; either may be null: 1 and 0. mean and rstd are [n], of the dtype that
  // is computed in.
  /// mean and rstd = 1 / sqrt(mean of (x - mean)^2 + eps) of each line are written; out = (x - mean) rstd weight +
  /// bias. mean is null: 0 in its place (a root mean square).
  void (*layer_norm)(const View& out, const View* mean, const View& rstd, const View& x, const View* weight,
                     const View* bias, double eps) = nullptr;
  /// Gradients for g like out, of which any may be null.
  void (*layer_norm_backward)(const View* dx, const View* dweight, const View* dbias, const View& g, const View& x,
                              const View* mean, const View& rstd, const View* weight) = nullptr;

  // ---- attention of query [b, h, l, e], key [b, h, s, e] and value [b, h, s, v], floating, no size 0. Every operand
  // is contiguous, or lies as `attention_takes` says. Null slots, and what is not served: made of other operations.
  /// Whether an operand or a result may lie like x, which is not contiguous. Null slot: none may.
  bool (*attention_takes)(const View& x) = nullptr;
  /// Whether `attention` serves such operands and, unless `gradients` is null, `attention_backward` with gradients that
  /// lie so (its g as gradients->out). Null slot: both serve float32 and float64.
  bool (*attention_served)(const AttentionLayout& operands, const AttentionLayout* gradients,
                           const AttentionMask& mask) = nullptr;
  /// out [b, h, l, v] = softmax(scores) value; log_sum [b, h, l], contiguous, of the dtype that is computed in = the
  /// logarithm of the sum of e^score, +infinity where nothing is seen (and out 0). No more of the scores than a block a
  /// thread is kept.
  void (*attention)(const View& out, const View& log_sum, const View& query, const View& key, const View& value,
                    const AttentionMask& mask) = nullptr;
  /// Gradients for g like out, all written; `out` and `log_sum` are attention's.
  void (*attention_backward)(const View& dquery, const View& dkey, const View& dvalue, const View& g, const View& out,
                             const View& log_sum, const View& query, const View& key, const View& value,
                             const AttentionMask& mask) = nullptr;

  // ---- by index: `index` is int64; values must lie in [0, x's size in dim): IndexError in the words of `use`
  // otherwise, before any write. (A device that works asynchronously reads 0, writes nothing there, and throws when its
  // work is waited for: docs/cuda.md.)
  void (*gather)(const View& out, const View& x, int dim, const View& index,
                 IndexUse use) = nullptr;  ///< index like out
  void (*scatter_add)(const View& out, int dim, const View& index, const View& source,
                      IndexUse use) = nullptr;  ///< source like index
  /// As scatter_add, but source's elements are written; of those for one place any is kept.
  void (*scatter)(const View& out, int dim, const View& index, const View& source, IndexUse use) = nullptr;
  void (*index_select)(const View& out, const View& x, int dim, const View& index,
                       IndexUse use) = nullptr;  ///< index 1-d
  void (*index_add)(const View& out, int dim, const View& index, const View& source,
                    IndexUse use) = nullptr;  ///< index 1-d

  // ---- random numbers, from Philox block `offset` of `seed` on (philox.h). In row-major order, elements of float32
  // and narrower floating types take one word of a block each (normal: words 0, 1 and words 2, 3 make two numbers), and
  // so does bernoulli in any dtype; float64 and integers take two words each. Contiguous `out` only.
  void (*uniform)(const View& out, double low, double high, uint64_t seed, uint64_t offset) = nullptr;
  void (*normal)(const View& out, double mean, double stddev, uint64_t seed, uint64_t offset) = nullptr;
  void (*bernoulli)(const View& out, double p, uint64_t seed, uint64_t offset) = nullptr;
  /// out = x times what bernoulli(1 - p) draws, over 1 - p (p is 1: 0). x is like out and contiguous, both floating.
  void (*dropout)(const View& out, const View& x, double p, uint64_t seed, uint64_t offset) = nullptr;
  void (*randint)(const View& out, int64_t low, int64_t high, uint64_t seed, uint64_t offset) = nullptr;

  // ---- an optimizer's step (optim_step.h) over many parameters at once, all of one floating dtype; halves are
  // computed in float32 and rounded once
  void (*optimizer_step)(std::span<const StepBlock> blocks, DType dtype, const StepRule& rule) = nullptr;
};

namespace cpu {
extern const Kernels table;
}
namespace detail {
struct EnteredDevice {
  const Kernels* table;
  int before;  ///< the device to return to; -1 for none
};
EnteredDevice enter_device(Device device);
void leave_device(int before) noexcept;
}  // namespace detail

/// The kernels of a device. Until the object is destroyed, a CUDA device is this thread's current device. Then the
/// previous device is current again, unless it has no context. Use and destroy the object on the thread that made it.
class [[nodiscard]] DeviceKernels {
 public:
  /// Throws Error where this build or machine has no such device.
  explicit DeviceKernels(Device device)
      : entered_(device.is_cpu() ? detail::EnteredDevice{&cpu::table, -1} : detail::enter_device(device)) {}
  ~DeviceKernels() {
    if (entered_.before >= 0) [[unlikely]]
      detail::leave_device(entered_.before);
  }
  DeviceKernels(const DeviceKernels&) = delete;
  DeviceKernels& operator=(const DeviceKernels&) = delete;

  const Kernels& operator*() const noexcept { return *entered_.table; }
  const Kernels* operator->() const noexcept { return entered_.table; }

 private:
  detail::EnteredDevice entered_;
};

/// Throws Error where this build or machine has no such device.
inline DeviceKernels kernels(Device device) { return DeviceKernels(device); }

/// `slot` unless it is null: then throws Error, "softmax: no cuda kernel". `op` is a name, or the operation itself,
/// which is then named on failure only.
template <class F>
F* require(F* slot, const char* op, const Kernels& table) {
  TENDRIL_CHECK(slot, op, ": no ", table.device, " kernel");
  return slot;
}
template <class F, class Op>
requires std::is_enum_v<Op> F* require(F* slot, Op op, const Kernels& table) {
  TENDRIL_CHECK(slot, name_of(op), ": no ", table.device, " kernel");
  return slot;
}

}  // namespace tendril

TENDRIL_API_END
