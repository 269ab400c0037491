#include "tendril/autograd/ops/reduce.h"

#include <algorithm>
#include <cmath>

#include "tendril/autograd/detail/range.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/drivers/along.h"
#include "tendril/tensor/drivers/pointwise.h"
#include "tendril/tensor/drivers/reduction.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

using autograd::NodeOf;

/// Means and variances of the half types are computed in float32, of which the result alone is rounded.
bool is_half(const Tensor& x) { return computed_in(x.dtype()) != x.dtype(); }

/// What a sum's gradient does: it is spread over the elements that were added.
struct SumBackward : NodeOf<SumBackward, 1> {
  static constexpr const char* kName = "SumBackward";
  Dims kept, sizes;

  void keep(const Tensor&, const Tensor& x, const Dims& reduced) {
    kept = reduced;
    sizes = x.sizes();
  }
  void backward(const Tensor& g, std::span<Tensor> dx) { dx[0] = g.reshape(kept).expand(sizes); }
};

Tensor sum_kept(const Tensor& x, const Dims& kept, const Dims& sizes) {
  return drivers::reduce_to<SumBackward>(Reduction::sum, x, kept, sizes, "sum");
}

/// The largest or smallest along dimensions; elements that tie share the gradient evenly, as in PyTorch.
template <bool largest>
struct SharedExtremumBackward : NodeOf<SharedExtremumBackward<largest>, 1, 2> {
  static constexpr const char* kName = largest ? "AmaxBackward" : "AminBackward";
  Dims kept;

  void keep(const Tensor& out, const Tensor& x, const Dims& reduced) {
    this->save(0, x);
    this->save_output(1, out);
    kept = reduced;
  }
  void backward(const Tensor& g, std::span<Tensor> dx) {
    const Tensor x = this->saved(0);
    // With a NaN among them all NaN are.
    const Tensor chosen = x.eq(this->saved(1).reshape(kept)).logical_or(x.isnan());
    const Tensor mask = chosen.to(computed_in(g.dtype()));
    dx[0] = mask * (g.reshape(kept).to(mask.dtype()) / sum_to(mask, kept));
  }
};

template <bool largest>
Tensor shared_extremum(const Tensor& x, const Dims& dims, bool keepdim, const char* name) {
  const Reduction op = largest ? Reduction::max : Reduction::min;
  return drivers::reduce<SharedExtremumBackward<largest>>(op, x, dims, keepdim, name);
}

/// Along one dimension: the gradient goes to the element that was chosen.
template <bool largest>
struct ExtremumBackward : NodeOf<ExtremumBackward<largest>, 1, 1> {
  static constexpr const char* kName = largest ? "MaxBackward" : "MinBackward";
  Dims sizes, kept;
  int dim = 0;

  void keep(const Tensor& x, const Tensor& indices, int along) {
    this->save(0, indices);
    sizes = x.sizes();
    kept = indices.sizes();
    dim = along;
  }
  void backward(const Tensor& g, std::span<Tensor> dx) {
    dx[0] = raw::zeros(sizes, g.dtype(), g.device()).scatter_add(dim, this->saved(0), g.reshape(kept));
  }
};

template <bool largest>
std::tuple<Tensor, Tensor> extremum(const Tensor& x, int64_t dim, bool keepdim) {
  const auto [values, indices] =
      drivers::extremum<ExtremumBackward<largest>>(largest, x, dim, keepdim, true, largest ? "max" : "min");
  return {values, indices};
}

Tensor arg_extremum(bool largest, const Tensor& x, int64_t dim, bool keepdim, const char* name) {
  return drivers::extremum(largest, x, dim, keepdim, false, name).indices;
}

/// Deviations from the mean, for variances and their roots.
struct Spread {
  Spread(const Tensor& x, const Dims& dims, bool unbiased, const char* name) {
    // The rounding error of the mean is added to it, unrecorded because it is not a function of the elements. So the
    // mean of equal elements is their value (Chan, Golub, LeVeque, Algorithms for computing the sample variance, 1983).
    const Tensor rounded = x.mean(dims, true);
    centred = x - (rounded + (x.detach() - rounded.detach()).mean(dims, true));
    divisor = static_cast<double>(std::max<int64_t>(drivers::Reduced(x, dims, name).count - (unbiased ? 1 : 0), 0));
  }
  /// The standard deviation. Of equal elements its gradient is 0, as is that of norm at 0. For too few elements it and
  /// its gradient are 0 / 0, NaN, as in PyTorch.
  Tensor root(const Dims& dims, bool keepdim) const {
    if (divisor == 0) return (centred.square().sum(dims, keepdim) / divisor).sqrt();
    return centred.norm(2, dims, keepdim) / std::sqrt(divisor);
  }

  Tensor centred;  ///< x minus its mean
  double divisor;
};

}  // namespace

bool expands_to(const Dims& sizes, const Dims& target) noexcept {
  const int shift = target.size() - sizes.size();
  if (shift < 0) return false;
  for (int d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != 1 && sizes[d] != target[d + shift]) return false;
  }
  return true;
}

Tensor sum_to(const Tensor& x, const Dims& sizes) {
  detail::check_defined(x, "sum_to", "x");
  if (x.sizes() == sizes) return x;
  TENDRIL_CHECK_AS(ShapeError, expands_to(sizes, x.sizes()), "sum_to: shape ", sizes, " does not broadcast to ",
                   x.sizes());
  const int shift = x.dim() - sizes.size();
  Dims kept;
  for (int d = 0; d < x.dim(); ++d) kept.push_back(d < shift ? 1 : sizes[d - shift]);
  return sum_kept(x, kept, sizes);
}

Tensor Tensor::sum() const { return sum({}, false); }
Tensor Tensor::sum(const Dims& dims, Flag keepdim) const {
  const drivers::Reduced to(*this, dims, "sum");
  return sum_kept(*this, to.kept, keepdim ? to.kept : to.squeezed);
}

Tensor Tensor::mean() const { return mean({}, false); }
Tensor Tensor::mean(const Dims& dims, Flag keepdim) const {
  detail::check_floating(*this, "mean");
  if (is_half(*this)) return this->to(kFloat32).mean(dims, keepdim).to(dtype());
  const drivers::Reduced to(*this, dims, "mean");
  const auto count = static_cast<double>(to.count);
  Tensor out = sum_kept(*this, to.kept, keepdim ? to.kept : to.squeezed) / count;
  if (autograd::detail::all_finite(out) || to.count == 0) return out;
  return sum_kept(*this / count, to.kept, keepdim ? to.kept : to.squeezed);  // the sum has overflowed
}

Tensor Tensor::var(const Dims& dims, Flag unbiased, Flag keepdim) const {
  detail::check_floating(*this, "var");
  if (is_half(*this)) return this->to(kFloat32).var(dims, unbiased, keepdim).to(dtype());
  const Spread spread(*this, dims, unbiased, "var");
  const Tensor out = spread.centred.square().sum(dims, keepdim) / spread.divisor;
  return spread.divisor == 0 || autograd::detail::all_finite(out) ? out : spread.root(dims, keepdim).square();
}

Tensor Tensor::std(const Dims& dims, Flag unbiased, Flag keepdim) const {
  detail::check_floating(*this, "std");
  if (is_half(*this)) return this->to(kFloat32).std(dims, unbiased, keepdim).to(dtype());
  return Spread(*this, dims, unbiased, "std").root(dims, keepdim);
}

Tensor Tensor::max() const { return shared_extremum<true>(*this, {}, false, "max"); }
Tensor Tensor::min() const { return shared_extremum<false>(*this, {}, false, "min"); }
Tensor Tensor::amax(const Dims& dims, Flag keepdim) const {
  return shared_extremum<true>(*this, dims, keepdim, "amax");
}
Tensor Tensor::amin(const Dims& dims, Flag keepdim) const {
  return shared_extremum<false>(*this, dims, keepdim, "amin");
}
Tensor Tensor::nansum(const Dims& dims, Flag keepdim) const { return tendril::nansum(*this, dims, keepdim); }
Tensor Tensor::count_nonzero(const Dims& dims) const {
  detail::check_defined(*this, "count_nonzero");
  return raw::compare(Compare::ne, *this, 0).sum(dims);
}
std::tuple<Tensor, Tensor> Tensor::max(int64_t dim, Flag keepdim) const { return extremum<true>(*this, dim, keepdim); }
std::tuple<Tensor, Tensor> Tensor::min(int64_t dim, Flag keepdim) const { return extremum<false>(*this, dim, keepdim); }
Tensor Tensor::argmax(int64_t dim, Flag keepdim) const { return arg_extremum(true, *this, dim, keepdim, "argmax"); }
Tensor Tensor::argmin(int64_t dim, Flag keepdim) const { return arg_extremum(false, *this, dim, keepdim, "argmin"); }
Tensor Tensor::argmax() const {
  detail::check_defined(*this, "argmax");
  return reshape({-1}).argmax(0);
}
Tensor Tensor::argmin() const {
  detail::check_defined(*this, "argmin");
  return reshape({-1}).argmin(0);
}
Tensor Tensor::all() const { return drivers::reduce(Reduction::all, *this); }
Tensor Tensor::any() const { return drivers::reduce(Reduction::any, *this); }
Tensor Tensor::all(const Dims& dims, Flag keepdim) const {
  return drivers::reduce(Reduction::all, *this, dims, keepdim);
}
Tensor Tensor::any(const Dims& dims, Flag keepdim) const {
  return drivers::reduce(Reduction::any, *this, dims, keepdim);
}

}  // namespace tendril
