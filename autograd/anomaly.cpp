#include "tendril/autograd/anomaly.h"

#include "tendril/autograd/detail/backtrace.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/hooks.h"
#include "tendril/tensor/detail/switched_variable.h"
#include "tendril/tensor/raw.h"

namespace tendril::autograd::detail {

constinit thread_local bool anomaly_detection = false;

namespace {
const auto anomaly_detection_switched = tendril::detail::of_each_thread([]() -> auto& { return anomaly_detection; });
}

void check_for_nan(const Node& node, std::span<const Tensor> input_grads) {
  const NoGrad no_grad;
  for (std::size_t i = 0; i < input_grads.size(); ++i) {
    if (!input_grads[i].defined()) continue;
    if (!raw::predicate(Predicate::isnan, input_grads[i]).any().item<bool>()) continue;
    const std::string place = node.hooks() ? describe(node.hooks()->recorded_at) : "";
    tendril::detail::raise<AutogradError>("Function '", node.name(), "' returned nan values in its ", i, "th output.",
                                          place.empty()
                                              ? " Where it was recorded is not known: that was outside DetectAnomaly."
                                              : " It was recorded in\n",
                                          place);
  }
}

}  // namespace tendril::autograd::detail
