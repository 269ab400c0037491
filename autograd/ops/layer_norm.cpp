#include "tendril/autograd/ops/layer_norm.h"

#include <optional>

#include "tendril/autograd/detail/maybe_view.h"
#include "tendril/autograd/detail/normalised.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

using autograd::NodeOf;
using autograd::track;
using autograd::detail::MaybeView, autograd::detail::Rescaled, autograd::detail::scaled_and_shifted;

/// Each line is `length` elements long.
Tensor as_lines(const Tensor& x, int64_t length) {
  return raw::view(autograd::detail::alias(raw::contiguous(x)), {x.numel() / length, length});
}

/// The last `count` dimensions of x.
Dims last_dims(const Tensor& x, int count) {
  Dims dims;
  for (int d = x.dim() - count; d < x.dim(); ++d) dims.push_back(d);
  return dims;
}
Dims first_dims(int count) {
  Dims dims;
  for (int d = 0; d < count; ++d) dims.push_back(d);
  return dims;
}

/// x normalised, made of operations that any device has and that can be recorded; `mean` and `rstd` keep x's
/// dimensions.
struct Normalised {
  Normalised(const Tensor& x, const Dims& dims, bool centred, double eps) {
    const Tensor about = centred ? x - x.mean(dims, true) : x;
    rstd = (about.square().mean(dims, true) + eps).rsqrt();
    xhat = about * rstd;
  }
  Tensor xhat, rstd;
};

/// Few lines that are very long: a device's kernel, a block a line, would leave most of the device idle, and other
/// operations share a line out.
bool by_other_operations(const Tensor& x, int64_t length) {
  constexpr int64_t kLong = int64_t{1} << 16, kFew = 256;
  return !x.device().is_cpu() && length >= kLong && x.numel() / length < kFew;
}

/// Saves x, weight, mean (if centred) and rstd of each line.
struct LayerNormBackward : NodeOf<LayerNormBackward, 3, 4> {
  static constexpr const char* kName = "LayerNormBackward";
  double eps = 0;
  int count = 1;  ///< of dimensions that are normalised over
  DType parameter_dtype = kFloat32;
  bool centred = true, has_weight = false;

  void backward(const Tensor& g, std::span<Tensor> dx) {
    const Tensor x = saved(0);
    if (x.numel() == 0) {  // no line: nothing came from weight and bias
      dx[0] = g;
      dx[1] = dx[2] = g.sum(first_dims(g.dim() - count));
    } else if (autograd::grad_enabled() || by_other_operations(x, x.numel() / saved(3).numel())) {
      composite(g, x, dx);
    } else {
      fused(g, x, dx);
    }
  }

  void fused(const Tensor& g, const Tensor& x, std::span<Tensor> dx) {
    const Tensor weight = has_weight ? saved(1) : Tensor(), mean = centred ? saved(2) : Tensor(), rstd = saved(3);
    const int64_t length = x.numel() / rstd.numel();
    Dims line;
    for (int d = x.dim() - count; d < x.dim(); ++d) line.push_back(x.sizes()[d]);
    if (needs_grad(0)) dx[0] = raw::empty(x.sizes(), x.dtype(), x.device());
    for (int i : {1, 2}) {
      if (needs_grad(i)) dx[static_cast<std::size_t>(i)] = raw::empty(line, parameter_dtype, x.device());
    }
    const Tensor lines_of_dx = dx[0].defined() ? as_lines(dx[0], length) : dx[0];
    const DeviceKernels table = kernels(x.device());
    require(table->layer_norm_backward, "layer_norm", *table)(
        MaybeView(lines_of_dx), MaybeView(dx[1]), MaybeView(dx[2]), raw::view_of(as_lines(g, length)),
        raw::view_of(as_lines(x, length)), MaybeView(mean), raw::view_of(rstd), MaybeView(weight));
  }

  /// The same in operations that can be recorded, from the inputs alone: the statistics depend on x.
  void composite(const Tensor& given, const Tensor& of_node, std::span<Tensor> dx) {
    const DType wide = computed_in(of_node.dtype());
    const Tensor x = of_node.to(wide), g = given.to(wide);
    const Dims over = last_dims(x, count);
    const Normalised n(x, over, centred, eps);
    const Dims lines = first_dims(x.dim() - count);
    const auto over_lines = [&](const Tensor& t) { return lines.empty() ? t : t.sum(lines); };
    if (needs_grad(1)) dx[1] = over_lines(g * n.xhat).to(parameter_dtype);
    if (needs_grad(2)) dx[2] = over_lines(g).to(parameter_dtype);
    if (!needs_grad(0)) return;
    const Tensor h = has_weight ? g * saved(1).to(wide) : g;
    const Tensor of_size = n.xhat * (h * n.xhat).mean(over, true);
    dx[0] = ((centred ? h - h.mean(over, true) - of_size : h - of_size) * n.rstd).to(of_node.dtype());
  }
};

void check_parameter(const char* op, const char* name, const Tensor& x, const Tensor& tensor, const Dims& shape) {
  if (!tensor.defined()) return;
  TENDRIL_CHECK_AS(ShapeError, tensor.sizes() == shape, op, ": ", name, " has shape ", tensor.sizes(), ", expected ",
                   shape);
  TENDRIL_CHECK_AS(DTypeError, tensor.dtype() == x.dtype() || tensor.dtype() == computed_in(x.dtype()), op, ": ", name,
                   " has dtype ", tensor.dtype(), ", expected x's ", x.dtype(),
                   computed_in(x.dtype()) == x.dtype() ? "" : " or float32");
  TENDRIL_CHECK(tensor.device() == x.device(), op, ": ", name, " is on ", tensor.device(), ", expected x's device ",
                x.device());
}

Tensor normalised_lines(const char* op, const Tensor& x, const Dims& shape, const Tensor& weight, const Tensor& bias,
                        double eps, bool centred) {
  TENDRIL_CHECK(x.defined(), op, ": x is undefined");
  TENDRIL_CHECK_AS(DTypeError, is_floating(x.dtype()), op, ": x has dtype ", x.dtype(), ", expected a floating one");
  const int count = shape.size();
  bool fits = count > 0 && count <= x.dim() && numel_of(shape) > 0;
  for (int d = 0; fits && d < count; ++d) fits = x.sizes()[x.dim() - count + d] == shape[d];
  TENDRIL_CHECK_AS(ShapeError, fits, op, ": x has shape ", x.sizes(), ", expected [..., normalized_shape] with ", shape,
                   " as normalized_shape, of at least one size and none 0");
  check_parameter(op, "weight", x, weight, shape);
  check_parameter(op, "bias", x, bias, shape);
  TENDRIL_CHECK_AS(DTypeError, !weight.defined() || !bias.defined() || weight.dtype() == bias.dtype(), op,
                   ": bias has dtype ", bias.dtype(), ", expected the weight's, ", weight.dtype());

  const DType wide = computed_in(x.dtype());
  const int64_t length = numel_of(shape), lines = x.numel() / length;
  Tensor out, mean, rstd;
  if (x.numel() == 0) {
    out = raw::empty(x.sizes(), x.dtype(), x.device());
    mean = rstd = raw::empty({0}, wide, x.device());
  } else if (by_other_operations(x, length)) {
    const NoGrad no_grad;
    const Normalised n(x.to(wide), last_dims(x, count), centred, eps);
    out = raw::contiguous(scaled_and_shifted(n.xhat, weight, bias, x.dtype()));
    mean = rstd = raw::view(raw::contiguous(n.rstd), {lines});  // the formulas work both out anew
  } else {
    out = raw::empty(x.sizes(), x.dtype(), x.device());
    rstd = raw::empty({lines}, wide, x.device());
    if (centred) mean = raw::empty_like(rstd);
    const DeviceKernels table = kernels(x.device());
    require(table->layer_norm, op, *table)(raw::view_of(as_lines(out, length)), MaybeView(mean), raw::view_of(rstd),
                                           raw::view_of(as_lines(x, length)), MaybeView(weight), MaybeView(bias), eps);
    if (!autograd::detail::rstd_in_range(rstd)) {
      const Rescaled n(x, last_dims(x, count), centred, eps);
      return scaled_and_shifted(n.xhat, weight, bias, x.dtype());
    }
  }
  if (auto* node = track<LayerNormBackward>(out, x, weight, bias)) {
    node->save(0, x);
    node->has_weight = weight.defined();
    if (node->has_weight) node->save(1, weight);
    if (centred) node->save(2, mean);
    node->save(3, rstd);
    node->parameter_dtype = weight.defined() ? weight.dtype() : bias.defined() ? bias.dtype() : wide;
    node->eps = eps;
    node->count = count;
    node->centred = centred;
  }
  return out;
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& weight, const Tensor& bias, double eps) {
  return normalised_lines("layer_norm", x, normalized_shape, weight, bias, eps, true);
}

Tensor rms_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& weight, double eps) {
  return normalised_lines("rms_norm", x, normalized_shape, weight, {}, eps, false);
}

Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias, double eps) {
  TENDRIL_CHECK(x.defined(), "group_norm: x is undefined");
  TENDRIL_CHECK(groups > 0, "group_norm: groups: got ", groups, ", expected a positive number");
  TENDRIL_CHECK_AS(ShapeError, x.dim() >= 2 && x.sizes()[1] % groups == 0, "group_norm: x has shape ", x.sizes(),
                   ", expected [batch, channels, ...] with channels that ", groups, " groups divide");
  const int64_t batch = x.sizes()[0], channels = x.sizes()[1];
  int64_t length = channels / groups;
  for (int d = 2; d < x.dim(); ++d) length *= x.sizes()[d];
  check_parameter("group_norm", "weight", x, weight, {channels});
  check_parameter("group_norm", "bias", x, bias, {channels});
  if (const DType wide = computed_in(x.dtype()); wide != x.dtype()) {  // rounded once, behind weight and bias
    const auto widened = [&](const Tensor& t) { return t.defined() ? t.to(wide) : t; };
    return group_norm(widened(x), groups, widened(weight), widened(bias), eps).to(x.dtype());
  }
  Dims by_channel = Dims::filled(x.dim(), 1);
  by_channel[1] = channels;
  Tensor y = normalised_lines("group_norm", x.reshape({batch, groups, length}), {length}, {}, {}, eps, true)
                 .reshape(x.sizes());
  if (weight.defined()) y = y * weight.reshape(by_channel);
  return bias.defined() ? y + bias.reshape(by_channel) : y;
}

}  // namespace tendril
