#pragma once

#include <cmath>
#include <cstdint>
#include <variant>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// Optimizers' arithmetic: one functor each, which the CPU (tensor/cpu/level/optim.cpp) and CUDA
/// (tensor/cuda/kernels/optim.cu) run over all parameters in one go. An optimizer is a functor here, a name in
/// `StepRule`, and its class in nn/optim.
///
/// A functor holds the numbers of a step, worked out in double, and says
///   kArrays         how many arrays belong together: the parameter, its gradient, and what is kept for it
///   arrays()        a bit for each of them that this step has, all of 0 and 1 among them
///   <kHas>(x)       what happens to one element of each: x[0] and what is kept are changed. kHas is arrays(), as a
///                   constant; x has nothing where it has no bit. T is float or double; all arithmetic is in T, in
///                   PyTorch's order.
namespace tendril {

/// `count` elements each of a parameter, its gradient and its state, without gaps. None overlap. Null where `arrays()`
/// has no bit. Parameter and gradient have one dtype; state has it too, or float32 for half types.
struct StepBlock {
  static constexpr int kMostArrays = 5;
  void* arrays[kMostArrays] = {};
  int64_t count = 0;
  /// A parameter of a half type in float32, which is stepped in its place and then rounded to it; null: none. Elements
  /// whose rounded value is not the parameter's begin from the parameter: it was written since the last step.
  float* master = nullptr;
};

/// g = grad (negated if `maximize`) + weight_decay param. A decay of 0 leaves param out: 0 * infinity would not be 0.
template <class T>
[[gnu::always_inline]] constexpr T step_gradient(const T* x, double weight_decay, bool maximize) {
  const T g = maximize ? -x[1] : x[1], decay = static_cast<T>(weight_decay);
  return decay == T(0) ? g : g + decay * x[0];
}

/// With momentum: b = kept b + entering g, and g = b, or with Nesterov's g + momentum b. param -= lr g.
struct SgdStep {
  static constexpr const char* kName = "sgd";
  static constexpr int kArrays = 3;  // ..., b
  double lr = 0;
  double weight_decay = 0;
  double momentum = 0;  ///< 0: none
  double kept = 0;
  double entering = 1;
  bool nesterov = false;
  bool maximize = false;

  unsigned arrays() const noexcept { return momentum == 0 ? 0b011 : 0b111; }
  template <unsigned kHas, class T>
  [[gnu::always_inline]] constexpr void operator()(T* x) const {
    T g = step_gradient(x, weight_decay, maximize);
    if constexpr (kHas >> 2 & 1) {
      x[2] = static_cast<T>(kept) * x[2] + static_cast<T>(entering) * g;
      g = nesterov ? g + static_cast<T>(momentum) * x[2] : x[2];
    }
    x[0] -= static_cast<T>(lr) * g;
  }
};

/// param = shrink param; m = beta1 m + one_minus_beta1 g; v = beta2 v + one_minus_beta2 g g;
/// param -= step_size m / (sqrt(v) / v_scale + eps), where under amsgrad v is the largest so far.
struct AdamStep {
  static constexpr const char* kName = "adam";
  static constexpr int kArrays = 5;  // ..., m, v, the largest v
  double step_size = 0;              ///< lr / (1 - beta1^t)
  double v_scale = 1;                ///< sqrt(1 - beta2^t)
  double beta1 = 0, one_minus_beta1 = 1;
  double beta2 = 0, one_minus_beta2 = 1;
  double eps = 0;
  double weight_decay = 0;  ///< as L2, in the gradient
  double shrink = 1;        ///< AdamW's: 1 - lr * decay
  bool amsgrad = false;
  bool maximize = false;

  unsigned arrays() const noexcept { return amsgrad ? 0b11111 : 0b01111; }
  template <unsigned kHas, class T>
  [[gnu::always_inline]] constexpr void operator()(T* x) const {
    x[0] *= static_cast<T>(shrink);
    const T g = step_gradient(x, weight_decay, maximize);
    x[2] = static_cast<T>(beta1) * x[2] + static_cast<T>(one_minus_beta1) * g;
    x[3] = static_cast<T>(beta2) * x[3] + static_cast<T>(one_minus_beta2) * g * g;
    T v = x[3];
    if constexpr (kHas >> 4 & 1) v = x[4] = x[4] < v ? v : x[4];
    x[0] -= static_cast<T>(step_size) * x[2] / (std::sqrt(v) / static_cast<T>(v_scale) + static_cast<T>(eps));
  }
};

/// s = alpha s + (1 - alpha) g g; centred: a = a + (1 - alpha) (g - a), and s - a a in place of s below;
/// d = g / (sqrt(s) + eps); with momentum: b = momentum b + d, and b in place of d. param -= lr d.
struct RmspropStep {
  static constexpr const char* kName = "rmsprop";
  static constexpr int kArrays = 5;  // ..., s, b, a
  double lr = 0;
  double alpha = 0, one_minus_alpha = 1;
  double eps = 0;
  double weight_decay = 0;
  double momentum = 0;  ///< 0: none
  bool centered = false;
  bool maximize = false;

  unsigned arrays() const noexcept { return 0b00111u | (momentum == 0 ? 0 : 0b01000u) | (centered ? 0b10000u : 0); }
  template <unsigned kHas, class T>
  [[gnu::always_inline]] constexpr void operator()(T* x) const {
    const T g = step_gradient(x, weight_decay, maximize), entering = static_cast<T>(one_minus_alpha);
    x[2] = static_cast<T>(alpha) * x[2] + entering * g * g;
    T square = x[2];
    if constexpr (kHas >> 4 & 1) {
      x[4] += entering * (g - x[4]);
      square -= x[4] * x[4];
    }
    T d = g / (std::sqrt(square) + static_cast<T>(eps));
    if constexpr (kHas >> 3 & 1) d = x[3] = static_cast<T>(momentum) * x[3] + d;
    x[0] -= static_cast<T>(lr) * d;
  }
};

/// s = s + g g; param -= lr g / (sqrt(s) + eps).
struct AdagradStep {
  static constexpr const char* kName = "adagrad";
  static constexpr int kArrays = 3;  // ..., s
  double lr = 0;                     ///< lr / (1 + (t - 1) lr_decay)
  double eps = 0;
  double weight_decay = 0;
  bool maximize = false;

  unsigned arrays() const noexcept { return 0b111; }
  template <unsigned kHas, class T>
  [[gnu::always_inline]] constexpr void operator()(T* x) const {
    const T g = step_gradient(x, weight_decay, maximize);
    x[2] += g * g;
    x[0] -= static_cast<T>(lr) * (g / (std::sqrt(x[2]) + static_cast<T>(eps)));
  }
};

/// m = m + (1 - beta1) (g - m); u = max(beta2 u, |g| + eps); param -= step_size m / u.
struct AdamaxStep {
  static constexpr const char* kName = "adamax";
  static constexpr int kArrays = 4;  // ..., m, u
  double step_size = 0;              ///< lr / (1 - beta1^t)
  double one_minus_beta1 = 1;
  double beta2 = 0;
  double eps = 0;
  double weight_decay = 0;
  bool maximize = false;

  unsigned arrays() const noexcept { return 0b1111; }
  template <unsigned kHas, class T>
  [[gnu::always_inline]] constexpr void operator()(T* x) const {
    const T g = step_gradient(x, weight_decay, maximize);
    x[2] += static_cast<T>(one_minus_beta1) * (g - x[2]);
    const T decayed = static_cast<T>(beta2) * x[3], now = (g < T(0) ? -g : g) + static_cast<T>(eps);
    x[3] = decayed > now ? decayed : now;
    x[0] -= static_cast<T>(step_size) * (x[2] / x[3]);
  }
};

/// param = shrink param - lr sign(beta1 m + (1 - beta1) g); m = beta2 m + (1 - beta2) g.
struct LionStep {
  static constexpr const char* kName = "lion";
  static constexpr int kArrays = 3;  // ..., m
  double lr = 0;
  double shrink = 1;  ///< 1 - lr * decay
  double beta1 = 0, one_minus_beta1 = 1;
  double beta2 = 0, one_minus_beta2 = 1;
  bool maximize = false;

  unsigned arrays() const noexcept { return 0b111; }
  template <unsigned kHas, class T>
  [[gnu::always_inline]] constexpr void operator()(T* x) const {
    const T g = maximize ? -x[1] : x[1];
    const T way = static_cast<T>(beta1) * x[2] + static_cast<T>(one_minus_beta1) * g;
    const T step = static_cast<T>(lr);
    x[0] = x[0] * static_cast<T>(shrink) - (way > T(0) ? step : way < T(0) ? -step : T(0) * way);  // NaN stays
    x[2] = static_cast<T>(beta2) * x[2] + static_cast<T>(one_minus_beta2) * g;
  }
};

using StepRule = std::variant<SgdStep, AdamStep, RmspropStep, AdagradStep, AdamaxStep, LionStep>;

}  // namespace tendril

TENDRIL_API_END
