#include "tendril/autograd/ops/norm.h"

#include <optional>

#include "tendril/autograd/detail/maybe_view.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

using autograd::NodeOf;
using autograd::track;
using autograd::detail::MaybeView;

/// x as the kernels see it.
Tensor as_channels(const Tensor& x) {
  const Tensor whole = raw::contiguous(x);
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

struct BatchNormBackward : NodeOf<BatchNormBackward, 3, 4> {
  static constexpr const char* kName = "BatchNormBackward";
  double eps = 0;
  bool batch = false;  ///< mean and variance are the batch's

  void backward(const Tensor& g, std::span<Tensor> dx) {
    if (g.numel() == 0) {  // the formulas would divide by the number of elements
      dx[0] = g;
      dx[1] = dx[2] = g.sum(all_but_channels(g));
    } else if (autograd::grad_enabled()) {
      composite(g, dx);
    } else {
      fused(g, dx);
    }
  }

  void fused(const Tensor& g, std::span<Tensor> dx) {
    const Tensor x = saved(0), weight = has_weight ? saved(1) : Tensor(), mean = saved(2), var = saved(3);
    if (needs_grad(0)) dx[0] = raw::empty_like(x);
    for (std::size_t i : {1u, 2u}) {
      if (needs_grad(static_cast<int>(i))) dx[i] = raw::empty_like(mean);
    }
    const Tensor rows_of_dx = dx[0].defined() ? as_channels(dx[0]) : dx[0];
    const Kernels& table = kernels(x.device());
    require(table.batch_norm_backward, "batch_norm_backward", table)(
        MaybeView(rows_of_dx), MaybeView(dx[1]), MaybeView(dx[2]), raw::view_of(as_channels(g)),
        raw::view_of(as_channels(x)), raw::view_of(mean), raw::view_of(var), MaybeView(weight), eps, batch);
  }

  /// The same in operations that can be recorded, from the inputs alone: the statistics depend on x.
  void composite(const Tensor& g, std::span<Tensor> dx) {
    const Tensor x = saved(0);
    const Dims others = all_but_channels(x);
    Dims by_channel = Dims::filled(x.dim(), 1);
    by_channel[1] = x.sizes()[1];
    const Tensor centred = x - (batch ? x.mean(others, true) : saved(2).reshape(by_channel));
    const Tensor var = batch ? (centred * centred).mean(others, true) : saved(3).reshape(by_channel);
    const Tensor r = (var + eps).rsqrt(), xhat = centred * r;
    if (needs_grad(1)) dx[1] = (g * xhat).sum(others);
    if (needs_grad(2)) dx[2] = g.sum(others);
    if (!needs_grad(0)) return;
    const Tensor scale = has_weight ? r * saved(1).reshape(by_channel) : r;
    dx[0] = batch ? (g - g.mean(others, true) - xhat * (g * xhat).mean(others, true)) * scale : g * scale;
  }

  bool has_weight = false;
};

void check_channels(const Tensor& x, const Tensor& tensor, const char* name) {
  if (!tensor.defined()) return;
  TENDRIL_CHECK_AS(ShapeError, tensor.dim() == 1 && tensor.numel() == x.sizes()[1], "batch_norm: ", name, " has shape ",
                   tensor.sizes(), ", expected [", x.sizes()[1], "], the channels of x ", x.sizes());
  TENDRIL_CHECK_AS(DTypeError, tensor.dtype() == x.dtype(), "batch_norm: ", name, " has dtype ", tensor.dtype(),
                   ", expected x's ", x.dtype());
  TENDRIL_CHECK(tensor.device() == x.device(), "batch_norm: ", name, " is on ", tensor.device(),
                ", expected x's device ", x.device());
}

void move_towards(const Tensor& running, const Tensor& value, double momentum) {
  if (!running.defined()) return;
  raw::binary_(Binary::mul, running, 1 - momentum);
  raw::add_scaled_(running, value, momentum);
  running.storage()->bump_version();
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                  const Tensor& bias, bool training, double momentum, double eps) {
  TENDRIL_CHECK(x.defined(), "batch_norm: x is undefined");
  TENDRIL_CHECK_AS(ShapeError, x.dim() >= 2, "batch_norm: x has shape ", x.sizes(),
                   ", expected [batch, channels, ...]");
  check_channels(x, running_mean, "running_mean");
  check_channels(x, running_var, "running_var");
  check_channels(x, weight, "weight");
  check_channels(x, bias, "bias");
  const int64_t channels = x.sizes()[1];
  const int64_t count = channels == 0 ? 0 : x.numel() / channels;
  TENDRIL_CHECK_AS(ShapeError, !training || count != 1,
                   "batch_norm: training needs more than one value per channel, got x of ", x.sizes());
  TENDRIL_CHECK(training || (running_mean.defined() && running_var.defined()),
                "batch_norm: evaluation needs running_mean and running_var, got an undefined one");

  // Copies of the running statistics: those of the module change at its next step.
  const auto statistic = [&](const Tensor& running) {
    if (!training) return raw::clone(running);
    return x.numel() > 0 ? raw::empty({channels}, x.dtype(), x.device())
                         : raw::zeros({channels}, x.dtype(), x.device());
  };
  const Tensor mean = statistic(running_mean), var = statistic(running_var);
  Tensor out = raw::empty(x.sizes(), x.dtype(), x.device());
  if (x.numel() > 0) {
    const Kernels& table = kernels(x.device());
    require(table.batch_norm, "batch_norm", table)(raw::view_of(as_channels(out)), raw::view_of(mean),
                                                   raw::view_of(var), raw::view_of(as_channels(x)), MaybeView(weight),
                                                   MaybeView(bias), eps, training);
  }
  if (training && x.numel() > 0) {  // nothing seen, nothing learned
    const auto n = static_cast<double>(count);
    move_towards(running_mean, mean, momentum);
    move_towards(running_var, raw::binary(Binary::mul, var, n / (n - 1)), momentum);
  }
  if (auto* node = track<BatchNormBackward>(out, x, weight, bias)) {
    node->save(0, x);
    node->has_weight = weight.defined();
    if (node->has_weight) node->save(1, weight);
    node->save(2, mean);
    node->save(3, var);
    node->eps = eps;
    node->batch = training;
  }
  return out;
}

}  // namespace tendril
