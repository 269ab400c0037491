// Running results along a dimension, and the product, whose gradient is made of them.
#include "tendril/autograd/ops/scan.h"

#include <algorithm>
#include <cmath>

#include "tendril/autograd/autocast.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/drivers/along.h"
#include "tendril/tensor/drivers/reduction.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

using autograd::NodeOf;

/// Gradients of products are computed in float64: partial products may leave the range of float32 although the
/// gradient does not.
Tensor in_double(const Tensor& x) { return x.to(kFloat64); }

/// Running sums along `dim`, from its end if `reverse`.
Tensor running_sum(const Tensor& x, int64_t dim, bool reverse);
/// Running products likewise.
Tensor running_product(const Tensor& x, int64_t dim, bool reverse);
/// y[i] = a[i] y[i - 1] + b[i] along `dim`, or, if `reverse`, a[i] y[i + 1] + b[i]. The first y is the first b.
Tensor recurrence(const Tensor& a, const Tensor& b, int dim, bool reverse);

/// Element i of the result is element i - 1 along `dim`, or, if `reverse`, element i + 1; the first is `fill`.
Tensor previous(const Tensor& x, int dim, bool reverse, double fill) {
  const int64_t rest = x.size(dim) - 1;
  Dims sizes = x.sizes();
  sizes[dim] = 1;
  Tensor first = full(sizes, fill, {.dtype = x.dtype(), .device = x.device()});
  if (rest == 0) return first;
  return reverse ? cat({x.narrow(dim, 1, rest), first}, dim) : cat({first, x.narrow(dim, 0, rest)}, dim);
}

/// Each element is in its own partial sum and in all later ones: the gradients are added up from the end. (Subtracting
/// earlier sums from the total would cancel.)
struct CumsumBackward : NodeOf<CumsumBackward, 1> {
  static constexpr const char* kName = "CumsumBackward";
  int dim = 0;
  bool reverse = false;

  void keep(const Tensor&, const Tensor&, int along, bool from_the_end) {
    dim = along;
    reverse = from_the_end;
  }
  void backward(const Tensor& g, std::span<Tensor> dx) { dx[0] = running_sum(g, dim, !reverse); }
};

/// How many zeros there are along `dim` before each element, or, if `reverse`, behind it; float64.
Tensor zeros_before(const Tensor& x, int dim, bool reverse) {
  const Tensor zeros = raw::cast(raw::compare(Compare::eq, x, 0), kFloat64);
  return drivers::scan(Scan::sum, zeros, dim, reverse) - zeros;
}

/// A gradient of products of x along `dim`, where it is NaN although a factor of it is 0 (`zeros`: how many are) and
/// none is infinite: a partial product has overflowed, and 0 times that is 0.
Tensor with_zeros(const Tensor& gradient, const Tensor& x, const Tensor& g, int dim, const Tensor& zeros) {
  const Tensor finite = x.isfinite().all({dim}, true).logical_and(g.isfinite().all({dim}, true));
  return gradient.masked_fill(gradient.isnan().logical_and(finite).logical_and(zeros.gt(0)), 0);
}
/// Whether to look for such. A device's gradients are not looked at, which would wait for it.
bool may_be_nan(const Tensor& x) { return !x.device().is_cpu() || x.isnan().any().item<bool>(); }

/// dx[i] = (x[0] ... x[i - 1]) s[i], where s[i] = g[i] + x[i + 1] s[i + 1]. Nothing is divided, so factors may
/// be zero.
struct CumprodBackward : NodeOf<CumprodBackward, 1, 1> {
  static constexpr const char* kName = "CumprodBackward";
  int dim = 0;
  bool reverse = false;

  void keep(const Tensor&, const Tensor& x, int along, bool from_the_end) {
    save(0, x);
    dim = along;
    reverse = from_the_end;
  }
  void backward(const Tensor& g, std::span<Tensor> dx) {
    const Tensor x = in_double(saved(0));
    if (x.dim() == 0 || x.numel() == 0) {
      dx[0] = g;
      return;
    }
    const Tensor before = running_product(previous(x, dim, reverse, 1), dim, reverse);
    dx[0] = before * recurrence(previous(x, dim, !reverse, 1), in_double(g), dim, !reverse);
    if (may_be_nan(dx[0])) dx[0] = with_zeros(dx[0], x, g, dim, zeros_before(x, dim, reverse));
  }
};

/// The gradient of each element is the product of all others: of those before it and of those behind.
struct ProdBackward : NodeOf<ProdBackward, 1, 1> {
  static constexpr const char* kName = "ProdBackward";
  Dims kept;

  void keep(const Tensor&, const Tensor& x, const Dims& reduced) {
    save(0, x);
    kept = reduced;
  }
  void backward(const Tensor& given, std::span<Tensor> dx) {
    const Tensor x = in_double(saved(0)), g = in_double(given).reshape(kept);
    int dim = 0;
    while (dim < x.dim() && kept[dim] == x.size(dim)) ++dim;
    if (dim == x.dim() || x.numel() == 0) {  // products of one element, or of none
      dx[0] = g.expand(x.sizes());
      return;
    }
    const Tensor before = running_product(previous(x, dim, false, 1), dim, false);
    dx[0] = g * (before * running_product(previous(x, dim, true, 1), dim, true));
    if (may_be_nan(dx[0])) {
      dx[0] = with_zeros(dx[0], x, g, dim, zeros_before(x, dim, false) + zeros_before(x, dim, true));
    }
  }
};

/// The transposed map is the recurrence the other way, with each factor one place further on.
struct RecurrenceBackward : NodeOf<RecurrenceBackward, 2, 2> {
  static constexpr const char* kName = "RecurrenceBackward";
  int dim = 0;
  bool reverse = false;

  void keep(const Tensor& y, const Tensor& a, int along, bool from_the_end) {
    save(0, a);
    save_output(1, y);
    dim = along;
    reverse = from_the_end;
  }
  void backward(const Tensor& g, std::span<Tensor> d) {
    const Tensor db = recurrence(previous(saved(0), dim, !reverse, 0), g, dim, !reverse);
    if (needs_grad(0)) d[0] = db * previous(saved(1), dim, reverse, 0);
    d[1] = db;
  }
};

Tensor running_sum(const Tensor& x, int64_t dim, bool reverse) {
  return drivers::scan<CumsumBackward>(Scan::sum, x, dim, reverse);
}
Tensor running_product(const Tensor& x, int64_t dim, bool reverse) {
  return drivers::scan<CumprodBackward>(Scan::prod, x, dim, reverse);
}
Tensor recurrence(const Tensor& a, const Tensor& b, int dim, bool reverse) {
  return drivers::recurrence<RecurrenceBackward>(a, b, dim, reverse);
}

/// The gradient goes to the elements that were chosen.
template <bool largest>
struct RunningExtremumBackward : NodeOf<RunningExtremumBackward<largest>, 1, 1> {
  static constexpr const char* kName = largest ? "CummaxBackward" : "CumminBackward";
  int dim = 0;

  void keep(const Tensor&, const Tensor& indices, int along) {
    this->save(0, indices);
    dim = along;
  }
  void backward(const Tensor& g, std::span<Tensor> dx) {
    dx[0] = raw::zeros(g.sizes(), g.dtype(), g.device()).scatter_add(dim, this->saved(0), g);
  }
};

/// dx[i] = e^(x[i] - y[i]) t[i], where t[i] = g[i] + e^(y[i] - y[i + 1]) t[i + 1]: y does not fall, so no power exceeds
/// 1. Where y is -infinity dx is 0; where it is infinity, the infinite x so far share its gradient equally.
struct LogcumsumexpBackward : NodeOf<LogcumsumexpBackward, 1, 2> {
  static constexpr const char* kName = "LogcumsumexpBackward";
  int dim = 0;

  void keep(const Tensor& y, const Tensor& x, int along, bool) {
    save(0, x);
    save_output(1, y);
    dim = along;
  }
  void backward(const Tensor& g, std::span<Tensor> dx) {
    const bool flat = g.dim() == 0;
    const Tensor x = flat ? saved(0).reshape({1}) : saved(0), y = flat ? saved(1).reshape({1}) : saved(1);
    if (g.numel() == 0) {
      dx[0] = g;
      return;
    }
    const Tensor gradient = of_lines(flat ? g.reshape({1}) : g, x, y);
    dx[0] = flat ? gradient.reshape({}) : gradient;
  }

 private:
  Tensor of_lines(const Tensor& g, const Tensor& x, const Tensor& y) const {
    const Tensor infinite = raw::predicate(Predicate::isinf, y);
    if (x.device().is_cpu() && !infinite.any().item<bool>()) {
      return (x - y).exp() * recurrence(falls(y, {}, {}), g, dim, true);
    }
    // With the infinite x as 0 and the others as -infinity, y is the logarithm of how many there are.
    const Tensor none = raw::compare(Compare::eq, y, -HUGE_VAL), above = raw::compare(Compare::eq, y, HUGE_VAL);
    const Tensor largest = raw::compare(Compare::eq, x, HUGE_VAL);
    const Tensor counts = drivers::scan(Scan::sum, raw::cast(largest, x.dtype()), dim);
    const Tensor logs = raw::unary(Unary::log, counts);
    const Tensor places = x.masked_fill(above, -HUGE_VAL).masked_fill(largest, 0).masked_fill(none, 0);
    const Tensor levels = logs.where(above, y).masked_fill(none, 0);
    return (places - levels).exp().masked_fill(none, 0) * recurrence(falls(levels, above, none), g, dim, true);
  }
  /// e^(y[i] - y[i + 1]), but 0 where `above` changes, from finite to infinite, and where there are `none`. The last is
  /// not read.
  Tensor falls(const Tensor& y, const Tensor& above, const Tensor& none) const {
    const int64_t rest = y.size(dim) - 1;
    Tensor difference = y.narrow(dim, 0, rest) - y.narrow(dim, 1, rest);
    if (above.defined()) {
      const Tensor here = raw::narrow(above, dim, 0, rest), next = raw::narrow(above, dim, 1, rest);
      const Tensor cut = here.ne(next).logical_or(raw::narrow(none, dim, 0, rest));
      difference = difference.masked_fill(cut, -HUGE_VAL);
    }
    Dims sizes = y.sizes();
    sizes[dim] = 1;
    return cat({difference.exp(), zeros(sizes, {.dtype = y.dtype(), .device = y.device()})}, dim);
  }
};

template <class T>
bool all_finite_and_not_zero(const T* x, int64_t count) {
  return std::all_of(x, x + count, [](T value) { return std::isfinite(value) && value != 0; });
}

/// Whether some product along `dim` overflowed or vanished because the kernel multiplies a line in several pieces:
/// multiplied one after another, its factors may give another result. A zero among the factors explains a zero.
bool left_range(const Tensor& products, const Tensor& x, int dim) {
  const int64_t count = products.numel();
  if (products.dtype() == kFloat32 ? all_finite_and_not_zero(static_cast<const float*>(products.raw_data()), count)
                                   : all_finite_and_not_zero(static_cast<const double*>(products.raw_data()), count)) {
    return false;
  }
  const Tensor explained = products.eq(0).logical_and(x.eq(0).any({dim}, true));
  const Tensor ordinary = products.isfinite().logical_and(products.ne(0));
  return !ordinary.logical_or(explained).all().item<bool>();
}

}  // namespace

Tensor Tensor::cumsum(int64_t dim) const { return running_sum(*this, dim, false); }
Tensor Tensor::cumprod(int64_t dim) const { return running_product(*this, dim, false); }

std::tuple<Tensor, Tensor> Tensor::cummax(int64_t dim) const {
  const auto [values, indices] = drivers::running_extremum<RunningExtremumBackward<true>>(true, *this, dim);
  return {values, indices};
}
std::tuple<Tensor, Tensor> Tensor::cummin(int64_t dim) const {
  const auto [values, indices] = drivers::running_extremum<RunningExtremumBackward<false>>(false, *this, dim);
  return {values, indices};
}

Tensor Tensor::logcumsumexp(int64_t dim) const {
  detail::check_floating(*this, "logcumsumexp");
  if (computed_in(dtype()) != dtype()) return this->to(computed_in(dtype())).logcumsumexp(dim).to(dtype());
  return drivers::scan<LogcumsumexpBackward>(Scan::logsumexp, *this, dim);
}

Tensor Tensor::prod() const {
  detail::check_defined(*this, "prod");
  return reshape({-1}).prod(0);
}

Tensor Tensor::prod(int64_t given_dim, Flag keepdim) const {
  detail::check_defined(*this, "prod");
  if (dim() == 0) return reshape({1}).prod(given_dim);
  const int d = wrap_dim(given_dim, dim(), "prod");
  // The CPU keeps products of float32 in double; a device's kernel does not.
  const DType computed = !is_floating(dtype()) || device().is_cpu() ? computed_in(dtype()) : kFloat64;
  if (computed != dtype()) {
    const bool raised = computed_in(dtype()) != dtype() && autograd::detail::autocast_on();
    return this->to(computed).prod(d, keepdim).to(raised ? kFloat32 : dtype());
  }
  Tensor out = drivers::reduce<ProdBackward>(Reduction::prod, *this, {d}, keepdim);
  if (is_floating(dtype()) && device().is_cpu() && numel() > 0) {
    Dims kept = sizes();
    kept[d] = 1;
    const Tensor products = raw::view(out, kept);
    if (left_range(products, *this, d)) {
      raw::copy_(products, raw::narrow(drivers::scan(Scan::prod, *this, d), d, size(d) - 1, 1));
    }
  }
  return out;
}

}  // namespace tendril
