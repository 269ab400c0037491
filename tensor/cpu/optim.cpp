#include <algorithm>
#include <cmath>

#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/parallel.h"
#include "tendril/tensor/cpu/visit.h"

namespace tendril::cpu {
namespace {

template <class T>
void sgd_block(const SgdBlock& block, const SgdStep& step) {
  const T lr = static_cast<T>(step.lr), decay = static_cast<T>(step.weight_decay);
  const T sign = step.maximize ? T(-1) : T(1);
  T* param = static_cast<T*>(block.param);
  const T* grad = static_cast<const T*>(block.grad);
  auto gradient = [&](int64_t i) {
    const T g = sign * grad[i];
    return decay == 0 ? g : g + decay * param[i];
  };
  if (step.momentum == 0) {
    for (int64_t i = 0; i < block.count; ++i) param[i] -= lr * gradient(i);
    return;
  }
  const T momentum = static_cast<T>(step.momentum);
  const T kept = static_cast<T>(step.kept), entering = static_cast<T>(step.entering);
  T* b = static_cast<T*>(block.momentum);
  if (step.nesterov) {
    for (int64_t i = 0; i < block.count; ++i) {
      const T g = gradient(i);
      b[i] = kept * b[i] + entering * g;
      param[i] -= lr * (g + momentum * b[i]);
    }
  } else {
    for (int64_t i = 0; i < block.count; ++i) {
      b[i] = kept * b[i] + entering * gradient(i);
      param[i] -= lr * b[i];
    }
  }
}

template <class T>
void adam_block(const AdamBlock& block, const AdamStep& step) {
  const T step_size = static_cast<T>(step.step_size), v_scale = static_cast<T>(step.v_scale);
  const T beta1 = static_cast<T>(step.beta1), one_minus_beta1 = static_cast<T>(step.one_minus_beta1);
  const T beta2 = static_cast<T>(step.beta2), one_minus_beta2 = static_cast<T>(step.one_minus_beta2);
  const T eps = static_cast<T>(step.eps), decay = static_cast<T>(step.weight_decay);
  const T sign = step.maximize ? T(-1) : T(1);
  T* param = static_cast<T*>(block.param);
  const T* grad = static_cast<const T*>(block.grad);
  T* m = static_cast<T*>(block.exp_avg);
  T* v = static_cast<T*>(block.exp_avg_sq);
  T* largest = static_cast<T*>(block.max_exp_avg_sq);
  // What the largest average costs is paid under amsgrad only; the blocks do not overlap, so that lanes are
  // independent.
  auto run = [&](auto denominator) {
#pragma GCC ivdep
    for (int64_t i = 0; i < block.count; ++i) {
      T g = sign * grad[i];
      if (decay != 0) g += decay * param[i];
      m[i] = beta1 * m[i] + one_minus_beta1 * g;
      v[i] = beta2 * v[i] + one_minus_beta2 * g * g;
      param[i] -= step_size * m[i] / (std::sqrt(denominator(i)) / v_scale + eps);
    }
  };
  if (step.amsgrad) {
    run([&](int64_t i) { return largest[i] = std::max(largest[i], v[i]); });
  } else {
    run([&](int64_t i) { return v[i]; });
  }
}

/// A block's elements from number `first` on.
template <class T>
void* from(void* data, int64_t first) {
  return data ? static_cast<T*>(data) + first : nullptr;
}
template <class T>
const void* from(const void* data, int64_t first) {
  return static_cast<const T*>(data) + first;
}

}  // namespace

void sgd(std::span<const SgdBlock> blocks, DType dtype, const SgdStep& step) {
  visit_float_or_double(dtype, "sgd", [&](auto zero) {
    using T = decltype(zero);
    for (const SgdBlock& block : blocks) {
      parallel_for(block.count, kParallelGrain, [&](int64_t begin, int64_t end) {
        sgd_block<T>(
            {from<T>(block.param, begin), from<T>(block.grad, begin), from<T>(block.momentum, begin), end - begin},
            step);
      });
    }
  });
}

void adam(std::span<const AdamBlock> blocks, DType dtype, const AdamStep& step) {
  visit_float_or_double(dtype, "adam", [&](auto zero) {
    using T = decltype(zero);
    for (const AdamBlock& block : blocks) {
      parallel_for(block.count, kParallelGrain, [&](int64_t begin, int64_t end) {
        adam_block<T>({from<T>(block.param, begin), from<T>(block.grad, begin), from<T>(block.exp_avg, begin),
                       from<T>(block.exp_avg_sq, begin), from<T>(block.max_exp_avg_sq, begin), end - begin},
                      step);
      });
    }
  });
}

}  // namespace tendril::cpu
