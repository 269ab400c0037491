// Operations in place, element by element and along a dimension; detail/inplace.h says how. Those by index are in
// index.cpp.
#include <type_traits>

#include "tendril/autograd/detail/inplace.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/rearrange.h"

namespace tendril {

namespace {

using autograd::NodeOf;
using autograd::track;
using autograd::detail::change, autograd::detail::check_target, autograd::detail::rebase_as_filled,
    autograd::detail::recorded, autograd::detail::replace;

bool equals(Scalar alpha, int64_t number) {
  return alpha.is_floating() ? alpha.to<double>() == static_cast<double>(number) : alpha.to<int64_t>() == number;
}
Scalar negated(Scalar alpha) {
  if (alpha.is_floating()) return -alpha.to<double>();
  return static_cast<int64_t>(-static_cast<uint64_t>(alpha.to<int64_t>()));  // wraps, as integers do
}

/// target = target + alpha * other needs nothing of the old elements, so it is written at once also while recording.
struct AddInPlaceBackward : NodeOf<AddInPlaceBackward, 2> {
  static constexpr const char* kName = "AddInPlaceBackward";
  Scalar alpha = 1;

  void backward(const Tensor& g, std::span<Tensor> dx) {
    dx[0] = g;
    if (needs_grad(1)) dx[1] = equals(alpha, 1) ? g : g * alpha;
  }
};

void add_scaled(const Tensor& target, const Tensor& other, Scalar alpha, const char* op) {
  detail::check_defined(target, op);
  detail::check_defined(other, op, "the operand");
  const bool records = recorded(target, other);
  autograd::check_inplace(target, records);
  check_target(target, other.sizes(), op);
  detail::check_category(target, raw::result_type(target, other), op);
  TENDRIL_CHECK_AS(DTypeError, !alpha.is_floating() || is_floating(target.dtype()), op, ": alpha is ", alpha,
                   ", expected an integer for ", target.dtype());
  const Tensor result = autograd::detail::alias(target);
  if (records) {
    if (auto* n = track<AddInPlaceBackward>(result, target, other)) n->alpha = alpha;
  }
  if (equals(alpha, 1) || equals(alpha, -1)) {
    raw::binary_(equals(alpha, 1) ? Binary::add : Binary::sub, target, other);
  } else {
    raw::add_scaled_(target, other, alpha);
  }
  if (records) {
    autograd::rebase_history(target, result);
  } else {
    target.impl()->storage->bump_version();
  }
}

}  // namespace

void detail::check_category(const Tensor& target, DType result, const char* op) {
  const auto category = [](DType dtype) { return is_floating(dtype) ? 2 : dtype == kBool ? 0 : 1; };
  TENDRIL_CHECK_AS(DTypeError, category(result) <= category(target.dtype()), op, ": result type ", result,
                   " can't be cast to the desired output type ", target.dtype());
}

namespace {

// One of each for all rows of the table: the row's method and its kernel are given.

const Tensor& step(const Tensor& x, const char* name, Unary op, Tensor (Tensor::*method)() const) {
  change(
      x, name, [&](const Tensor& v) { return (v.*method)(); }, [&] { raw::unary_(op, x); });
  return x;
}
const Tensor& step(const Tensor& x, const char* name, Unary op, Tensor (Tensor::*method)(double) const, double p) {
  change(
      x, name, [&](const Tensor& v) { return (v.*method)(p); }, [&] { raw::unary_(op, x, p); });
  return x;
}
const Tensor& step(const Tensor& x, const char* name, Binary op, Tensor (Tensor::*method)(const Tensor&) const,
                   const Tensor& other) {
  change(
      x, name, [&](const Tensor& v) { return (v.*method)(other); }, [&] { raw::binary_(op, x, other); }, other);
  return x;
}
const Tensor& step(const Tensor& x, const char* name, Binary op, Tensor (Tensor::*method)(Scalar) const, Scalar other) {
  change(
      x, name, [&](const Tensor& v) { return (v.*method)(other); }, [&] { raw::binary_(op, x, other); });
  return x;
}

template <class Other>
const Tensor& step(const Tensor& x, const char* name, Compare op, const Other& other) {
  detail::check_defined(x, name);
  bool records = recorded(x);
  if constexpr (std::is_same_v<Other, Tensor>) {
    detail::check_defined(other, name, "the operand");
    records = recorded(x, other);
    check_target(x, other.sizes(), name);
  }
  autograd::check_inplace(x, records);
  const Tensor result = raw::compare(op, x, other);
  raw::copy_(x, result);
  rebase_as_filled(x, records && is_floating(x.dtype()));
  return x;
}
const Tensor& step(const Tensor& x, const char* name, Predicate op) {
  detail::check_defined(x, name);
  const bool records = recorded(x);
  autograd::check_inplace(x, records);
  raw::copy_(x, raw::predicate(op, x));
  rebase_as_filled(x, records && is_floating(x.dtype()));
  return x;
}

}  // namespace

#define TENDRIL_UNARY(op, ...) \
  const Tensor& Tensor::op##_() const { return step(*this, #op "_", Unary::op, &Tensor::op); }
#define TENDRIL_PARAMETRIC(op, ...) \
  const Tensor& Tensor::op##_(double p) const { return step(*this, #op "_", Unary::op, &Tensor::op, p); }
#define TENDRIL_PREDICATE(op, ...) \
  const Tensor& Tensor::op##_() const { return step(*this, #op "_", Predicate::op); }
#define TENDRIL_BINARY(op, ...)                                                               \
  const Tensor& Tensor::op##_(const Tensor& other) const {                                    \
    if constexpr (Binary::op == Binary::add) return add_(other, 1); /* which saves nothing */ \
    if constexpr (Binary::op == Binary::sub) return sub_(other, 1);                           \
    return step(*this, #op "_", Binary::op, &Tensor::op, other);                              \
  }                                                                                           \
  const Tensor& Tensor::op##_(Scalar other) const { return step(*this, #op "_", Binary::op, &Tensor::op, other); }
#define TENDRIL_COMPARE(op, ...)                                                                              \
  const Tensor& Tensor::op##_(const Tensor& other) const { return step(*this, #op "_", Compare::op, other); } \
  const Tensor& Tensor::op##_(Scalar other) const { return step(*this, #op "_", Compare::op, other); }
#include "tendril/tensor/pointwise.def"

const Tensor& Tensor::add_(const Tensor& other, Scalar alpha) const {
  add_scaled(*this, other, alpha, "add_");
  return *this;
}
const Tensor& Tensor::sub_(const Tensor& other, Scalar alpha) const {
  add_scaled(*this, other, negated(alpha), "sub_");
  return *this;
}

const Tensor& Tensor::clamp_(std::optional<Scalar> low, std::optional<Scalar> high) const {
  replace(*this, "clamp_", [&](const Tensor& x) { return x.clamp(low, high); });
  return *this;
}

const Tensor& Tensor::masked_fill_(const Tensor& mask, Scalar value) const {
  detail::check_defined(*this, "masked_fill_");
  detail::check_defined(mask, "masked_fill_", "the mask");
  check_target(*this, mask.sizes(), "masked_fill_");
  replace(*this, "masked_fill_", [&](const Tensor& x) { return x.masked_fill(mask, value); });
  return *this;
}

const Tensor& Tensor::bitwise_not_() const {
  replace(*this, "bitwise_not_", [](const Tensor& x) { return x.bitwise_not(); });
  return *this;
}
const Tensor& Tensor::tril_(int64_t diagonal) const {
  replace(*this, "tril_", [&](const Tensor& x) { return x.tril(diagonal); });
  return *this;
}
const Tensor& Tensor::triu_(int64_t diagonal) const {
  replace(*this, "triu_", [&](const Tensor& x) { return x.triu(diagonal); });
  return *this;
}
const Tensor& Tensor::cumsum_(int64_t dim) const {
  replace(*this, "cumsum_", [&](const Tensor& x) { return x.cumsum(dim); });
  return *this;
}
const Tensor& Tensor::cumprod_(int64_t dim) const {
  replace(*this, "cumprod_", [&](const Tensor& x) { return x.cumprod(dim); });
  return *this;
}

}  // namespace tendril
