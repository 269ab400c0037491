#pragma once

#include "tendril/tensor/export.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::distributions {

/// The uniform distribution on [low, high), for each element; low and high broadcast. As PyTorch's. Gradients flow from
/// all but `sample` into what it was built from. float32 or float64, on any device.
/// Thread-safety: const members may be called by several threads.
class Uniform {
 public:
  /// Throws Error unless low is below high everywhere (which on a device nobody waits to see), ShapeError unless both
  /// broadcast, DTypeError unless both are float32 or both float64.
  Uniform(const Tensor& low, const Tensor& high);

  /// The lower end, included.
  const Tensor& low() const noexcept { return low_; }
  /// The upper end, excluded.
  const Tensor& high() const noexcept { return high_; }
  /// The shape of its parameters, which one sample has.
  const Dims& batch_shape() const { return low_.sizes(); }
  /// (low + high) / 2.
  Tensor mean() const;
  Tensor variance() const;  ///< (high - low)^2 / 12

  /// Of sample_shape + batch_shape; not recorded.
  Tensor sample(Generator& generator, const Dims& sample_shape = {}) const;
  Tensor sample(const Dims& sample_shape = {}) const { return sample(default_generator(), sample_shape); }
  /// low + (high - low) * noise, differentiable in both.
  Tensor rsample(Generator& generator, const Dims& sample_shape = {}) const;
  Tensor rsample(const Dims& sample_shape = {}) const { return rsample(default_generator(), sample_shape); }
  /// -log(high - low) within the interval, -infinity outside; `value` broadcasts with the batch.
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;  ///< log(high - low), in nats

 private:
  Tensor low_, high_;  // of batch_shape
};

/// The divergence of q from p: infinite where p's interval is not within q's.
Tensor kl_divergence(const Uniform& p, const Uniform& q);

}  // namespace tendril::distributions

TENDRIL_API_END
