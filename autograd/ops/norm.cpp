#include "tendril/autograd/ops/norm.h"

#include <limits>
#include <optional>
#include <utility>

#include "tendril/autograd/detail/image_format.h"
#include "tendril/autograd/detail/maybe_view.h"
#include "tendril/autograd/detail/normalised.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

using autograd::NodeOf;
using autograd::track;
using autograd::detail::image_format;
using autograd::detail::MaybeView;

/// x as the kernels see it.
Tensor as_channels(const Tensor& x, MemoryFormat format) {
  const Tensor whole = raw::contiguous(x, format);
  const int64_t batch = x.sizes()[0], channels = x.sizes()[1];
  const int64_t rest = numel_of(Dims(std::span(x.sizes().data() + 2, static_cast<std::size_t>(x.dim() - 2))));
  return raw::view(autograd::detail::alias(whole), {batch, channels, rest});
}

Dims all_but_channels(const Tensor& x) {
  Dims dims;
  for (int d = 0; d < x.dim(); ++d) {
    if (d != 1) dims.push_back(d);
  }
  return dims;
}

/// What a gradient is made of.
struct BatchNormInputs {
  Tensor x, weight, mean, var;
  double eps;
  bool batch;
  DType parameter_dtype;
};

/// Gradients of x, weight and bias in operations that can be recorded, from the inputs alone: the statistics depend on
/// x.
void batch_norm_gradients(const BatchNormInputs& of, const Tensor& given, const autograd::Node& node,
                          std::span<Tensor> dx) {
  const DType wide = computed_in(of.x.dtype());
  const Tensor x = of.x.to(wide), g = given.to(wide);
  const Dims others = all_but_channels(x);
  Dims by_channel = Dims::filled(x.dim(), 1);
  by_channel[1] = x.sizes()[1];
  const Tensor centred = x - (of.batch ? x.mean(others, true) : of.mean.reshape(by_channel));
  const Tensor var = of.batch ? (centred * centred).mean(others, true) : of.var.reshape(by_channel);
  const Tensor r = (var + of.eps).rsqrt(), xhat = centred * r;
  if (node.needs_grad(1)) dx[1] = (g * xhat).sum(others).to(of.parameter_dtype);
  if (node.needs_grad(2)) dx[2] = g.sum(others).to(of.parameter_dtype);
  if (!node.needs_grad(0)) return;
  const Tensor scale = of.weight.defined() ? r * of.weight.to(wide).reshape(by_channel) : r;
  const Tensor of_x = of.batch ? (g - g.mean(others, true) - xhat * (g * xhat).mean(others, true)) * scale : g * scale;
  dx[0] = of_x.to(of.x.dtype());
}

/// Passes over an operand of x's size, unrecorded: forward reads x twice (its statistics by pieces, then the result)
/// and writes once; backward reads x and g twice (the channels' sums, then dx) and writes dx.
struct BatchNormBackward : NodeOf<BatchNormBackward, 3, 4> {
  static constexpr const char* kName = "BatchNormBackward";
  double eps = 0;
  bool batch = false;  ///< mean and variance are the batch's

  void backward(const Tensor& g, std::span<Tensor> dx) {
    if (g.numel() == 0) {  // the formulas would divide by the number of elements
      dx[0] = g;
      dx[1] = dx[2] = g.sum(all_but_channels(g));
    } else if (autograd::grad_enabled()) {
      batch_norm_gradients(
          {saved(0), has_weight ? saved(1) : Tensor(), saved(2), saved(3), eps, batch, parameter_dtype}, g, *this, dx);
    } else {
      fused(g, dx);
    }
  }

  void fused(const Tensor& g, std::span<Tensor> dx) {
    const Tensor x = saved(0), weight = has_weight ? saved(1) : Tensor(), mean = saved(2), var = saved(3);
    const MemoryFormat format = image_format(x);
    const auto rows = [format](const Tensor& t) { return t.defined() ? as_channels(t, format) : t; };
    if (needs_grad(0)) dx[0] = raw::empty(x.sizes(), x.dtype(), x.device(), format);
    for (std::size_t i : {1u, 2u}) {
      if (needs_grad(static_cast<int>(i))) dx[i] = raw::empty(mean.sizes(), parameter_dtype, mean.device());
    }
    const Tensor rows_of_dx = rows(dx[0]);
    const DeviceKernels table = kernels(x.device());
    require(table->batch_norm_backward, "batch_norm_backward", *table)(
        MaybeView::as_it_lies(rows_of_dx), MaybeView(dx[1]), MaybeView(dx[2]), raw::view_of(rows(g)),
        raw::view_of(rows(x)), raw::view_of(mean), raw::view_of(var), MaybeView(weight), eps, batch);
  }

  bool has_weight = false;
  DType parameter_dtype = kFloat32;
};

/// Of relu(batch_norm(x) + residual), for the kernels' fused form. Saves what BatchNormBackward does, and the result.
/// Forward reads the residual beside what batch_norm does. Backward reads x, g and the result twice; with a residual
/// its gradient, the masked g, is written in the first pass, and read in the second for g and the result.
struct BatchNormReluBackward : NodeOf<BatchNormReluBackward, 4, 5> {
  static constexpr const char* kName = "BatchNormReluBackward";
  double eps = 0;
  bool batch = false, has_weight = false;
  DType parameter_dtype = kFloat32;

  void backward(const Tensor& g, std::span<Tensor> dx) {
    const BatchNormInputs of{saved(0),       has_weight ? saved(1) : Tensor(), saved(2), saved(3), eps, batch,
                             parameter_dtype};
    const Tensor out = saved(4);
    if (autograd::grad_enabled()) {
      const Tensor masked = g.masked_fill(out.le(0), 0);
      batch_norm_gradients(of, masked, *this, dx);
      dx[3] = masked;
      return;
    }
    const MemoryFormat format = image_format(of.x);
    for (std::size_t i : {0u, 3u}) {
      if (needs_grad(static_cast<int>(i))) dx[i] = raw::empty(of.x.sizes(), of.x.dtype(), of.x.device(), format);
    }
    for (std::size_t i : {1u, 2u}) {
      if (needs_grad(static_cast<int>(i))) dx[i] = raw::empty(of.mean.sizes(), parameter_dtype, of.mean.device());
    }
    const auto rows = [format](const Tensor& t) { return t.defined() ? as_channels(t, format) : t; };
    const Tensor rows_of_dx = rows(dx[0]), rows_of_residual = rows(dx[3]);
    const DeviceKernels table = kernels(of.x.device());
    require(table->batch_norm_relu_backward, "batch_norm_relu_backward", *table)(
        MaybeView::as_it_lies(rows_of_dx), MaybeView(dx[1]), MaybeView(dx[2]), MaybeView::as_it_lies(rows_of_residual),
        raw::view_of(rows(g)), raw::view_of(rows(out)), raw::view_of(rows(of.x)), raw::view_of(of.mean),
        raw::view_of(of.var), MaybeView(of.weight), eps, batch);
  }
};

void check_channels(const char* op, const Tensor& x, const Tensor& tensor, const char* name) {
  if (!tensor.defined()) return;
  TENDRIL_CHECK_AS(ShapeError, tensor.dim() == 1 && tensor.numel() == x.sizes()[1], op, ": ", name, " has shape ",
                   tensor.sizes(), ", expected [", x.sizes()[1], "], the channels of x ", x.sizes());
  TENDRIL_CHECK_AS(DTypeError, tensor.dtype() == x.dtype() || tensor.dtype() == computed_in(x.dtype()), op, ": ", name,
                   " has dtype ", tensor.dtype(), ", expected x's ", x.dtype(),
                   computed_in(x.dtype()) == x.dtype() ? "" : " or float32");
  TENDRIL_CHECK(tensor.device() == x.device(), op, ": ", name, " is on ", tensor.device(), ", expected x's device ",
                x.device());
}

/// The running statistics as the kernels learn them: what has gaps is written back when this ends.
class Learning {
 public:
  Learning(const Tensor& mean, const Tensor& var, double momentum) : mean_(mean), var_(var), momentum_(momentum) {}
  RunningStatistics running() const { return {mean_.view, var_.view, momentum_}; }
  void done() const {
    mean_.done();
    var_.done();
  }

 private:
  struct One {
    explicit One(const Tensor& given) : to(given), view(given) {}
    void done() const {
      if (!to.defined()) return;
      if (view.tensor.impl() != to.impl()) raw::copy_(to, view.tensor);
      to.storage()->bump_version();
    }
    Tensor to;
    MaybeView view;
  };

  One mean_, var_;
  double momentum_;
};

void check_batch_norm(const char* op, const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                      const Tensor& weight, const Tensor& bias, bool training, double eps) {
  TENDRIL_CHECK(x.defined(), op, ": x is undefined");
  TENDRIL_CHECK(training ? eps > 0 : eps >= 0, op, ": eps: got ", eps, ", expected a number ",
                training ? "above 0 in training" : "of 0 or more");
  TENDRIL_CHECK_AS(ShapeError, x.dim() >= 2, op, ": x has shape ", x.sizes(), ", expected [batch, channels, ...]");
  check_channels(op, x, running_mean, "running_mean");
  check_channels(op, x, running_var, "running_var");
  check_channels(op, x, weight, "weight");
  check_channels(op, x, bias, "bias");
  TENDRIL_CHECK_AS(DTypeError, is_floating(x.dtype()), op, ": x has dtype ", x.dtype(), ", expected a floating one");
  TENDRIL_CHECK_AS(DTypeError, !weight.defined() || !bias.defined() || weight.dtype() == bias.dtype(), op,
                   ": bias has dtype ", bias.dtype(), ", expected the weight's, ", weight.dtype());
  TENDRIL_CHECK_AS(ShapeError, !training || x.sizes()[1] == 0 || x.numel() != x.sizes()[1], op,
                   ": training needs more than one value per channel, got x of ", x.sizes());
  TENDRIL_CHECK(training || (running_mean.defined() && running_var.defined()), op,
                ": evaluation needs running_mean and running_var, got an undefined one");
}

/// Mean and variance of the kernels: to be written, or copies of the running ones, which change at the next step.
Tensor statistic(const Tensor& x, const Tensor& running, bool training) {
  const DType wide = computed_in(x.dtype());
  if (!training) return running.dtype() == wide ? raw::clone(running) : raw::cast(running, wide);
  const Dims sizes{x.sizes()[1]};
  return x.numel() > 0 ? raw::empty(sizes, wide, x.device()) : raw::zeros(sizes, wide, x.device());
}

/// What both nodes keep.
template <class N>
void keep_for_backward(N* node, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                       const Tensor& var, bool training, double eps) {
  node->save(0, x);
  node->has_weight = weight.defined();
  if (node->has_weight) node->save(1, weight);
  node->save(2, mean);
  node->save(3, var);
  node->parameter_dtype = weight.defined() ? weight.dtype() : bias.defined() ? bias.dtype() : mean.dtype();
  node->eps = eps;
  node->batch = training;
}

/// The running statistics of a layer; undefined if it has none.
struct RunningTensors {
  Tensor mean, var;
};

/// Moves a running statistic towards `value` in the channels that the kernel left out, because it could not represent
/// their mean or variance. Results above the largest number of the dtype become that number.
void learn_rescaled(const Tensor& running, const Tensor& value, const Tensor& left_out, double momentum) {
  if (!running.defined()) return;
  const double most = running.dtype() == kFloat64   ? std::numeric_limits<double>::max()
                      : running.dtype() == kFloat16 ? 65504.0
                                                    : static_cast<double>(std::numeric_limits<float>::max());
  const NoGrad no_grad;
  const Tensor moved = running * (1 - momentum) + value.reshape(running.sizes()) * momentum;
  running.copy_(tendril::where(left_out, moved.clamp(-most, most), running));
}

/// batch_norm in training where the kernel's `mean` and `var` are out of range.
Tensor rescaled_batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                           const Tensor& var, const RunningTensors& running, double momentum, double eps) {
  const autograd::detail::Rescaled n(x, all_but_channels(x), true, eps);
  const Tensor left_out = mean.isfinite().logical_and(var.isfinite()).logical_not();
  const int64_t elements = x.numel() / x.sizes()[1];
  const auto count = static_cast<double>(elements);
  learn_rescaled(running.mean, n.mean, left_out, momentum);
  learn_rescaled(running.var, n.variance * (count / (count - 1)), left_out, momentum);
  Dims by_channel = Dims::filled(x.dim(), 1);
  by_channel[1] = x.sizes()[1];
  const auto shaped = [&](const Tensor& t) { return t.defined() ? t.reshape(by_channel) : t; };
  return autograd::detail::scaled_and_shifted(n.xhat, shaped(weight), shaped(bias), x.dtype())
      .contiguous(image_format(x));
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                  const Tensor& bias, bool training, double momentum, double eps) {
  check_batch_norm("batch_norm", x, running_mean, running_var, weight, bias, training, eps);
  const Tensor mean = statistic(x, running_mean, training), var = statistic(x, running_var, training);
  const MemoryFormat format = image_format(x);
  Tensor out = raw::empty(x.sizes(), x.dtype(), x.device(), format);
  if (x.numel() > 0) {  // nothing seen, nothing learned
    const Learning learning(training ? running_mean : Tensor(), training ? running_var : Tensor(), momentum);
    const DeviceKernels table = kernels(x.device());
    require(table->batch_norm, "batch_norm", *table)(
        raw::view_of(as_channels(out, format)), raw::view_of(mean), raw::view_of(var),
        raw::view_of(as_channels(x, format)), MaybeView(weight), MaybeView(bias), eps, training, learning.running());
    if (training) {
      learning.done();
      if (!autograd::detail::variances_in_range(var, eps))
        return rescaled_batch_norm(x, weight, bias, mean, var, {running_mean, running_var}, momentum, eps);
    }
  }
  if (auto* node = track<BatchNormBackward>(out, x, weight, bias)) {
    keep_for_backward(node, x, weight, bias, mean, var, training, eps);
  }
  return out;
}

Tensor batch_norm_relu(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                       const Tensor& bias, const BatchNormReluOptions& options) {
  const auto& [residual, training, momentum, eps] = options;
  check_batch_norm("batch_norm_relu", x, running_mean, running_var, weight, bias, training, eps);
  if (residual.defined()) {
    TENDRIL_CHECK_AS(ShapeError, residual.sizes() == x.sizes(), "batch_norm_relu: residual has shape ",
                     residual.sizes(), ", expected x's, ", x.sizes());
    TENDRIL_CHECK(residual.device() == x.device(), "batch_norm_relu: residual is on ", residual.device(),
                  ", expected x's device ", x.device());
  }
  const DeviceKernels table = kernels(x.device());
  if (!table->batch_norm_relu || x.numel() == 0 || (residual.defined() && residual.dtype() != x.dtype())) {
    const Tensor y = batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps);
    return (residual.defined() ? y + residual : y).relu();
  }
  const Tensor mean = statistic(x, running_mean, training), var = statistic(x, running_var, training);
  const MemoryFormat format = image_format(x);
  Tensor out = raw::empty(x.sizes(), x.dtype(), x.device(), format);
  const Tensor rows = residual.defined() ? as_channels(residual, format) : residual;
  const Learning learning(training ? running_mean : Tensor(), training ? running_var : Tensor(), momentum);
  table->batch_norm_relu(raw::view_of(as_channels(out, format)), raw::view_of(mean), raw::view_of(var),
                         raw::view_of(as_channels(x, format)), MaybeView(weight), MaybeView(bias),
                         MaybeView::as_it_lies(rows), eps, training, learning.running());
  if (training) {
    learning.done();
    if (!autograd::detail::variances_in_range(var, eps)) {
      const Tensor y = rescaled_batch_norm(x, weight, bias, mean, var, {running_mean, running_var}, momentum, eps);
      return (residual.defined() ? y + residual : y).relu();
    }
  }
  if (auto* node = track<BatchNormReluBackward>(out, x, weight, bias, residual)) {
    keep_for_backward(node, x, weight, bias, mean, var, training, eps);
    node->save_output(4, out);
  }
  return out;
}

}  // namespace tendril
