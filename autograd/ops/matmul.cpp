#include "tendril/autograd/ops/matmul.h"

#include <cmath>

#include "tendril/autograd/autocast.h"
#include "tendril/autograd/detail/maybe_view.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

using autograd::NodeOf;
using autograd::track;

void check_operands(const Tensor& a, const Tensor& b, const char* op, const char* b_name,
                    const char* a_name = "the tensor") {
  detail::check_defined(a, op, a_name);
  detail::check_defined(b, op, b_name);
  TENDRIL_CHECK_AS(DTypeError, a.dtype() == b.dtype(), op, ": ", b_name, " is ", b.dtype(), ", expected ", a.dtype(),
                   ", as ", a_name);
  TENDRIL_CHECK(a.device() == b.device(), op, ": ", b_name, " is on ", b.device(), ", expected ", a.device(),
                ", as the first operand");
}

Tensor raw_product(const Tensor& a, const View& b, const Dims& sizes, const char* op, DType dtype) {
  const TensorImpl& left = *a.impl();
  const Device device = left.storage->device();
  const DeviceKernels table = kernels(device);
  Tensor out = raw::empty(sizes, dtype, device);
  require(table->matmul, op, *table)(raw::view_of(*out.impl()), raw::view_of(left), b);
  return out;
}

/// All dimensions but the last as one.
Tensor as_rows(const Tensor& x) {
  if (x.dim() == 2) return x;
  const Dims leading(std::span(x.sizes().data(), static_cast<std::size_t>(x.dim() - 1)));
  return x.reshape({numel_of(leading), x.sizes().back()});
}

/// Of two matrices, or of two batches of them.
struct MatmulBackward : NodeOf<MatmulBackward, 2, 2> {
  static constexpr const char* kName = "MatmulBackward";

  void backward(const Tensor& g, std::span<Tensor> dx) {
    // task 1.2: the gradients dx[0] and dx[1] of the operands saved(0) and saved(1), where they are needed
    if (needs_grad(0)) dx[0] = product(g, saved(1).transpose(-2, -1));
    if (needs_grad(1)) dx[1] = product(saved(0).transpose(-2, -1), g);
    // end of task
  }
  static Tensor product(const Tensor& a, const Tensor& b) { return a.dim() == 2 ? a.mm(b) : a.bmm(b); }
};

void track_product(const Tensor& out, const Tensor& a, const Tensor& b) {
  if (auto* n = track<MatmulBackward>(out, a, b)) {
    if (n->has_edge(1)) n->save(0, a);
    if (n->has_edge(0)) n->save(1, b);
  }
}

/// Of operands that are matrices, and were checked but for their sizes.
Tensor matrix_product(const Tensor& a, const Tensor& b, const char* op) {
  const TensorImpl &left = *a.impl(), &right = *b.impl();
  TENDRIL_CHECK_AS(ShapeError, left.sizes[1] == right.sizes[0], op, ": shapes ", left.sizes, " and ", right.sizes,
                   " cannot be multiplied");
  Tensor out = raw_product(a, raw::view_of(right), {left.sizes[0], right.sizes[1]}, op, left.dtype);
  track_product(out, a, b);
  return out;
}

/// Within an Autocast: the product of what it makes of the operands.
template <class Product>
Tensor lower_product(const Tensor& a, const Tensor& b, Product product) {
  const Tensor x = autograd::detail::lowered(a), y = autograd::detail::lowered(b);
  const autograd::detail::AutocastOff done;
  return product(x, y);
}

/// Of x, weight and bias, where x and the weight are saved first.
template <class N>
void linear_gradients(const N& node, const Tensor& g, std::span<Tensor> dx) {
  if (node.needs_grad(0)) dx[0] = g.matmul(node.saved(1));
  if (node.needs_grad(1)) dx[1] = as_rows(g).t().mm(as_rows(node.saved(0)));
  if (node.needs_grad(2)) dx[2] = g;
}

struct LinearBackward : NodeOf<LinearBackward, 3, 2> {
  static constexpr const char* kName = "LinearBackward";

  void backward(const Tensor& g, std::span<Tensor> dx) { linear_gradients(*this, g, dx); }
};

/// Saves the result too, which says where the relu let something through.
struct LinearReluBackward : NodeOf<LinearReluBackward, 3, 3> {
  static constexpr const char* kName = "LinearReluBackward";

  void backward(const Tensor& g, std::span<Tensor> dx) {
    const Tensor y = saved(2);
    const Tensor masked = autograd::grad_enabled()
                              ? g.masked_fill(y.le(0), 0)
                              : raw::unary_gradient(Unary::relu, g, y, 0, is_nobody_elses(g, *this));
    linear_gradients(*this, masked, dx);
  }
};

}  // namespace

Tensor Tensor::mm(const Tensor& other) const {
  if (autograd::detail::autocast_on()) [[unlikely]]
    return lower_product(*this, other, [](const Tensor& a, const Tensor& b) { return a.mm(b); });
  check_operands(*this, other, "mm", "other");
  TENDRIL_CHECK_AS(ShapeError, dim() == 2 && other.dim() == 2, "mm: expected two matrices, got shapes ", sizes(),
                   " and ", other.sizes());
  return matrix_product(*this, other, "mm");
}

Tensor Tensor::bmm(const Tensor& other) const {
  if (autograd::detail::autocast_on()) [[unlikely]]
    return lower_product(*this, other, [](const Tensor& a, const Tensor& b) { return a.bmm(b); });
  check_operands(*this, other, "bmm", "other");
  TENDRIL_CHECK_AS(ShapeError,
                   dim() == 3 && other.dim() == 3 && sizes()[0] == other.sizes()[0] && sizes()[2] == other.sizes()[1],
                   "bmm: expected [batch, m, k] and [batch, k, n], got ", sizes(), " and ", other.sizes());
  Tensor out = raw_product(*this, raw::view_of(other), {sizes()[0], sizes()[1], other.sizes()[2]}, "bmm", dtype());
  track_product(out, *this, other);
  return out;
}

Tensor Tensor::dot(const Tensor& other) const {
  const autograd::detail::AutocastOff as_given;  // as PyTorch's, unlike matmul of vectors
  check_operands(*this, other, "dot", "other");
  TENDRIL_CHECK_AS(ShapeError, dim() == 1 && other.dim() == 1 && numel() == other.numel(),
                   "dot: expected two vectors of one size, got ", sizes(), " and ", other.sizes());
  return unsqueeze(0).mm(other.unsqueeze(1)).reshape({});
}

Tensor Tensor::matmul(const Tensor& other) const {
  if (autograd::detail::autocast_on()) [[unlikely]]
    return lower_product(*this, other, [](const Tensor& a, const Tensor& b) { return a.matmul(b); });
  check_operands(*this, other, "matmul", "other");
  TENDRIL_CHECK_AS(ShapeError, dim() > 0 && other.dim() > 0, "matmul: operands must have at least one dimension, got ",
                   sizes(), " and ", other.sizes());
  if (dim() == 2 && other.dim() == 2) return matrix_product(*this, other, "matmul");
  if (dim() == 1 && other.dim() == 1) {
    TENDRIL_CHECK_AS(ShapeError, numel() == other.numel(), "matmul: expected two vectors of one size, got ", sizes(),
                     " and ", other.sizes());
    return dot(other);
  }
  if (dim() == 1) return unsqueeze(0).matmul(other).squeeze(-2);
  if (other.dim() == 1) return matmul(other.unsqueeze(1)).squeeze(-1);

  const int64_t m = size(-2), k = size(-1), n = other.size(-1);
  TENDRIL_CHECK_AS(ShapeError, other.size(-2) == k, "matmul: shapes ", sizes(), " and ", other.sizes(),
                   " cannot be multiplied");
  if (other.dim() == 2) {  // one matrix for all: one large product
    Dims out = sizes();
    out[dim() - 1] = n;
    return as_rows(*this).mm(other).reshape(out);
  }
  const auto batch_of = [](const Tensor& x) {
    return Dims(std::span(x.sizes().data(), static_cast<std::size_t>(x.dim() - 2)));
  };
  const Dims batch = broadcast_shapes(batch_of(*this), batch_of(other), "matmul");
  const auto flat = [&](const Tensor& x) {
    Dims full = batch;
    full.push_back(x.size(-2));
    full.push_back(x.size(-1));
    return x.expand(full).reshape({numel_of(batch), x.size(-2), x.size(-1)});
  };
  Dims out = batch;
  out.push_back(m);
  out.push_back(n);
  return flat(*this).bmm(flat(other)).reshape(out);
}

namespace {

/// factor * x in x's dtype. 0 times anything is 0, NaN and infinity included: what it stands for is left out.
Tensor times(double factor, const Tensor& x, const char* op, const char* name) {
  TENDRIL_CHECK_AS(DTypeError, is_floating(x.dtype()) || (factor == std::trunc(factor) && std::abs(factor) < 0x1p63),
                   op, ": ", name, ": got ", factor, ", expected an integer for operands of ", x.dtype());
  if (factor == 1) return x;
  if (factor == 0) return x.masked_fill(raw::scalar(true, kBool), 0);
  return is_floating(x.dtype()) ? x * factor : x * static_cast<int64_t>(factor);
}

/// beta c + alpha a b, of matrices or batches of them.
Tensor added_product(const char* op, Tensor (Tensor::*product_with)(const Tensor&) const, const Tensor& c,
                     const Tensor& a, const Tensor& b, double beta, double alpha) {
  detail::check_defined(c, op, "c");
  if (autograd::detail::autocast_on()) [[unlikely]] {
    const Tensor low_c = autograd::detail::lowered(c), low_a = autograd::detail::lowered(a),
                 low_b = autograd::detail::lowered(b);
    const autograd::detail::AutocastOff done;
    return added_product(op, product_with, low_c, low_a, low_b, beta, alpha);
  }
  check_operands(a, b, op, "b", "a");
  TENDRIL_CHECK_AS(DTypeError, c.dtype() == a.dtype(), op, ": c is ", c.dtype(), ", expected a's and b's ", a.dtype());
  TENDRIL_CHECK(c.device() == a.device(), op, ": c is on ", c.device(), ", expected a's and b's device ", a.device());
  if (const DType wide = computed_in(a.dtype()); wide != a.dtype()) {  // the sum alone is rounded
    return added_product(op, product_with, c.to(wide), a.to(wide), b.to(wide), beta, alpha).to(a.dtype());
  }
  // Where alpha is 0, both operands are left out: each is in the other's gradient.
  const Tensor product = alpha == 0 ? (times(0, a, op, "alpha").*product_with)(times(0, b, op, "alpha"))
                                    : times(alpha, (a.*product_with)(b), op, "alpha");
  return times(beta, c, op, "beta").expand(product.sizes()) + product;
}

}  // namespace

Tensor addmm(const Tensor& c, const Tensor& a, const Tensor& b, double beta, double alpha) {
  return added_product("addmm", &Tensor::mm, c, a, b, beta, alpha);
}

Tensor baddbmm(const Tensor& c, const Tensor& a, const Tensor& b, double beta, double alpha) {
  return added_product("baddbmm", &Tensor::bmm, c, a, b, beta, alpha);
}

namespace {

/// The same of a weight [in]: without the last dimension.
Tensor linear_of_vector(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias, const Unary* after) {
  TENDRIL_CHECK_AS(DTypeError, !after || is_floating(x.dtype()), op, ": x has dtype ", x.dtype(),
                   ", expected a floating one");
  TENDRIL_CHECK_AS(ShapeError, x.dim() > 0 && x.sizes().back() == weight.numel(), op,
                   ": expected x of [..., in] and a weight of [out, in] or [in], got ", x.sizes(), " and ",
                   weight.sizes());
  if (bias.defined()) {
    TENDRIL_CHECK_AS(ShapeError, bias.dim() == 0, op, ": the bias has shape ", bias.sizes(), ", expected [] beside a ",
                     "weight of ", weight.sizes());
    check_operands(x, bias, op, "the bias", "x");
  }
  const DType wide = bias.defined() || after ? computed_in(x.dtype()) : x.dtype();  // the sum alone is rounded
  Tensor out = x.to(wide).matmul(weight.to(wide));
  if (bias.defined()) out = out + bias.to(wide);
  if (after) out = *after == Unary::relu ? out.relu() : out.gelu_tanh();
  return out.to(x.dtype());
}

/// x weight^T + bias, then `after` of it (null: nothing), which is relu unless nothing is recorded.
Tensor linear_layer(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias, const Unary* after) {
  if (autograd::detail::autocast_on()) [[unlikely]] {
    const Tensor low_x = autograd::detail::lowered(x), low_weight = autograd::detail::lowered(weight),
                 low_bias = autograd::detail::lowered(bias);
    const autograd::detail::AutocastOff done;
    return linear_layer(op, low_x, low_weight, low_bias, after);
  }
  check_operands(x, weight, op, "the weight", "x");
  if (weight.dim() == 1) [[unlikely]]
    return linear_of_vector(op, x, weight, bias, after);
  TENDRIL_CHECK_AS(DTypeError, !after || is_floating(x.dtype()), op, ": x has dtype ", x.dtype(),
                   ", expected a floating one");
  TENDRIL_CHECK_AS(ShapeError, weight.dim() == 2 && x.dim() > 0 && x.sizes().back() == weight.sizes()[1], op,
                   ": expected x of [..., in] and a weight of [out, in] or [in], got ", x.sizes(), " and ",
                   weight.sizes());
  const int64_t out_features = weight.sizes()[0];
  if (bias.defined()) {
    TENDRIL_CHECK_AS(ShapeError, bias.dim() == 1 && bias.numel() == out_features, op, ": the bias has shape ",
                     bias.sizes(), ", expected [", out_features, "]");
    check_operands(x, bias, op, "the bias", "x");
  }
  const DeviceKernels table = kernels(x.device());
  // The sum alone is rounded (a GPU wants halves).
  const bool in_float = bias.defined() && x.device().is_cpu();
  const Tensor rows = x.dim() == 2 ? x : as_rows(autograd::detail::alias(x));
  const Dims transposed{weight.sizes()[1], out_features}, strides{weight.strides()[1], weight.strides()[0]};
  const View columns{weight.raw_data(), transposed.data(), strides.data(), weight.numel(), 2, weight.dtype(), false};
  Tensor out;
  if ((bias.defined() || after) && table->linear && is_floating(x.dtype())) {
    out = raw::empty({rows.sizes()[0], out_features}, x.dtype(), x.device());
    table->linear(raw::view_of(out), raw::view_of(rows), columns, autograd::detail::MaybeView::as_it_lies(bias), after);
  } else {
    out =
        raw_product(rows, columns, {rows.sizes()[0], out_features}, op, in_float ? computed_in(x.dtype()) : x.dtype());
    if (bias.defined()) raw::binary_(Binary::add, out, bias);
    if (out.dtype() != x.dtype()) [[unlikely]]
      out = raw::cast(out, x.dtype());
    if (after) raw::unary_(*after, out);
  }
  if (x.dim() != 2) {
    Dims sizes = x.sizes();
    sizes[x.dim() - 1] = out_features;
    out = raw::view(out, sizes);
  }
  const auto save_operands = [&](auto* n) {
    if (n->has_edge(1)) n->save(0, x);
    if (n->has_edge(0)) n->save(1, weight);
  };
  if (!after) {
    if (auto* n = track<LinearBackward>(out, x, weight, bias)) save_operands(n);
  } else if (*after == Unary::relu) {
    if (auto* n = track<LinearReluBackward>(out, x, weight, bias)) {
      save_operands(n);
      n->save_output(2, out);
    }
  }
  return out;
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return linear_layer("linear", x, weight, bias, nullptr);
}

Tensor linear_relu(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  constexpr Unary kRelu = Unary::relu;
  return linear_layer("linear_relu", x, weight, bias, &kRelu);
}

Tensor linear_gelu_tanh(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  constexpr const char* op = "linear_gelu_tanh";
  constexpr Unary kGelu = Unary::gelu_tanh;
  using autograd::requires_grad;
  // Its gradient asks for what it was applied to, which the one call does not leave behind.
  if (autograd::grad_enabled() && (requires_grad(x) || requires_grad(weight) || requires_grad(bias))) {
    return linear_layer(op, x, weight, bias, nullptr).gelu_tanh();
  }
  return linear_layer(op, x, weight, bias, &kGelu);
}

}  // namespace tendril
