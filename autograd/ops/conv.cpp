#include "tendril/autograd/ops/conv.h"

#include <algorithm>
#include <vector>

#include "tendril/autograd/autocast.h"
#include "tendril/autograd/detail/maybe_view.h"
#include "tendril/autograd/detail/prepared_conv.h"
#include "tendril/autograd/detail/running_again.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/rearrange.h"
#include "tendril/tensor/detail/named_error.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

using autograd::NodeOf;
using autograd::track;
using autograd::detail::MaybeView;

// The result is linear in x and in the weight. The three maps are each other's gradients:
//   out = conv(x, w),    x' = data(out, w),    w' = filter(x, out),    <out, conv(x, w)> = <x, data(out, w)> = <w, ...>
// so that a gradient of any order is made of the same three.

/// How the window moves, and how images and weights lie: the same for all gradients of one convolution.
struct How {
  ConvGeometry geometry;
  MemoryFormat images = MemoryFormat::contiguous, weights = MemoryFormat::contiguous;
};
Tensor conv(const Tensor& x, const Tensor& w, const Tensor& bias, const How& how, bool relu = false,
            tendril::detail::PreparedWeight* prepared = nullptr);
Tensor data(const Tensor& out, const Tensor& w, const Dims& x_sizes, const How& how,
            tendril::detail::PreparedForms* prepared = nullptr);
Tensor filter(const Tensor& x, const Tensor& out, const Dims& w_sizes, const How& how);

/// As in PyTorch images lie channels-last if those given do or the weight does (a kernel of one place is either).
How how_of(const Tensor& images, const Tensor& w, const ConvGeometry& geometry) {
  if (!kernels(images.device())->channels_last) return {geometry};
  const MemoryFormat weights = w.suggest_memory_format();
  const bool last =
      weights == MemoryFormat::channels_last || images.suggest_memory_format() == MemoryFormat::channels_last;
  return {geometry, last ? MemoryFormat::channels_last : MemoryFormat::contiguous, weights};
}

struct Conv2dBackward : NodeOf<Conv2dBackward, 3, 2> {
  static constexpr const char* kName = "Conv2dBackward";
  Dims x_sizes, w_sizes;
  How how;
  std::weak_ptr<tendril::detail::FormsOfWeight> prepared;  ///< the layer's, if it has any

  void backward(const Tensor& g, std::span<Tensor> dx) {
    if (needs_grad(0)) {
      const Tensor w = saved(1);
      const auto forms = prepared.lock();
      dx[0] = data(g, w, x_sizes, how, forms && forms->is_of(*w.storage()) ? forms.get() : nullptr);
    }
    if (needs_grad(1)) dx[1] = filter(saved(0), g, w_sizes, how);
    if (needs_grad(2)) dx[2] = g.sum({0, 2, 3});
  }
};

struct Conv2dDataBackward : NodeOf<Conv2dDataBackward, 2, 2> {
  static constexpr const char* kName = "Conv2dDataBackward";
  Dims w_sizes;
  How how;

  void backward(const Tensor& g, std::span<Tensor> dx) {
    if (needs_grad(0)) dx[0] = conv(g, saved(1), {}, how);
    if (needs_grad(1)) dx[1] = filter(g, saved(0), w_sizes, how);
  }
};

struct Conv2dFilterBackward : NodeOf<Conv2dFilterBackward, 2, 2> {
  static constexpr const char* kName = "Conv2dFilterBackward";
  Dims x_sizes;
  How how;

  void backward(const Tensor& g, std::span<Tensor> dx) {
    if (needs_grad(0)) dx[0] = data(saved(1), g, x_sizes, how);
    if (needs_grad(1)) dx[1] = conv(saved(0), g, {}, how);
  }
};

/// Saves of each operand what the other's gradient needs.
template <class N>
void save_operands(N* n, const Tensor& first, const Tensor& second, const How& how) {
  if (n->has_edge(1)) n->save(0, first);
  if (n->has_edge(0)) n->save(1, second);
  n->how = how;
}

Tensor conv(const Tensor& x, const Tensor& w, const Tensor& bias, const How& how, bool relu,
            tendril::detail::PreparedWeight* prepared) {
  if (autograd::detail::is_running_again()) prepared = nullptr;  // this is no further call
  const bool recorded = autograd::grad_enabled() &&
                        (autograd::requires_grad(x) || autograd::requires_grad(w) || autograd::requires_grad(bias));
  if (relu && recorded) return conv(x, w, bias, how, false, prepared).relu();
  const ConvGeometry& g = how.geometry;
  const DeviceKernels table = kernels(x.device());
  Tensor out = raw::empty(
      {x.sizes()[0], w.sizes()[0], window_count(x.sizes()[2], w.sizes()[2], g.stride.h, g.padding.h, g.dilation.h),
       window_count(x.sizes()[3], w.sizes()[3], g.stride.w, g.padding.w, g.dilation.w)},
      x.dtype(), x.device(), how.images);
  const Tensor whole_x = raw::contiguous(x, how.images), whole_w = raw::contiguous(w, how.weights);
  std::shared_ptr<tendril::detail::FormsOfWeight> forms;
  if (prepared) {
    constexpr int64_t kFew = 1024;  // numbers that are sooner put in order than looked for
    if (x.device().is_cpu() && w.dtype() == kFloat32 && w.numel() > kFew && whole_w.is_same(w) &&
        !w.storage()->may_change_unseen()) {
      forms = prepared->forms_of(w.storage(), recorded);
    } else {
      prepared->clear();
    }
  }
  if (table->conv2d_relu && (bias.defined() || relu || forms)) {
    const Tensor shift = bias.defined() ? raw::contiguous(bias) : bias;
    table->conv2d_relu(raw::view_of(out), raw::view_of(whole_x), raw::view_of(whole_w), MaybeView(shift), relu, g,
                       forms.get());
  } else {
    require(table->conv2d, "conv2d", *table)(raw::view_of(out), raw::view_of(whole_x), raw::view_of(whole_w), g);
    if (bias.defined()) raw::binary_(Binary::add, out, raw::view(raw::contiguous(bias), {-1, 1, 1}));
    if (relu) raw::unary_(Unary::relu, out);
  }
  if (auto* n = track<Conv2dBackward>(out, x, w, bias)) {
    save_operands(n, x, w, how);
    n->x_sizes = x.sizes();
    n->w_sizes = w.sizes();
    n->prepared = forms;
  }
  return out;
}

Tensor data(const Tensor& out, const Tensor& w, const Dims& x_sizes, const How& how,
            tendril::detail::PreparedForms* prepared) {
  const DeviceKernels table = kernels(out.device());
  Tensor x = raw::empty(x_sizes, out.dtype(), out.device(), how.images);
  require(table->conv2d_data, "conv2d_data", *table)(raw::view_of(x), raw::view_of(raw::contiguous(out, how.images)),
                                                     raw::view_of(raw::contiguous(w, how.weights)), how.geometry,
                                                     prepared);
  if (auto* n = track<Conv2dDataBackward>(x, out, w)) {
    save_operands(n, out, w, how);
    n->w_sizes = w.sizes();
  }
  return x;
}

Tensor filter(const Tensor& x, const Tensor& out, const Dims& w_sizes, const How& how) {
  const DeviceKernels table = kernels(out.device());
  Tensor w = raw::empty(w_sizes, out.dtype(), out.device(), how.weights);
  require(table->conv2d_filter, "conv2d_filter", *table)(raw::view_of(w), raw::view_of(raw::contiguous(x, how.images)),
                                                         raw::view_of(raw::contiguous(out, how.images)), how.geometry);
  if (auto* n = track<Conv2dFilterBackward>(w, x, out)) {
    save_operands(n, x, out, how);
    n->x_sizes = x.sizes();
  }
  return w;
}

void check_geometry(const char* op, const ConvGeometry& g) {
  TENDRIL_CHECK(g.stride.h > 0 && g.stride.w > 0, op, ": stride: got ", g.stride, ", expected positive numbers");
  TENDRIL_CHECK(g.padding.h >= 0 && g.padding.w >= 0, op, ": padding: got ", g.padding,
                ", expected numbers of 0 or more");
  TENDRIL_CHECK(g.dilation.h > 0 && g.dilation.w > 0, op, ": dilation: got ", g.dilation,
                ", expected positive numbers");
  TENDRIL_CHECK(g.groups > 0, op, ": groups: got ", g.groups, ", expected a positive number");
}

void check_device(const char* op, const Tensor& x, const Tensor& other, const char* name) {
  TENDRIL_CHECK(x.device() == other.device(), op, ": ", name, " is on ", other.device(), ", expected x's device ",
                x.device());
}

void check_operand(const char* op, const Tensor& x, const Tensor& other, const char* name) {
  TENDRIL_CHECK_AS(DTypeError, x.dtype() == other.dtype(), op, ": ", name, " has dtype ", other.dtype(),
                   ", expected x's ", x.dtype());
  check_device(op, x, other, name);
}

/// For each of `count` windows the places of its `kernel` taps, one behind the other.
Tensor tap_places(int64_t count, int64_t kernel, int64_t stride, int64_t dilation) {
  std::vector<int64_t> places;
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t k = 0; k < kernel; ++k) places.push_back(i * stride + k * dilation);
  }
  return raw::from_data(places, {count * kernel});
}

/// No kernel takes integers: a product of all windows and the weight, of checked operands.
Tensor conv_of_integers(const Tensor& x, const Tensor& w, const Tensor& bias, const ConvGeometry& g, bool relu) {
  const Tensor padded = pad(x, {g.padding.w, g.padding.w, g.padding.h, g.padding.h});
  const int64_t batch = x.size(0), results = w.size(0), in = w.size(1), kernel_h = w.size(2), kernel_w = w.size(3);
  const int64_t rows = window_count(padded.size(2), kernel_h, g.stride.h, 0, g.dilation.h),
                columns = window_count(padded.size(3), kernel_w, g.stride.w, 0, g.dilation.w);
  const Tensor windows = padded.index_select(2, tap_places(rows, kernel_h, g.stride.h, g.dilation.h))
                             .index_select(3, tap_places(columns, kernel_w, g.stride.w, g.dilation.w))
                             .reshape({batch, g.groups, in, rows, kernel_h, columns, kernel_w})
                             .permute({0, 1, 2, 4, 6, 3, 5})
                             .reshape({batch, g.groups, in * kernel_h * kernel_w, rows * columns});
  Tensor out = w.reshape({g.groups, results / g.groups, in * kernel_h * kernel_w})
                   .matmul(windows)
                   .reshape({batch, results, rows, columns});
  if (bias.defined()) out = out + bias.view({-1, 1, 1});
  return relu ? out.relu() : out;
}

Tensor checked_conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvGeometry& geometry, bool relu,
                    tendril::detail::PreparedWeight* prepared = nullptr) {
  const char* const op = relu ? "conv2d_relu" : "conv2d";
  TENDRIL_CHECK(x.defined() && weight.defined(), op, ": ", x.defined() ? "weight" : "x", " is undefined");
  if (autograd::detail::autocast_on()) [[unlikely]] {
    const Tensor low_x = autograd::detail::lowered(x), low_weight = autograd::detail::lowered(weight),
                 low_bias = autograd::detail::lowered(bias);
    const autograd::detail::AutocastOff done;
    const bool own = low_weight.is_same(weight);
    if (prepared && !own) prepared->clear();  // forms of the weight itself, which this call does not take
    return checked_conv(low_x, low_weight, low_bias, geometry, relu, own ? prepared : nullptr);
  }
  check_geometry(op, geometry);
  check_operand(op, x, weight, "weight");
  TENDRIL_CHECK_AS(DTypeError, is_floating(x.dtype()) || (x.dtype() != kBool && x.device().is_cpu()), op,
                   ": x has dtype ", x.dtype(), ", expected a floating one", x.device().is_cpu() ? " or integers" : "");
  TENDRIL_CHECK_AS(ShapeError, weight.dim() == 4, op, ": weight has shape ", weight.sizes(),
                   ", expected [out, in / groups, height, width]");
  const int64_t results = weight.sizes()[0], in = weight.sizes()[1] * geometry.groups;
  TENDRIL_CHECK_AS(ShapeError, (x.dim() == 4 || x.dim() == 3) && x.size(-3) == in, op, ": x has shape ", x.sizes(),
                   ", expected [batch, ", in, ", height, width] or [", in, ", height, width] for a weight of ",
                   weight.sizes(), " and ", geometry.groups, " groups");
  TENDRIL_CHECK_AS(ShapeError, results % geometry.groups == 0, op, ": weight has ", results, " output channels, which ",
                   geometry.groups, " groups do not divide");
  if (bias.defined()) {
    check_operand(op, x, bias, "bias");
    TENDRIL_CHECK_AS(ShapeError, bias.dim() == 1 && bias.numel() == results, op, ": bias has shape ", bias.sizes(),
                     ", expected [", results, "]");
  }
  const Size2 image(x.size(-2), x.size(-1)), kernel(weight.size(2), weight.size(3));
  const auto fits = [](int64_t size, int64_t window, int64_t padding, int64_t dilation) {
    return window > 0 && window_count(size, window, 1, padding, dilation) > 0;
  };
  TENDRIL_CHECK_AS(ShapeError,
                   fits(image.h, kernel.h, geometry.padding.h, geometry.dilation.h) &&
                       fits(image.w, kernel.w, geometry.padding.w, geometry.dilation.w),
                   op, ": a kernel of ", kernel, ", dilated by ", geometry.dilation, ", does not fit an image of ",
                   image, " padded by ", geometry.padding);
  const Tensor images = x.dim() == 3 ? x.unsqueeze(0) : x;
  const Tensor out = is_floating(x.dtype())
                         ? conv(images, weight, bias, how_of(images, weight, geometry), relu, prepared)
                         : conv_of_integers(images, weight, bias, geometry, relu);
  return x.dim() == 3 ? out.squeeze(0) : out;
}

/// What `window_count` takes back to `count`: the smallest such size, plus `extra`. 0 where it leaves 64 bits.
int64_t size_before(int64_t count, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, int64_t extra) {
  int64_t size, reach, around;
  const bool fits = !__builtin_mul_overflow(count - 1, stride, &size) &&
                    !__builtin_mul_overflow(kernel - 1, dilation, &reach) &&
                    !__builtin_mul_overflow(padding, 2, &around) && !__builtin_sub_overflow(size, around, &size) &&
                    !__builtin_add_overflow(size, reach, &size) && !__builtin_add_overflow(size, extra, &size) &&
                    !__builtin_add_overflow(size, 1, &size);
  return fits ? size : 0;
}

Tensor checked_transpose(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias,
                         const ConvGeometry& g, Size2 extra) {
  TENDRIL_CHECK(x.defined() && weight.defined(), op, ": ", x.defined() ? "weight" : "x", " is undefined");
  if (autograd::detail::autocast_on()) [[unlikely]] {
    const Tensor low_x = autograd::detail::lowered(x), low_weight = autograd::detail::lowered(weight),
                 low_bias = autograd::detail::lowered(bias);
    const autograd::detail::AutocastOff done;
    return checked_transpose(op, low_x, low_weight, low_bias, g, extra);
  }
  check_geometry(op, g);
  check_operand(op, x, weight, "weight");
  TENDRIL_CHECK_AS(DTypeError, is_floating(x.dtype()), op, ": x has dtype ", x.dtype(), ", expected a floating one");
  TENDRIL_CHECK_AS(ShapeError, weight.dim() == 4 && weight.size(2) > 0 && weight.size(3) > 0, op, ": weight has shape ",
                   weight.sizes(), ", expected [in, out / groups, height, width]");
  const int64_t in = weight.sizes()[0], out = weight.sizes()[1] * g.groups;
  TENDRIL_CHECK_AS(ShapeError, in % g.groups == 0, op, ": weight has ", in, " input channels, which ", g.groups,
                   " groups do not divide");
  TENDRIL_CHECK_AS(ShapeError, (x.dim() == 4 || x.dim() == 3) && x.size(-3) == in && x.size(-2) > 0 && x.size(-1) > 0,
                   op, ": x has shape ", x.sizes(), ", expected [batch, ", in, ", height, width] or [", in,
                   ", height, width] with at least one pixel, for a weight of ", weight.sizes());
  if (bias.defined()) {
    check_operand(op, x, bias, "bias");
    TENDRIL_CHECK_AS(ShapeError, bias.dim() == 1 && bias.numel() == out, op, ": bias has shape ", bias.sizes(),
                     ", expected [", out, "]");
  }
  TENDRIL_CHECK(extra.h >= 0 && extra.w >= 0 && extra.h < std::max(g.stride.h, g.dilation.h) &&
                    extra.w < std::max(g.stride.w, g.dilation.w),
                op, ": output_padding: got ", extra, ", expected numbers of 0 or more, below the stride ", g.stride,
                " or the dilation ", g.dilation);
  const Size2 kernel(weight.size(2), weight.size(3));
  const Size2 image(size_before(x.size(-2), kernel.h, g.stride.h, g.padding.h, g.dilation.h, extra.h),
                    size_before(x.size(-1), kernel.w, g.stride.w, g.padding.w, g.dilation.w, extra.w));
  TENDRIL_CHECK_AS(ShapeError, image.h > 0 && image.w > 0, op, ": the result would be of ", image, ", for x of ",
                   x.sizes(), ", a kernel of ", kernel, " and padding ", g.padding);
  if (x.dim() == 3) return checked_transpose(op, x.unsqueeze(0), weight, bias, g, extra).squeeze(0);
  // An output_padding of the stride or more has room for further windows: of zeros.
  const int64_t more_h = window_count(image.h, kernel.h, g.stride.h, g.padding.h, g.dilation.h) - x.size(2),
                more_w = window_count(image.w, kernel.w, g.stride.w, g.padding.w, g.dilation.w) - x.size(3);
  const Tensor given = more_h > 0 || more_w > 0 ? pad(x, {0, more_w, 0, more_h}) : x;
  const Tensor result = data(given, weight, {x.size(0), out, image.h, image.w}, how_of(given, weight, g));
  return bias.defined() ? result + bias.view({-1, 1, 1}) : result;
}

void check_sequences(const char* op, const Tensor& x, const Tensor& weight, const char* expected) {
  TENDRIL_CHECK(x.defined() && weight.defined(), op, ": ", x.defined() ? "weight" : "x", " is undefined");
  TENDRIL_CHECK_AS(ShapeError, weight.dim() == 3, op, ": weight has shape ", weight.sizes(), ", expected ", expected);
  TENDRIL_CHECK_AS(ShapeError, x.dim() == 2 || x.dim() == 3, op, ": x has shape ", x.sizes(),
                   ", expected [batch, in, length] or [in, length]");
}

ConvGeometry of_height_one(const Conv1dGeometry& g) {
  return {{1, g.stride}, {0, g.padding}, {1, g.dilation}, g.groups};
}

}  // namespace

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvGeometry& geometry,
                        Size2 output_padding) {
  return checked_transpose("conv_transpose2d", x, weight, bias, geometry, output_padding);
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv1dGeometry& g) {
  check_sequences("conv1d", x, weight, "[out, in / groups, kernel]");
  check_device("conv1d", x, weight, "weight");
  if (bias.defined()) check_device("conv1d", x, bias, "bias");
  return tendril::detail::named_errors("conv1d", {"conv2d"}, [&] {
    return conv2d(x.unsqueeze(-2), weight.unsqueeze(-2), bias, of_height_one(g)).squeeze(-2);
  });
}

Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv1dGeometry& g,
                        int64_t output_padding) {
  check_sequences("conv_transpose1d", x, weight, "[in, out / groups, kernel]");
  return checked_transpose("conv_transpose1d", x.unsqueeze(-2), weight.unsqueeze(-2), bias, of_height_one(g),
                           {0, output_padding})
      .squeeze(-2);
}

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvGeometry& geometry) {
  return checked_conv(x, weight, bias, geometry, false);
}

Tensor conv2d_relu(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvGeometry& geometry) {
  return checked_conv(x, weight, bias, geometry, true);
}

Tensor autograd::detail::conv2d_prepared(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                         const ConvGeometry& geometry, bool relu,
                                         tendril::detail::PreparedWeight& prepared) {
  return checked_conv(x, weight, bias, geometry, relu, &prepared);
}

}  // namespace tendril
