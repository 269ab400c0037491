#pragma once

#include "tendril/tensor/export.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::distributions {

/// One of the two.
struct BernoulliParams {
  Tensor probs = {};   ///< of 1, in [0, 1]
  Tensor logits = {};  ///< log(p / (1 - p))
};

/// 1 or 0, for each element. As PyTorch's. Gradients flow from log_prob, entropy, probs and logits into what it was
/// built from. float32 or float64, on any device. Thread-safety: const members may be called by several threads.
class Bernoulli {
 public:
  /// Throws Error unless exactly one of the two is given and probs are in [0, 1] (which on a device nobody waits to
  /// see), DTypeError unless it is float32 or float64.
  explicit Bernoulli(const BernoulliParams& params);

  /// The shape of its parameters, which one sample has.
  const Dims& batch_shape() const { return param_.sizes(); }
  /// The probability of a 1.
  Tensor probs() const;
  /// Built from probs, these are kept eps away from 0 and 1 (eps as in numeric_limits), as in PyTorch.
  Tensor logits() const;
  /// The probability of a 1.
  Tensor mean() const { return probs(); }
  /// p (1 - p).
  Tensor variance() const;

  /// 1s and 0s of the parameter's dtype, of sample_shape + batch_shape; not recorded.
  Tensor sample(Generator& generator, const Dims& sample_shape = {}) const;
  Tensor sample(const Dims& sample_shape = {}) const { return sample(default_generator(), sample_shape); }
  /// log p(value); `value` is 1s and 0s of the parameter's dtype and broadcasts with the batch.
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;  ///< in nats
  friend Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q);

 private:
  Tensor param_;  // probs or logits
  bool is_logits_;
};

/// The divergence of q from p, for each element: infinite where q never gives what p may give.
Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q);

}  // namespace tendril::distributions

TENDRIL_API_END
