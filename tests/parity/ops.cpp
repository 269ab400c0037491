#include "tests/parity/ops.h"

#include "tendril/autograd/backward.h"
#include "tendril/autograd/ops/conv.h"
#include "tendril/autograd/ops/embedding.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/lstm.h"
#include "tendril/autograd/ops/matmul.h"
#include "tendril/autograd/ops/norm.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/pool.h"
#include "tendril/tensor/creation.h"
#include "tests/parity/case.h"

namespace tendril::parity {

Tensor Args::tensor(std::size_t i) const {
  return word(i) == "none" ? Tensor() : environment_.at(numbers_from(word(i)).at(0));
}
double Args::real(std::size_t i) const { return real_from(word(i)); }
Tensors Args::tensors(std::size_t i) const {
  Tensors all;
  for (const int number : numbers_from(word(i))) all.push_back(environment_.at(number));
  return all;
}
Scalar Args::scalar(std::size_t i) const {
  const std::string& text = word(i);
  if (text == "true" || text == "false") return text == "true";
  if (text.find_first_not_of("-0123456789") == std::string::npos) return integer(i);
  return real(i);
}
std::optional<double> Args::maybe_real(std::size_t i) const {
  return word(i) == "none" ? std::nullopt : std::optional(real(i));
}
std::optional<Scalar> Args::maybe_scalar(std::size_t i) const {
  return word(i) == "none" ? std::nullopt : std::optional(scalar(i));
}
std::optional<int64_t> Args::maybe_integer(std::size_t i) const {
  return word(i) == "none" ? std::nullopt : std::optional(integer(i));
}
Dims Args::dims(std::size_t i) const { return dims_from(word(i)); }
Size2 Args::size2(std::size_t i) const {
  const Dims both = dims(i);
  return both.empty() ? Size2(0) : Size2(both[0], both[1]);
}
DType Args::dtype(std::size_t i) const { return dtype_called(word(i)); }
LossReduction Args::reduction(std::size_t i) const {
  return word(i) == "none" ? LossReduction::none : word(i) == "sum" ? LossReduction::sum : LossReduction::mean;
}

namespace {

/// d(sum of output * gradient)/d(inputs), recorded; zeros where there is none.
Tensors grad(const Tensors& outputs, const Tensors& inputs, const Tensors& gradients) {
  Tensors roots, seeds, found(inputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad()) continue;
    roots.push_back(outputs[i]);
    seeds.push_back(gradients[i]);
  }
  if (!roots.empty()) found = autograd::grad(roots, inputs, seeds, {.create_graph = true, .allow_unused = true});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!found[i].defined()) found[i] = zeros_like(inputs[i]);
  }
  return found;
}

Tensors backward(const Tensors& outputs, const Tensors& leaves, const Tensors& gradients) {
  autograd::backward(outputs, gradients);
  Tensors found;
  for (const Tensor& leaf : leaves) found.push_back(leaf.grad().defined() ? leaf.grad() : zeros_like(leaf));
  return found;
}

Result where_of(const Args& a) {
  if (!a.is_tensor(1)) return where(a.tensor(0), a.scalar(1), a.tensor(2));
  return a.is_tensor(2) ? where(a.tensor(0), a.tensor(1), a.tensor(2)) : where(a.tensor(0), a.tensor(1), a.scalar(2));
}

Tensors split(const Args& a) {
  const Dims sizes = a.dims(1);
  if (!a.is_list(1)) return a.tensor(0).split(a.integer(1), a.integer(2));
  return a.tensor(0).split(std::vector<int64_t>(sizes.begin(), sizes.end()), a.integer(2));
}

Tensors lstm(const Args& a) {
  const LstmLayerResult r = lstm_layer(a.tensor(0), {a.tensor(1), a.tensor(2), a.tensor(3), a.tensor(4)}, a.tensor(5),
                                       a.tensor(6), a.flag(7));
  return {r.output, r.c_n};
}

}  // namespace

const std::map<std::string, Op>& ops() {
  using enum Kind;
  // clang-format off
  static const std::map<std::string, Op> pointwise_and_more = {
#define OP(kind, name, expression) {name, {kind, [](const Args& a) -> Result { return expression; }}},
// a step that changes its first argument and gives it back
#define CHANGE(kind, name, method, tensors, numbers) \
  OP(kind, name, (a.is_tensor(1) ? a.tensor(0).method tensors : a.tensor(0).method numbers))

// ---- pointwise: all that the table has
#define TENDRIL_UNARY(name, ...) OP(rounded, #name, a.tensor(0).name())
#define TENDRIL_PREDICATE(name, ...) OP(exact, #name, a.tensor(0).name())
#define TENDRIL_BINARY(name, ...) OP(rounded, #name, \
  a.is_tensor(0) ? a.is_tensor(1) ? a.tensor(0).name(a.tensor(1)) : a.tensor(0).name(a.scalar(1)) \
                 : tendril::name(a.scalar(0), a.tensor(1)))
#define TENDRIL_COMPARE(name, ...) OP(exact, #name, \
  a.is_tensor(1) ? a.tensor(0).name(a.tensor(1)) : a.tensor(0).name(a.scalar(1)))
#include "tendril/tensor/pointwise.def"
  OP(exact, "where", where_of(a))
  OP(exact, "clamp", a.tensor(0).clamp(a.maybe_scalar(1), a.maybe_scalar(2)))
  OP(exact, "masked_fill", a.tensor(0).masked_fill(a.tensor(1), a.scalar(2)))

  // ---- products
  OP(summed, "matmul", a.tensor(0).matmul(a.tensor(1)))
  OP(summed, "mm", a.tensor(0).mm(a.tensor(1)))
  OP(summed, "bmm", a.tensor(0).bmm(a.tensor(1)))
  OP(summed, "dot", a.tensor(0).dot(a.tensor(1)))
  OP(summed, "addmm", addmm(a.tensor(0), a.tensor(1), a.tensor(2), a.real(3), a.real(4)))
  OP(summed, "linear", linear(a.tensor(0), a.tensor(1), a.tensor(2)))

  // ---- reductions
  OP(summed, "sum", a.tensor(0).sum())
  OP(summed, "mean", a.tensor(0).mean())
  OP(exact, "max", a.tensor(0).max())
  OP(exact, "min", a.tensor(0).min())
  OP(exact, "all", a.tensor(0).all())
  OP(exact, "any", a.tensor(0).any())
  OP(summed, "sum_dims", a.tensor(0).sum(a.dims(1), a.flag(2)))
  OP(summed, "mean_dims", a.tensor(0).mean(a.dims(1), a.flag(2)))
  OP(summed, "var", a.tensor(0).var(a.dims(1), a.flag(2), a.flag(3)))
  OP(summed, "std", a.tensor(0).std(a.dims(1), a.flag(2), a.flag(3)))
  OP(exact, "max_dim", a.tensor(0).max(a.integer(1), a.flag(2)))
  OP(exact, "min_dim", a.tensor(0).min(a.integer(1), a.flag(2)))
  OP(exact, "argmax", a.tensor(0).argmax(a.integer(1), a.flag(2)))
  OP(exact, "argmin", a.tensor(0).argmin(a.integer(1), a.flag(2)))
  OP(summed, "logsumexp", a.tensor(0).logsumexp(a.integer(1), a.flag(2)))
  OP(summed, "cumsum", a.tensor(0).cumsum(a.integer(1)))
  OP(summed, "softmax", a.tensor(0).softmax(a.integer(1)))
  OP(summed, "log_softmax", a.tensor(0).log_softmax(a.integer(1)))

  // ---- by index
  OP(exact, "gather", a.tensor(0).gather(a.integer(1), a.tensor(2)))
  OP(exact, "index_select", a.tensor(0).index_select(a.integer(1), a.tensor(2)))
  OP(summed, "scatter_add", a.tensor(0).scatter_add(a.integer(1), a.tensor(2), a.tensor(3)))
  OP(summed, "index_add", a.tensor(0).index_add(a.integer(1), a.tensor(2), a.tensor(3)))
  OP(exact, "embedding", embedding(a.tensor(0), a.tensor(1), a.maybe_integer(2)))

  // ---- views, joins and copies
  OP(exact, "t", a.tensor(0).t())
  OP(exact, "view", a.tensor(0).view(a.dims(1)))
  OP(exact, "reshape", a.tensor(0).reshape(a.dims(1)))
  OP(exact, "flatten", a.tensor(0).flatten(a.integer(1), a.integer(2)))
  OP(exact, "expand", a.tensor(0).expand(a.dims(1)))
  OP(exact, "permute", a.tensor(0).permute(a.dims(1)))
  OP(exact, "transpose", a.tensor(0).transpose(a.integer(1), a.integer(2)))
  OP(exact, "squeeze", a.tensor(0).squeeze())
  OP(exact, "squeeze_dim", a.tensor(0).squeeze(a.integer(1)))
  OP(exact, "unsqueeze", a.tensor(0).unsqueeze(a.integer(1)))
  OP(exact, "select", a.tensor(0).select(a.integer(1), a.integer(2)))
  OP(exact, "narrow", a.tensor(0).narrow(a.integer(1), a.integer(2), a.integer(3)))
  OP(exact, "slice", a.tensor(0).slice(a.integer(1), a.integer(2), a.integer(3), a.integer(4)))
  OP(exact, "split", split(a))
  OP(exact, "chunk", a.tensor(0).chunk(a.integer(1), a.integer(2)))
  OP(exact, "unbind", a.tensor(0).unbind(a.integer(1)))
  OP(exact, "cat", cat(a.tensors(0), a.integer(1)))
  OP(exact, "stack", stack(a.tensors(0), a.integer(1)))
  OP(exact, "contiguous", a.tensor(0).contiguous())
  OP(exact, "clone", a.tensor(0).clone())
  OP(exact, "to", a.tensor(0).to(a.dtype(1)))
  OP(exact, "detach", a.tensor(0).detach())

  // ---- in place
  CHANGE(rounded, "add_", add_, (a.tensor(1), a.scalar(2)), (a.scalar(1)))
  CHANGE(rounded, "sub_", sub_, (a.tensor(1), a.scalar(2)), (a.scalar(1)))
  CHANGE(rounded, "mul_", mul_, (a.tensor(1)), (a.scalar(1)))
  CHANGE(rounded, "div_", div_, (a.tensor(1)), (a.scalar(1)))
  OP(exact, "copy_", a.tensor(0).copy_(a.tensor(1)))
  OP(exact, "fill_", a.tensor(0).fill_(a.scalar(1)))
  OP(exact, "zero_", a.tensor(0).zero_())
  OP(exact, "relu_", a.tensor(0).relu_())
  OP(exact, "clamp_", a.tensor(0).clamp_(a.maybe_scalar(1), a.maybe_scalar(2)))
  OP(exact, "masked_fill_", a.tensor(0).masked_fill_(a.tensor(1), a.scalar(2)))

  // ---- layers and losses
  OP(summed, "conv2d", conv2d(a.tensor(0), a.tensor(1), a.tensor(2), {a.size2(3), a.size2(4), a.size2(5), a.integer(6)}))
  OP(exact, "max_pool2d", max_pool2d_with_indices(a.tensor(0), a.size2(1), {a.size2(2), a.size2(3), a.size2(4), a.flag(5)}))
  OP(summed, "avg_pool2d", avg_pool2d(a.tensor(0), a.size2(1), {a.size2(2), a.size2(3), a.flag(4), a.flag(5), a.maybe_integer(6)}))
  OP(summed, "adaptive_avg_pool2d", adaptive_avg_pool2d(a.tensor(0), a.size2(1)))
  OP(summed, "batch_norm", batch_norm(a.tensor(0), a.tensor(1), a.tensor(2), a.tensor(3), a.tensor(4), a.flag(5), a.real(6), a.real(7)))
  OP(summed, "lstm", lstm(a))
  OP(summed, "nll_loss", nll_loss(a.tensor(0), a.tensor(1), {a.tensor(2), a.reduction(3), a.integer(4)}))
  OP(summed, "cross_entropy", cross_entropy(a.tensor(0), a.tensor(1), {a.tensor(2), a.reduction(3), a.integer(4), a.real(5)}))
  OP(summed, "mse_loss", mse_loss(a.tensor(0), a.tensor(1), a.reduction(2)))

  // ---- derivatives
  OP(exact, "grad", grad(a.tensors(0), a.tensors(1), a.tensors(2)))
  OP(exact, "backward", backward(a.tensors(0), a.tensors(1), a.tensors(2)))
#undef OP
#undef CHANGE
  };
  // clang-format on
  static const std::map<std::string, Op> table = [] {
    std::map<std::string, Op> all = pointwise_and_more;
    add_more_ops(all);
    return all;
  }();
  return table;
}

}  // namespace tendril::parity
