#include "tendril/nn/optim/sgd.h"

#include "tendril/nn/optim/detail/validate.h"

namespace tendril::optim {

void SGDOptions::validate(const char* op) const {
  detail::check_not_negative(op, "lr", lr);
  detail::check_not_negative(op, "momentum", momentum);
  detail::check_finite(op, "dampening", dampening);
  detail::check_not_negative(op, "weight_decay", weight_decay);
  TENDRIL_CHECK(!nesterov || (momentum > 0 && dampening == 0), op, ": nesterov: got true with momentum = ", momentum,
                " and dampening = ", dampening, ", expected a positive momentum and no dampening");
}

template <class T>
void SGD::update_as(std::size_t index, const Flat<T>& data) {
  const SGDOptions& options = options_of(index);
  const T lr = static_cast<T>(options.lr), decay = static_cast<T>(options.weight_decay);
  const T sign = options.maximize ? T(-1) : T(1);
  T* param = data.param;
  const T* grad = data.grad;
  auto gradient = [&](int64_t i) {
    const T g = sign * grad[i];
    return decay == 0 ? g : g + decay * param[i];  // 0 * infinity would not be 0
  };
  if (options.momentum == 0) {
    for (int64_t i = 0; i < data.count; ++i) param[i] -= lr * gradient(i);
    return;
  }

  const T momentum = static_cast<T>(options.momentum);
  Tensor& buffer = state_of(index).momentum_buffer;
  const bool first = !buffer.defined();
  const T kept = first ? T(0) : momentum;
  const T entering = first ? T(1) : static_cast<T>(1 - options.dampening);
  T* b = state_data<T>(buffer, index);
  if (options.nesterov) {
    for (int64_t i = 0; i < data.count; ++i) {
      const T g = gradient(i);
      b[i] = kept * b[i] + entering * g;
      param[i] -= lr * (g + momentum * b[i]);
    }
  } else {
    for (int64_t i = 0; i < data.count; ++i) {
      b[i] = kept * b[i] + entering * gradient(i);
      param[i] -= lr * b[i];
    }
  }
}

void SGD::update(std::size_t index, const Flat<float>& data) { update_as(index, data); }
void SGD::update(std::size_t index, const Flat<double>& data) { update_as(index, data); }

}  // namespace tendril::optim
