#include "tendril/nn/optim/adam.h"

#include <algorithm>
#include <cmath>

#include "tendril/nn/optim/detail/validate.h"

namespace tendril::optim {

void AdamOptions::validate(const char* op) const {
  detail::check_not_negative(op, "lr", lr);
  detail::check_decay_rate(op, "beta1", beta1);
  detail::check_decay_rate(op, "beta2", beta2);
  detail::check_not_negative(op, "eps", eps);
  detail::check_not_negative(op, "weight_decay", weight_decay);
}

template <class T>
void Adam::update_as(std::size_t index, const Flat<T>& data) {
  const AdamOptions& options = options_of(index);
  AdamState& state = state_of(index);
  T* m = state_data<T>(state.exp_avg, index);
  T* v = state_data<T>(state.exp_avg_sq, index);
  T* largest = options.amsgrad ? state_data<T>(state.max_exp_avg_sq, index) : v;
  const double t = static_cast<double>(++state.step);

  // The scalars are worked out in double: 1 - beta2^t cancels.
  const T step_size = static_cast<T>(options.lr / (1 - std::pow(options.beta1, t)));
  const T v_scale = static_cast<T>(std::sqrt(1 - std::pow(options.beta2, t)));
  const T beta1 = static_cast<T>(options.beta1), one_minus_beta1 = static_cast<T>(1 - options.beta1);
  const T beta2 = static_cast<T>(options.beta2), one_minus_beta2 = static_cast<T>(1 - options.beta2);
  const T eps = static_cast<T>(options.eps), decay = static_cast<T>(options.weight_decay);
  const T sign = options.maximize ? T(-1) : T(1);
  T* param = data.param;
  const T* grad = data.grad;
  // What the largest average costs is paid under amsgrad only; the blocks do not overlap, so that lanes are
  // independent.
  auto run = [&](auto denominator) {
#pragma GCC ivdep
    for (int64_t i = 0; i < data.count; ++i) {
      T g = sign * grad[i];
      if (decay != 0) g += decay * param[i];
      m[i] = beta1 * m[i] + one_minus_beta1 * g;
      v[i] = beta2 * v[i] + one_minus_beta2 * g * g;
      param[i] -= step_size * m[i] / (std::sqrt(denominator(i)) / v_scale + eps);
    }
  };
  if (options.amsgrad) {
    run([&](int64_t i) { return largest[i] = std::max(largest[i], v[i]); });
  } else {
    run([&](int64_t i) { return v[i]; });
  }
}

void Adam::update(std::size_t index, const Flat<float>& data) { update_as(index, data); }
void Adam::update(std::size_t index, const Flat<double>& data) { update_as(index, data); }

}  // namespace tendril::optim
