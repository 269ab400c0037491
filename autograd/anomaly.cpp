#include "tendril/autograd/anomaly.h"

#include "tendril/autograd/grad_mode.h"
#include "tendril/tensor/raw.h"

namespace tendril::autograd::detail {

constinit thread_local bool anomaly_detection = false;

void check_for_nan(const Node& node, std::span<const Tensor> input_grads) {
  const NoGrad no_grad;
  for (std::size_t i = 0; i < input_grads.size(); ++i) {
    if (!input_grads[i].defined()) continue;
    TENDRIL_CHECK_AS(AutogradError, !raw::predicate(Predicate::isnan, input_grads[i]).any().item<bool>(), "Function '",
                     node.name(), "' returned nan values in its ", i, "th output.");
  }
}

}  // namespace tendril::autograd::detail
