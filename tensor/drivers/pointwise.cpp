#include <array>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "tendril/tensor/drivers/reduction.h"
#include "tendril/tensor/raw.h"

namespace tendril::raw {
namespace {

constexpr int category(DType dtype) noexcept { return is_floating(dtype) ? 2 : dtype == kBool ? 0 : 1; }

DTypeRule rule_of(Unary op) noexcept {
  static constexpr DTypeRule rules[] = {
#define TENDRIL_UNARY(name, doc, dtypes, ...) DTypeRule::dtypes,
#include "tendril/tensor/pointwise.def"
  };
  return rules[static_cast<int>(op)];
}
DTypeRule rule_of(Binary op) noexcept {
  static constexpr DTypeRule rules[] = {
#define TENDRIL_BINARY(name, doc, dtypes, ...) DTypeRule::dtypes,
#include "tendril/tensor/pointwise.def"
  };
  return rules[static_cast<int>(op)];
}

/// Whether operands of `dtype` are taken as they are, unseen.
constexpr bool keeps(DTypeRule rule, DType dtype) noexcept {
  return computes_in(rule, dtype) && (rule != DTypeRule::kDivide || is_floating(dtype));
}

/// Whether a divisor must not be 0. (Those on a device would have to be waited for.)
bool divides_integers(Binary op, DType dtype) noexcept {
  return rule_of(op) == DTypeRule::kDivide && !is_floating(dtype);
}
void check_divisor(Binary op, const Tensor& y, DType dtype) {
  if (!divides_integers(op, dtype) || !y.device().is_cpu()) return;
  TENDRIL_CHECK(drivers::reduce(Reduction::all, y).item<bool>(), name_of(op), ": division of an integer by 0");
}
void check_divisor(Binary op, Scalar y, DType dtype) {
  TENDRIL_CHECK(!divides_integers(op, dtype) || y.to<int64_t>() != 0, name_of(op), ": division of an integer by 0");
  // (Of a tensor of exponents nothing is read: there it is a fraction that is cut off, as in PyTorch.)
  TENDRIL_CHECK(op != Binary::pow || is_floating(dtype) || y.to<int64_t>() >= 0, "pow: got an exponent of ", y,
                " for integers, expected 0 or more");
}

/// `x` in another dtype, where it has to be: then it lives here. Otherwise `x` itself, without a reference.
class Cast {
 public:
  Cast(const Tensor& x, DType dtype) : x_(x.dtype() == dtype ? x : copy_ = cast(x, dtype)) {}
  Cast(const Cast&) = delete;
  operator const Tensor&() const noexcept { return x_; }
  const Tensor* operator->() const noexcept { return &x_; }

 private:
  Tensor copy_;
  const Tensor& x_;
};

using detail::check_defined;

/// A CPU tensor of 0 dimensions is one number, which joins operands of any device.
bool joins(const Tensor& x) noexcept { return x.dim() == 0 && x.device().is_cpu(); }

[[noreturn]] [[gnu::cold]] [[gnu::noinline]] void refuse_devices(const Tensor& x, const char* x_name, const Tensor& y,
                                                                 const char* y_name, const char* op) {
  detail::raise<Error>(op, ": ", x_name, " is on ", x.device(), ", ", y_name, " on ", y.device(),
                       "; expected one device");
}

/// Where operands meet: on their device, or on that of the one that the other joins.
Device common_device(const Tensor& x, const Tensor& y, const char* op) {
  if (x.device() == y.device() || joins(y)) return x.device();
  if (!joins(x)) refuse_devices(x, "x", y, "y", op);
  return y.device();
}
/// For an operation in place: the tensor that is changed joins nobody.
void check_joins(const Tensor& out, const Tensor& y, const char* op) {
  if (out.device() != y.device() && !joins(y)) refuse_devices(out, "the tensor that is changed", y, "y", op);
}

/// A tensor seen with the sizes that it broadcasts to, by the kernels of `device`; the strides live here.
class Broadcast {
 public:
  Broadcast(const Tensor& x, const Dims& sizes, int64_t numel, Device device, bool number = false) : view_(view_of(x)) {
    view_.host = number || x.device() != device;
    if (x.sizes() == sizes) return;
    const int shift = sizes.size() - x.dim();
    for (int d = 0; d < sizes.size(); ++d) {
      strides_.push_back(d < shift || x.sizes()[d - shift] == 1 ? 0 : x.strides()[d - shift]);
    }
    view_.sizes = sizes.data();
    view_.strides = strides_.data();
    view_.ndim = sizes.size();
    view_.numel = numel;
    view_.contiguous = numel == x.numel() && x.is_contiguous();
  }
  Broadcast(const Broadcast&) = delete;
  operator const View&() const noexcept { return view_; }

 private:
  Dims strides_;
  View view_;
};

/// Whether kernels take x as a number (kernels.h), which keeps more digits beside the half types than an element would.
bool is_number_beside(const Tensor& x, const Tensor& other) noexcept { return joins(x) && !joins(other); }

/// Whether `x` is such a number in the memory of a device: it would have to be waited for to be taken as one, so the
/// operands are widened instead.
bool is_wide_beside(const Tensor& x, const Tensor& other, DType dtype) noexcept {
  return x.dim() == 0 && other.dim() > 0 && !joins(x) && x.dtype() != dtype && computed_in(dtype) != dtype;
}

/// A number seen as an operand of any shape.
class Repeated {
 public:
  Repeated(Scalar value, DType dtype, const Dims& sizes, int64_t numel) : strides_(Dims::filled(sizes.size(), 0)) {
    view_ = {&bytes_, sizes.data(), strides_.data(), numel, sizes.size(), dtype, false, true};
    const View one{&bytes_, nullptr, nullptr, 1, 0, dtype, true};
    kernels(kCPU)->fill(one, value);
  }
  Repeated(const Repeated&) = delete;
  operator const View&() const noexcept { return view_; }

 private:
  alignas(8) std::array<std::byte, 8> bytes_;
  Dims strides_;
  View view_;
};

/// Results lie as their operands do.
inline Tensor result_like(const Tensor& x) {
  if (x.impl() && !x.impl()->contiguous) [[unlikely]]
    return empty_in_format_of(x);
  return empty_like(x);
}

/// ... as the first of those that are not broadcast.
Tensor empty_for(const Dims& sizes, std::initializer_list<const Tensor*> operands, DType dtype, Device device) {
  for (const Tensor* x : operands) {
    if (x->sizes() == sizes) return empty(sizes, dtype, device, x->suggest_memory_format());
  }
  return empty(sizes, dtype, device);
}

/// Throws Error for a number for which the operation is not defined.
void check_number(Unary op, double p) {
  TENDRIL_CHECK(op != Unary::celu || p != 0, "celu: alpha: got 0, expected another number");
  TENDRIL_CHECK(op != Unary::softshrink || p >= 0, "softshrink: lambd: got ", p, ", expected a number of 0 or more");
}

void run_unary(Unary op, const Tensor& out, const Tensor& x, double p) {
  const DeviceKernels table = kernels(out.device());
  require(table->unary, op, *table)(op, view_of(out), view_of(x), p);
}
void run_binary(Binary op, const Tensor& out, const View& x, const View& y) {
  const DeviceKernels table = kernels(out.device());
  require(table->binary, op, *table)(op, view_of(out), x, y);
}
void run_compare(Compare op, const Tensor& out, const View& x, const View& y) {
  const DeviceKernels table = kernels(out.device());
  require(table->compare, op, *table)(op, view_of(out), x, y);
}

/// In place, a result may be rounded to `out`'s type but not leave its category.
void check_fits(DType result, const Tensor& out, const char* op) {
  TENDRIL_CHECK_AS(DTypeError, category(result) <= category(out.dtype()), op, ": a result of ", result,
                   " cannot be stored in a tensor of ", out.dtype());
}

void check_broadcasts_to(const Tensor& y, const Tensor& out, const char* op) {
  if (y.sizes() == out.sizes()) return;
  TENDRIL_CHECK_AS(ShapeError, broadcast_shapes(out.sizes(), y.sizes(), op) == out.sizes(), op, ": shape ", y.sizes(),
                   " does not broadcast to ", out.sizes(), ", the shape of the tensor that is changed in place");
}

}  // namespace

DType result_type(const Tensor& x, const Tensor& y) {
  check_defined(x, "result_type", "x");
  check_defined(y, "result_type", "y");
  const DType a = x.dtype(), b = y.dtype();
  if (a == b) return a;
  if ((x.dim() == 0) == (y.dim() == 0)) return promote(a, b);
  const DType strong = x.dim() == 0 ? b : a;
  const DType weak = x.dim() == 0 ? a : b;
  return category(weak) > category(strong) ? promote(a, b) : strong;
}

DType result_type(const Tensor& x, const Tensor& y, const Tensor& z) {
  std::optional<DType> strong, weak;  // of tensors with and without dimensions
  for (const Tensor* operand : {&x, &y, &z}) {
    check_defined(*operand, "result_type", "an operand");
    std::optional<DType>& of_kind = operand->dim() == 0 ? weak : strong;
    of_kind = of_kind ? promote(*of_kind, operand->dtype()) : operand->dtype();
  }
  if (!strong || !weak) return strong ? *strong : *weak;
  return category(*weak) > category(*strong) ? promote(*strong, *weak) : *strong;
}

DType result_type(const Tensor& x, Scalar y) {
  check_defined(x, "result_type", "x");
  if (category(y.category()) <= category(x.dtype())) return x.dtype();
  return y.is_floating() ? kFloat32 : kInt64;
}

DType result_dtype(DTypeRule rule, DType promoted, const char* op) {
  if (rule == DTypeRule::kFloat) return is_floating(promoted) ? promoted : kFloat32;
  if (computes_in(rule, promoted)) [[likely]]
    return promoted;
  TENDRIL_CHECK_AS(DTypeError, !is_floating(promoted), op, ": expected integers",
                   rule == DTypeRule::kInteger ? " or bool, got " : ", got ", promoted);
  TENDRIL_CHECK_AS(DTypeError, promoted != kBool, op, ": not for bool; cast to a number first");
  return promoted;
}

Tensor unary(Unary op, const Tensor& x) {
  const TensorImpl* const a = x.impl();
  if (a && keeps(rule_of(op), a->dtype)) [[likely]] {
    Tensor out = result_like(x);
    const DeviceKernels table = kernels(a->storage->device());
    require(table->unary, op, *table)(op, view_of(*out.impl()), view_of(*a), parameter_of(op));
    return out;
  }
  return unary(op, x, parameter_of(op));
}

Tensor unary(Unary op, const Tensor& x, double p) {
  check_defined(x, name_of(op), "x");
  check_number(op, p);
  const Cast input(x, result_dtype(rule_of(op), x.dtype(), name_of(op)));
  Tensor out = result_like(input);
  run_unary(op, out, input, p);
  return out;
}

Tensor unary_gradient(Unary op, const Tensor& g, const Tensor& kept, double p, bool in_place) {
  check_defined(g, name_of(op), "the gradient");
  check_defined(kept, name_of(op), "what was kept");
  TENDRIL_CHECK_AS(ShapeError, g.sizes() == kept.sizes(), name_of(op), ": a gradient of shape ", g.sizes(),
                   " for a result of ", kept.sizes());
  TENDRIL_CHECK_AS(DTypeError, g.dtype() == kept.dtype(), name_of(op), ": a gradient of ", g.dtype(),
                   " for a result of ", kept.dtype());
  if (g.device() != kept.device()) refuse_devices(g, "the gradient", kept, "what was kept", name_of(op));
  Tensor out = in_place ? g : result_like(g);
  const DeviceKernels table = kernels(g.device());
  require(table->unary_gradient, op, *table)(op, view_of(out), view_of(g), view_of(kept), p);
  return out;
}

Tensor predicate(Predicate op, const Tensor& x) {
  check_defined(x, name_of(op), "x");
  Tensor out = empty_in_format_of(x, kBool);
  const DeviceKernels table = kernels(out.device());
  require(table->predicate, op, *table)(op, view_of(out), view_of(x));
  return out;
}

namespace {

[[gnu::noinline]] Tensor binary_promoted(Binary op, const Tensor& x, const Tensor& y) {
  const char* name = name_of(op);
  check_defined(x, name, "x");
  check_defined(y, name, "y");
  const Device device = common_device(x, y, name);
  const DType dtype = result_dtype(rule_of(op), result_type(x, y), name);
  check_divisor(op, y, dtype);
  if (is_wide_beside(x, y, dtype) || is_wide_beside(y, x, dtype)) {
    return cast(binary(op, cast(x, computed_in(dtype)), cast(y, computed_in(dtype))), dtype);
  }
  Tensor out = empty_for(broadcast_shapes(x.sizes(), y.sizes(), name), {&x, &y}, dtype, device);
  const bool x_number = is_number_beside(x, y), y_number = is_number_beside(y, x);
  const Cast a(x, x_number ? computed_in(dtype) : dtype), b(y, y_number ? computed_in(dtype) : dtype);
  run_binary(op, out, Broadcast(a, out.sizes(), out.numel(), device, x_number),
             Broadcast(b, out.sizes(), out.numel(), device, y_number));
  return out;
}

}  // namespace

Tensor binary(Binary op, const Tensor& x, const Tensor& y) {
  // Operands that need neither promotion nor broadcasting, as most do, are asked for first: it spares them the rest.
  const TensorImpl *const a = x.impl(), *const b = y.impl();
  if (a && b && a->dtype == b->dtype && a->sizes == b->sizes && a->storage->device() == b->storage->device() &&
      keeps(rule_of(op), a->dtype)) [[likely]] {
    Tensor out = result_like(x);
    const DeviceKernels table = kernels(a->storage->device());
    require(table->binary, op, *table)(op, view_of(*out.impl()), view_of(*a), view_of(*b));
    return out;
  }
  return binary_promoted(op, x, y);
}

Tensor binary(Binary op, const Tensor& x, Scalar y) {
  check_defined(x, name_of(op), "x");
  const DType dtype = result_dtype(rule_of(op), result_type(x, y), name_of(op));
  check_divisor(op, y, dtype);
  const Cast a(x, dtype);
  Tensor out = result_like(a);
  run_binary(op, out, view_of(a), Repeated(y, computed_in(dtype), out.sizes(), out.numel()));
  return out;
}

Tensor binary(Binary op, Scalar x, const Tensor& y) {
  check_defined(y, name_of(op), "y");
  const DType dtype = result_dtype(rule_of(op), result_type(y, x), name_of(op));
  check_divisor(op, y, dtype);
  const Cast b(y, dtype);
  Tensor out = result_like(b);
  run_binary(op, out, Repeated(x, computed_in(dtype), out.sizes(), out.numel()), view_of(b));
  return out;
}

Tensor compare(Compare op, const Tensor& x, const Tensor& y) {
  const char* name = name_of(op);
  check_defined(x, name, "x");
  check_defined(y, name, "y");
  const Device device = common_device(x, y, name);
  const DType dtype = result_type(x, y);
  Tensor out = empty_for(broadcast_shapes(x.sizes(), y.sizes(), name), {&x, &y}, kBool, device);
  const Cast a(x, dtype), b(y, dtype);
  run_compare(op, out, Broadcast(a, out.sizes(), out.numel(), device), Broadcast(b, out.sizes(), out.numel(), device));
  return out;
}

Tensor compare(Compare op, const Tensor& x, Scalar y) {
  check_defined(x, name_of(op), "x");
  const DType dtype = result_type(x, y);
  Tensor out = empty_in_format_of(x, kBool);
  const Cast a(x, dtype);
  run_compare(op, out, view_of(a), Repeated(y, dtype, out.sizes(), out.numel()));
  return out;
}

namespace {

/// Whether a kernel takes x beside g as it is.
bool is_beside(const Tensor& x, const Tensor& g) {
  return x.dtype() == g.dtype() && (x.device() == g.device() || joins(x));
}

Tensor run_gradient(Binary op, int operand, const Tensor& g, const View& x, const View& y) {
  Tensor out = result_like(g);
  const DeviceKernels table = kernels(g.device());
  require(table->binary_gradient, op, *table)(op, operand, view_of(out), view_of(g), x, y);
  return out;
}

}  // namespace

Tensor binary_gradient(Binary op, int operand, const Tensor& g, const Tensor& x, const Tensor& y) {
  check_defined(g, name_of(op), "the gradient");
  const Tensor &a = x.defined() ? x : g, &b = y.defined() ? y : g;
  if (!is_beside(a, g) || !is_beside(b, g)) return {};
  return run_gradient(op, operand, g, Broadcast(a, g.sizes(), g.numel(), g.device()),
                      Broadcast(b, g.sizes(), g.numel(), g.device()));
}

Tensor binary_gradient(Binary op, int operand, const Tensor& g, const Tensor& x, Scalar y) {
  check_defined(g, name_of(op), "the gradient");
  const Tensor& a = x.defined() ? x : g;
  if (!is_beside(a, g) || computed_in(g.dtype()) != g.dtype()) return {};
  return run_gradient(op, operand, g, Broadcast(a, g.sizes(), g.numel(), g.device()),
                      Repeated(y, g.dtype(), g.sizes(), g.numel()));
}

Tensor binary_gradient(Binary op, int operand, const Tensor& g, Scalar x, const Tensor& y) {
  check_defined(g, name_of(op), "the gradient");
  const Tensor& b = y.defined() ? y : g;
  if (!is_beside(b, g) || computed_in(g.dtype()) != g.dtype()) return {};
  return run_gradient(op, operand, g, Repeated(x, g.dtype(), g.sizes(), g.numel()),
                      Broadcast(b, g.sizes(), g.numel(), g.device()));
}

void unary_(Unary op, const Tensor& out) { unary_(op, out, parameter_of(op)); }
void unary_(Unary op, const Tensor& out, double p) {
  check_defined(out, name_of(op), "x");
  check_number(op, p);
  const DType dtype = result_dtype(rule_of(op), out.dtype(), name_of(op));
  check_fits(dtype, out, name_of(op));
  const DeviceKernels table = kernels(out.device());
  require(table->unary, op, *table)(op, view_of(out), view_of(out), p);
}

void binary_(Binary op, const Tensor& out, const Tensor& y) {
  const char* name = name_of(op);
  check_defined(out, name, "x");
  check_defined(y, name, "y");
  check_joins(out, y, name);
  DType dtype = result_dtype(rule_of(op), result_type(out, y), name);
  check_fits(dtype, out, name);
  if (is_wide_beside(y, out, dtype)) dtype = computed_in(dtype);
  check_broadcasts_to(y, out, name);
  check_divisor(op, y, dtype);
  // A partly overlapping operand would change while it is read.
  const bool overlaps = y.storage() == out.storage() && !y.is_same(out);
  const Tensor copy = overlaps ? clone(y) : Tensor();
  const bool number = is_number_beside(y, out);
  const Cast b(overlaps ? copy : y, number ? computed_in(dtype) : dtype);
  if (out.dtype() == dtype) {
    run_binary(op, out, view_of(out), Broadcast(b, out.sizes(), out.numel(), out.device(), number));
  } else {
    const Tensor wide = cast(out, dtype);
    run_binary(op, wide, view_of(wide), Broadcast(b, out.sizes(), out.numel(), out.device(), number));
    copy_(out, wide);
  }
}

void binary_(Binary op, const Tensor& out, Scalar y) {
  check_defined(out, name_of(op), "x");
  const DType dtype = result_dtype(rule_of(op), result_type(out, y), name_of(op));
  check_fits(dtype, out, name_of(op));
  check_divisor(op, y, dtype);
  run_binary(op, out, view_of(out), Repeated(y, computed_in(out.dtype()), out.sizes(), out.numel()));
}

void add_scaled_(const Tensor& out, const Tensor& y, Scalar alpha) {
  check_defined(out, "add", "x");
  check_defined(y, "add", "y");
  check_joins(out, y, "add");
  const DType dtype = result_dtype(DTypeRule::kSame, result_type(out, y), "add");
  check_fits(dtype, out, "add");
  TENDRIL_CHECK_AS(DTypeError, category(alpha.category()) <= category(dtype), "add: alpha ", alpha, " is not for ",
                   dtype);
  check_broadcasts_to(y, out, "add");
  if (computed_in(out.dtype()) != out.dtype() && is_number_beside(y, out)) {
    return binary_(Binary::add, out, y.item_scalar().to<double>() * alpha.to<double>());
  }
  if (const DType wide = is_wide_beside(y, out, dtype) ? computed_in(dtype) : dtype; wide != out.dtype()) {
    const Tensor sum = cast(out, wide);
    add_scaled_(sum, y, alpha);
    return copy_(out, sum);
  }
  const bool overlaps = y.storage() == out.storage() && !y.is_same(out);
  const Tensor copy = overlaps ? clone(y) : Tensor();
  const Cast b(overlaps ? copy : y, out.dtype());
  const DeviceKernels table = kernels(out.device());
  require(table->add_scaled, "add", *table)(view_of(out), view_of(out),
                                            Broadcast(b, out.sizes(), out.numel(), out.device()), alpha);
}

Tensor where(const Tensor& mask, const Tensor& x, const Tensor& y) {
  check_defined(mask, "where", "mask");
  check_defined(x, "where", "x");
  check_defined(y, "where", "y");
  const Device device = joins(mask) ? common_device(x, y, "where") : mask.device();
  for (const auto& [operand, name] : {std::pair(&x, "x"), std::pair(&y, "y")}) {
    if (operand->device() != device && !joins(*operand)) refuse_devices(mask, "the mask", *operand, name, "where");
  }
  TENDRIL_CHECK_AS(DTypeError, mask.dtype() == kBool, "where: the mask must be bool, got ", mask.dtype());
  const DType dtype = result_type(x, y);
  const Dims sizes = broadcast_shapes(mask.sizes(), broadcast_shapes(x.sizes(), y.sizes(), "where"), "where");
  Tensor out = empty_for(sizes, {&mask, &x, &y}, dtype, device);
  const Cast a(x, dtype), b(y, dtype);
  const DeviceKernels table = kernels(out.device());
  require(table->where, "where", *table)(view_of(out), Broadcast(mask, out.sizes(), out.numel(), device),
                                         Broadcast(a, out.sizes(), out.numel(), device),
                                         Broadcast(b, out.sizes(), out.numel(), device));
  return out;
}

namespace {

/// Of integers and bool. A bound that no number of the dtype is beyond is dropped.
Tensor clamp_integers(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high) {
  DType dtype = x.dtype();
  for (const auto& bound : {low, high}) {
    if (bound) dtype = promote(dtype, result_type(x, *bound));
  }
  if (is_floating(dtype)) return clamp(cast(x, dtype), low, high);
  result_dtype(DTypeRule::kSame, dtype, "clamp");
  const int64_t least = dtype == kUInt8 ? 0 : dtype == kInt32 ? INT32_MIN : INT64_MIN;
  const int64_t most = dtype == kUInt8 ? UINT8_MAX : dtype == kInt32 ? INT32_MAX : INT64_MAX;
  if (low) {
    TENDRIL_CHECK_AS(DTypeError, low->to<int64_t>() <= most, "clamp: a lower bound of ", *low, " is out of range for ",
                     dtype);
    if (low->to<int64_t>() <= least) low.reset();
  }
  if (high) {
    TENDRIL_CHECK_AS(DTypeError, high->to<int64_t>() >= least, "clamp: an upper bound of ", *high,
                     " is out of range for ", dtype);
    if (high->to<int64_t>() >= most) high.reset();
  }
  if (!low && !high) return dtype == x.dtype() ? clone(x) : cast(x, dtype);
  const Cast from(x, dtype);
  Tensor out = result_like(from);
  const DeviceKernels table = kernels(out.device());
  require(table->clamp, "clamp", *table)(view_of(out), view_of(from), low ? &*low : nullptr, high ? &*high : nullptr);
  return out;
}

}  // namespace

Tensor clamp(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high) {
  check_defined(x, "clamp", "x");
  TENDRIL_CHECK(low || high, "clamp: give a lower or an upper bound");
  if (!is_floating(x.dtype())) return clamp_integers(x, low, high);
  if ((low && std::isnan(low->to<double>())) || (high && std::isnan(high->to<double>()))) {
    return full(x.sizes(), NAN, x.dtype(), x.device());
  }
  Tensor out = result_like(x);
  const DeviceKernels table = kernels(out.device());
  require(table->clamp, "clamp", *table)(view_of(out), view_of(x), low ? &*low : nullptr, high ? &*high : nullptr);
  return out;
}

}  // namespace tendril::raw
