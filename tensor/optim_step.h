#pragma once

#include <cstdint>

/// What an optimizer's kernel is given: parameters by address, and the numbers of a step, worked out in double. The
/// arithmetic is done in the parameters' dtype, in PyTorch's order.
namespace tendril {

/// `count` elements each of a parameter and of what belongs to it, without gaps, of one dtype. None overlap.
struct SgdBlock {
  void* param;
  const void* grad;
  void* momentum;  ///< the running average; null where SgdStep has no momentum
  int64_t count;
};

/// g = grad (negated if `maximize`) + weight_decay param;
/// with momentum: b = kept b + entering g, and g = b, or with Nesterov's g + momentum b;
/// param -= lr g.
struct SgdStep {
  double lr = 0;
  double weight_decay = 0;  ///< 0 leaves param out: 0 * infinity would not be 0
  double momentum = 0;      ///< 0: none
  double kept = 0;
  double entering = 1;
  bool nesterov = false;
  bool maximize = false;
};

struct AdamBlock {
  void* param;
  const void* grad;
  void* exp_avg;
  void* exp_avg_sq;
  void* max_exp_avg_sq;  ///< null without AdamStep::amsgrad
  int64_t count;
};

/// g as above; m = beta1 m + one_minus_beta1 g; v = beta2 v + one_minus_beta2 g g;
/// param -= step_size m / (sqrt(v) / v_scale + eps), where under amsgrad v is the largest so far.
struct AdamStep {
  double step_size = 0;  ///< lr / (1 - beta1^t)
  double v_scale = 1;    ///< sqrt(1 - beta2^t)
  double beta1 = 0, one_minus_beta1 = 1;
  double beta2 = 0, one_minus_beta2 = 1;
  double eps = 0;
  double weight_decay = 0;
  bool amsgrad = false;
  bool maximize = false;
};

}  // namespace tendril
