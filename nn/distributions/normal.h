#pragma once

#include "tendril/tensor/export.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::distributions {

/// The normal distribution of each element; loc and scale broadcast. As PyTorch's:
///
///     distributions::Normal policy(mean, deviation);
///     Tensor action = policy.rsample(generator);      // gradients flow into mean and deviation
///
/// Gradients flow from all but `sample` into what it was built from. float32 or float64, on any device.
/// Thread-safety: const members may be called by several threads.
class Normal {
 public:
  /// Throws Error unless scale is positive everywhere (which on a device nobody waits to see), ShapeError unless both
  /// broadcast, DTypeError unless both are float32 or both float64.
  Normal(const Tensor& loc, const Tensor& scale);

  const Tensor& loc() const noexcept { return loc_; }      ///< mean
  const Tensor& scale() const noexcept { return scale_; }  ///< standard deviation
  /// The shape of its parameters, which one sample has.
  const Dims& batch_shape() const { return loc_.sizes(); }
  /// As it was given, broadcast.
  const Tensor& mean() const noexcept { return loc_; }
  /// As it was given, broadcast.
  const Tensor& stddev() const noexcept { return scale_; }
  /// The square of the standard deviation.
  Tensor variance() const { return scale_.square(); }

  /// Of sample_shape + batch_shape; not recorded.
  Tensor sample(Generator& generator, const Dims& sample_shape = {}) const;
  Tensor sample(const Dims& sample_shape = {}) const { return sample(default_generator(), sample_shape); }
  /// loc + scale * noise, differentiable in both.
  Tensor rsample(Generator& generator, const Dims& sample_shape = {}) const;
  Tensor rsample(const Dims& sample_shape = {}) const { return rsample(default_generator(), sample_shape); }
  /// -(value - loc)^2 / (2 scale^2) - log(scale) - log(2 pi) / 2; `value` broadcasts with the batch.
  Tensor log_prob(const Tensor& value) const;
  Tensor cdf(const Tensor& value) const;  ///< the probability of less
  Tensor entropy() const;                 ///< 1/2 + log(2 pi) / 2 + log(scale), in nats

 private:
  Tensor loc_, scale_;  // of batch_shape
};

/// The divergence of q from p: the mean over p of log(p / q), for each element.
Tensor kl_divergence(const Normal& p, const Normal& q);

}  // namespace tendril::distributions

TENDRIL_API_END
