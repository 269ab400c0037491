// In-place operations. What they may change is checked first (history.h); while recording, the value is computed by the
// out-of-place operation from a copy of the elements as they were, so that it keeps what its formula needs, and is then
// written over them.
#include <type_traits>

#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

using autograd::NodeOf;
using autograd::track;

template <class... Operands>
bool recorded(const Operands&... operands) {
  return autograd::grad_enabled() && (autograd::requires_grad(operands) || ...);
}

/// The tensor with its place in the graph, but elements of its own.
Tensor snapshot(const Tensor& x) {
  Tensor copy = raw::clone(x);
  autograd::set_history(copy, Ref<autograd::Node>(autograd::grad_fn(x)), x.impl()->output_number);
  return copy;
}

void check_target(const Tensor& target, const Dims& operand, const char* op) {
  if (target.sizes() == operand) return;
  const Dims all = broadcast_shapes(target.sizes(), operand, op);
  TENDRIL_CHECK_AS(ShapeError, all == target.sizes(), op, ": output with shape ", target.sizes(),
                   " doesn't match the broadcast shape ", all);
}

/// Writes over `target` what `compute` makes of its value, and records it.
template <class Compute>
void overwrite(const Tensor& target, Compute compute, const char* op) {
  const Tensor result = compute(snapshot(target));
  check_target(target, result.sizes(), op);
  detail::check_category(target, result.dtype(), op);
  const Tensor fitting = result.to(target.dtype());
  raw::copy_(target, fitting);
  autograd::rebase_history(target, fitting);
}

/// Recorded or not: `compute` as above, `write` changes the elements at once.
template <class Compute, class Write, class... Operands>
void change(const Tensor& target, const char* op, Compute compute, Write write, const Operands&... operands) {
  detail::check_defined(target, op);
  (detail::check_defined(operands, op, "the operand"), ...);
  const bool records = recorded(target, operands...);
  autograd::check_inplace(target, records);
  if (records && is_floating(target.dtype())) {
    overwrite(target, compute, op);
  } else {
    write();
    target.impl()->storage->bump_version();
  }
}

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

/// What is overwritten has no say any more, but stays in the graph, as in PyTorch: its gradient is zero.
struct FillBackward : NodeOf<FillBackward, 1> {
  static constexpr const char* kName = "FillBackward";

  void backward(const Tensor& g, std::span<Tensor> dx) { dx[0] = zeros_like(g); }
};
/// Likewise; the source has all.
struct CopyBackward : NodeOf<CopyBackward, 2> {
  static constexpr const char* kName = "CopyBackward";

  void backward(const Tensor& g, std::span<Tensor> dx) {
    if (needs_grad(0)) dx[0] = zeros_like(g);
    if (needs_grad(1)) dx[1] = g;
  }
};

/// The operand that these two overwrite. What a view overwrites is kept in the graph by its base.
Tensor overwritten(const Tensor& target) { return target.impl()->view_base ? Tensor() : target; }

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

/// Writes what does not depend, as far as gradients go, on what was there.
template <class Write>
void write_over(const Tensor& x, bool records, Write write) {
  write();
  if (records) {
    const Tensor result = autograd::detail::alias(x);
    track<FillBackward>(result, overwritten(x));
    autograd::rebase_history(x, result);
  } else {
    x.impl()->storage->bump_version();
  }
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
  write_over(x, records && is_floating(x.dtype()), [&] { raw::copy_(x, result); });
  return x;
}

}  // namespace

#define TENDRIL_UNARY(op, ...) \
  const Tensor& Tensor::op##_() const { return step(*this, #op "_", Unary::op, &Tensor::op); }
#define TENDRIL_PARAMETRIC(op, ...) \
  const Tensor& Tensor::op##_(double p) const { return step(*this, #op "_", Unary::op, &Tensor::op, p); }
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

const Tensor& Tensor::clamp_(std::optional<double> low, std::optional<double> high) const {
  change(
      *this, "clamp_", [&](const Tensor& x) { return x.clamp(low, high); },
      [&] { raw::copy_(*this, raw::clamp(*this, low, high)); });
  return *this;
}

const Tensor& Tensor::masked_fill_(const Tensor& mask, Scalar value) const {
  detail::check_defined(*this, "masked_fill_");
  detail::check_defined(mask, "masked_fill_", "the mask");
  check_target(*this, mask.sizes(), "masked_fill_");
  change(
      *this, "masked_fill_", [&](const Tensor& x) { return x.masked_fill(mask, value); },
      [&] {
        const NoGrad no_grad;
        raw::copy_(*this, masked_fill(mask, value));
      });
  return *this;
}

const Tensor& Tensor::copy_(const Tensor& source) const {
  detail::check_defined(*this, "copy_");
  detail::check_defined(source, "copy_", "the source");
  const bool records = recorded(*this, source);
  autograd::check_inplace(*this, records);
  TENDRIL_CHECK_AS(ShapeError, broadcast_shapes(sizes(), source.sizes(), "copy_") == sizes(),
                   "copy_: a source of shape ", source.sizes(), " does not broadcast to ", sizes());
  const Tensor result = autograd::detail::alias(*this);
  if (records) track<CopyBackward>(result, overwritten(*this), source);
  raw::copy_(*this, source);
  if (records) {
    autograd::rebase_history(*this, result);
  } else {
    impl_->storage->bump_version();
  }
  return *this;
}

Tensor Tensor::operator=(const Tensor& source) && { return copy_(source); }
Tensor Tensor::operator=(Scalar value) && { return fill_(value); }

const Tensor& Tensor::fill_(Scalar value) const {
  detail::check_defined(*this, "fill_");
  detail::check_fits(value, dtype(), "fill_");
  const bool records = recorded(*this);
  autograd::check_inplace(*this, records);
  write_over(*this, records, [&] { raw::fill_(*this, value); });
  return *this;
}

namespace {

/// Fills with random numbers; `draw` is raw.h's.
template <class Draw>
const Tensor& draw_over(const Tensor& x, const char* name, Draw draw) {
  detail::check_defined(x, name);
  const bool records = recorded(x);
  autograd::check_inplace(x, records);
  write_over(x, records && is_floating(x.dtype()), draw);
  return x;
}
void check_drawn(const Tensor& x, const char* name) { detail::check_floating(x, name); }

}  // namespace

const Tensor& Tensor::uniform_(double low, double high) const { return uniform_(low, high, default_generator()); }
const Tensor& Tensor::uniform_(double low, double high, Generator& generator) const {
  check_drawn(*this, "uniform_");
  TENDRIL_CHECK(low <= high, "uniform_: expected low <= high, got [", low, ", ", high, ")");
  return draw_over(*this, "uniform_", [&] { raw::uniform_(*this, low, high, generator); });
}
const Tensor& Tensor::normal_(double mean, double stddev) const { return normal_(mean, stddev, default_generator()); }
const Tensor& Tensor::normal_(double mean, double stddev, Generator& generator) const {
  check_drawn(*this, "normal_");
  TENDRIL_CHECK(stddev >= 0, "normal_: expected a standard deviation of 0 or more, got ", stddev);
  return draw_over(*this, "normal_", [&] { raw::normal_(*this, mean, stddev, generator); });
}
const Tensor& Tensor::exponential_(double rate) const { return exponential_(rate, default_generator()); }
const Tensor& Tensor::exponential_(double rate, Generator& generator) const {
  check_drawn(*this, "exponential_");
  TENDRIL_CHECK(rate > 0, "exponential_: expected a rate above 0, got ", rate);
  return draw_over(*this, "exponential_", [&] {  // -log(1 - u) / rate, in which 1 - u is never 0
    raw::uniform_(*this, 0, 1, generator);
    raw::unary_(Unary::neg, *this);
    raw::unary_(Unary::log1p, *this);
    raw::binary_(Binary::mul, *this, -1 / rate);
  });
}
const Tensor& Tensor::bernoulli_(double p) const { return bernoulli_(p, default_generator()); }
const Tensor& Tensor::bernoulli_(double p, Generator& generator) const {
  TENDRIL_CHECK(p >= 0 && p <= 1, "bernoulli_: the probability must be in [0, 1], got ", p);
  return draw_over(*this, "bernoulli_", [&] { raw::bernoulli_(*this, p, generator); });
}

}  // namespace tendril
