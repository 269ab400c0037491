#include "tendril/nn/distributions/multivariate_normal.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/rearrange.h"
#include "tendril/nn/distributions/detail/parameters.h"
#include "tendril/tensor/raw.h"

namespace tendril::distributions {

namespace {

const double kLogTwoPi = std::log(2 * std::numbers::pi);

Dims without_last(const Dims& sizes, int count) {
  Dims result;
  for (int d = 0; d < sizes.size() - count; ++d) result.push_back(sizes[d]);
  return result;
}

Dims with(const Dims& batch, std::initializer_list<int64_t> last) {
  Dims result = batch;
  for (const int64_t size : last) result.push_back(size);
  return result;
}

/// y of tril y = b, for b [..., D], row by row.
Tensor solve_lower(const Tensor& tril, const Tensor& b) {
  std::vector<Tensor> y;
  for (int64_t i = 0; i < b.size(-1); ++i) {
    const Tensor row = tril.select(-2, i);
    Tensor rest = b.select(-1, i);
    if (i > 0) rest = rest - (row.narrow(-1, 0, i) * stack(y, -1)).sum({-1});
    y.push_back(rest / row.select(-1, i));
  }
  return stack(y, -1);
}

}  // namespace

MultivariateNormal::MultivariateNormal(const Tensor& loc, const MultivariateNormalParams& params) {
  constexpr const char* op = "MultivariateNormal";
  TENDRIL_CHECK(params.scale_tril.defined() != params.scale_diag.defined(), op, ": got ",
                params.scale_tril.defined() ? "both scale_tril and scale_diag" : "neither scale_tril nor scale_diag",
                ", expected exactly one of them");
  const bool full = params.scale_tril.defined();
  const Tensor& scale = full ? params.scale_tril : params.scale_diag;
  const char* name = full ? "scale_tril" : "scale_diag";
  detail::check_parameter(op, "loc", loc);
  detail::check_parameter(op, name, scale);
  TENDRIL_CHECK_AS(DTypeError, loc.dtype() == scale.dtype(), op, ": loc is ", loc.dtype(), ", ", name, " is ",
                   scale.dtype(), ", expected one dtype");
  TENDRIL_CHECK(loc.device() == scale.device(), op, ": ", name, " is on ", scale.device(),
                ", expected the device of loc, ", loc.device());
  TENDRIL_CHECK_AS(ShapeError, loc.dim() >= 1 && loc.size(-1) > 0, op, ": loc has shape ", loc.sizes(),
                   ", expected [..., D] with at least one component");
  const int64_t width = loc.size(-1);
  const int last = full ? 2 : 1;
  TENDRIL_CHECK_AS(ShapeError, scale.dim() >= last && scale.size(-1) == width && (!full || scale.size(-2) == width), op,
                   ": ", name, " has shape ", scale.sizes(), ", expected [..., ", width, full ? ", same]" : "]",
                   " for a loc of ", loc.sizes());
  const Dims batch = broadcast_shapes(without_last(loc.sizes(), 1), without_last(scale.sizes(), last), op);
  {
    const NoGrad no_grad;
    const Tensor diagonal_of = full ? tendril::diagonal(scale, 0, -2, -1) : scale;
    detail::check_values(op, name, diagonal_of.gt(0), "positive numbers on the diagonal");
    if (full) detail::check_values(op, name, scale.eq(tril(scale)), "a lower triangular matrix");
  }
  loc_ = loc.expand(with(batch, {width}));
  (full ? tril_ : diag_) = full ? scale.expand(with(batch, {width, width})) : scale.expand(with(batch, {width}));
}

Dims MultivariateNormal::batch_shape() const { return without_last(loc_.sizes(), 1); }

Tensor MultivariateNormal::scale_tril() const {
  if (!diagonal()) return tril_;
  return diag_.unsqueeze(-1) * raw::eye(event_size(), event_size(), diag_.dtype(), diag_.device());
}

Tensor MultivariateNormal::covariance_matrix() const {
  const Tensor tril = scale_tril();
  return tril.matmul(tril.transpose(-1, -2));
}

Tensor MultivariateNormal::variance() const { return diagonal() ? diag_.square() : tril_.square().sum({-1}); }

Tensor MultivariateNormal::half_log_determinant() const {
  return (diagonal() ? diag_ : tendril::diagonal(tril_, 0, -2, -1)).log().sum({-1});
}

Tensor MultivariateNormal::whitened(const Tensor& off) const {
  return diagonal() ? off / diag_ : solve_lower(tril_, off);
}

Tensor MultivariateNormal::sample(Generator& generator, const Dims& sample_shape) const {
  const NoGrad no_grad;
  return rsample(generator, sample_shape);
}

Tensor MultivariateNormal::rsample(Generator& generator, const Dims& sample_shape) const {
  const Tensor noise = raw::empty(detail::sample_sizes(sample_shape, loc_.sizes()), loc_.dtype(), loc_.device());
  raw::normal_(noise, 0, 1, generator);
  return loc_ + (diagonal() ? diag_ * noise : (tril_ * noise.unsqueeze(-2)).sum({-1}));
}

Tensor MultivariateNormal::log_prob(const Tensor& value) const {
  constexpr const char* op = "MultivariateNormal::log_prob";
  TENDRIL_CHECK(value.defined(), op, ": value is an undefined tensor");
  detail::check_value(op, value, loc_);
  TENDRIL_CHECK_AS(ShapeError, value.dim() >= 1 && value.size(-1) == event_size(), op, ": value has shape ",
                   value.sizes(), ", expected [..., ", event_size(), "]");
  const Tensor distance = whitened(value - loc_).square().sum({-1});
  return (distance + static_cast<double>(event_size()) * kLogTwoPi) * -0.5 - half_log_determinant();
}

Tensor MultivariateNormal::entropy() const {
  return half_log_determinant() + 0.5 * static_cast<double>(event_size()) * (1 + kLogTwoPi);
}

Tensor kl_divergence(const MultivariateNormal& p, const MultivariateNormal& q) {
  constexpr const char* op = "kl_divergence";
  detail::check_value(op, p.loc_, q.loc_);
  TENDRIL_CHECK_AS(ShapeError, p.event_size() == q.event_size(), op, ": the distributions are of ", p.event_size(),
                   " and ", q.event_size(), " components, expected as many");
  Tensor spread;  // |L_q^-1 L_p|^2
  if (p.diagonal() && q.diagonal()) {
    spread = (p.diag_ / q.diag_).square().sum({-1});
  } else {  // each column of L_p is a vector to solve for
    const Tensor columns = p.scale_tril().transpose(-1, -2);
    spread = solve_lower(q.scale_tril().unsqueeze(-3), columns).square().sum({-2, -1});
  }
  const Tensor off = q.whitened(p.loc_ - q.loc_).square().sum({-1});
  return q.half_log_determinant() - p.half_log_determinant() +
         (spread + off - static_cast<double>(p.event_size())) * 0.5;
}

}  // namespace tendril::distributions
