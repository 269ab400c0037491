#pragma once

#include <cstdint>

#include "tendril/tensor/export.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::distributions {

/// One of the two, over the last dimension.
struct CategoricalParams {
  Tensor probs = {};   ///< not negative, not all zero; need not sum to 1
  Tensor logits = {};  ///< logarithms of probabilities, up to a constant a row
};

/// A choice among K classes, for each row of [..., K]; the other dimensions are the batch. As PyTorch's:
///
///     distributions::Categorical policy({.probs = probs});
///     Tensor action = policy.sample(generator);
///     Tensor loss = -policy.log_prob(action) * reward;
///
/// Gradients flow from log_prob, entropy, probs and logits into what it was built from.
/// On a device too; but values are checked and drawn by the host, which waits for them.
/// Thread-safety: const members may be called by several threads.
class Categorical {
 public:
  /// Throws Error unless exactly one of the two is given, its values are finite (logits may be -infinity, but not a
  /// whole row), none of probs is negative, and no row of probs sums to zero; ShapeError for no dimension or no class;
  /// DTypeError unless it is float32 or float64.
  explicit Categorical(const CategoricalParams& params);

  /// How many there are to draw from.
  int64_t num_classes() const { return param_.size(-1); }
  /// How many distributions: the probabilities' sizes without the last.
  Dims batch_shape() const;

  Tensor probs() const;   ///< [..., K], rows sum to 1
  Tensor logits() const;  ///< [..., K], normalised: their logsumexp is 0

  /// int64 of sample_shape + batch_shape; not recorded.
  Tensor sample(Generator& generator, const Dims& sample_shape = {}) const;
  Tensor sample(const Dims& sample_shape = {}) const { return sample(default_generator(), sample_shape); }
  /// log p(value). `value` is int64 and broadcasts with the batch. IndexError for a class that there is not.
  /// Built from probs, these are kept eps away from 0 and 1 (eps as in numeric_limits), as in PyTorch.
  Tensor log_prob(const Tensor& value) const;
  /// -sum p log p, in nats, of batch_shape.
  Tensor entropy() const;
  friend Tensor kl_divergence(const Categorical& p, const Categorical& q);

 private:
  Tensor param_;  // probs or logits, normalised
  bool is_logits_;
};

/// The divergence of q from p, of the batches' shape, which broadcast: infinite where q never gives a class that p may
/// give. ShapeError for different numbers of classes.
Tensor kl_divergence(const Categorical& p, const Categorical& q);

}  // namespace tendril::distributions

TENDRIL_API_END
