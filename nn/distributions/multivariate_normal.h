#pragma once

#include "tendril/tensor/export.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::distributions {

/// One of the two.
struct MultivariateNormalParams {
  /// [..., D, D], lower triangular with a positive diagonal: the covariance is scale_tril scale_tril^T.
  Tensor scale_tril = {};
  Tensor scale_diag = {};  ///< [..., D], positive: standard deviations of components that do not depend on each other
};

/// The normal distribution of vectors of D numbers, loc [..., D]; the other dimensions are the batch, in which loc and
/// scale broadcast. As PyTorch's. Gradients flow from all but `sample` into what it was built from. float32 or float64,
/// on any device; with scale_tril densities take some five operations a row of it (there is no kernel of a triangular
/// solve). Thread-safety: const members may be called by several threads.
class MultivariateNormal {
 public:
  /// Throws Error unless exactly one of the two is given and it is as said above (which on a device nobody waits to
  /// see), ShapeError for sizes that do not fit, DTypeError unless all is float32 or all float64.
  MultivariateNormal(const Tensor& loc, const MultivariateNormalParams& params);

  int64_t event_size() const { return loc_.size(-1); }  ///< D
  /// The sizes of the batch.
  Dims batch_shape() const;
  /// As it was given, broadcast.
  const Tensor& loc() const noexcept { return loc_; }
  /// loc.
  const Tensor& mean() const noexcept { return loc_; }
  Tensor scale_tril() const;         ///< [..., D, D]
  Tensor covariance_matrix() const;  ///< [..., D, D]
  Tensor variance() const;           ///< [..., D]

  /// Of sample_shape + batch_shape + [D]; not recorded.
  Tensor sample(Generator& generator, const Dims& sample_shape = {}) const;
  Tensor sample(const Dims& sample_shape = {}) const { return sample(default_generator(), sample_shape); }
  /// loc + scale_tril * noise, differentiable in both.
  Tensor rsample(Generator& generator, const Dims& sample_shape = {}) const;
  Tensor rsample(const Dims& sample_shape = {}) const { return rsample(default_generator(), sample_shape); }
  /// The logarithm of the density at `value` [..., D], which broadcasts with the batch: of that shape without D.
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;  ///< of batch_shape, in nats
  friend Tensor kl_divergence(const MultivariateNormal& p, const MultivariateNormal& q);

 private:
  bool diagonal() const noexcept { return !tril_.defined(); }
  Tensor half_log_determinant() const;  // of batch_shape
  Tensor whitened(const Tensor& off) const;

  Tensor loc_;          // batch_shape + [D]
  Tensor diag_, tril_;  // one of them, in the batch_shape too
};

/// The divergence of q from p, for each of the batch.
Tensor kl_divergence(const MultivariateNormal& p, const MultivariateNormal& q);

}  // namespace tendril::distributions

TENDRIL_API_END
