#include "tendril/autograd/detail/gradients.h"

#include "tendril/autograd/accumulate_grad.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/reduce.h"
#include "tendril/tensor/raw.h"

namespace tendril::autograd {

void refit(Tensor& gradient, const OutputInfo& expected, const Node& node, uint32_t i) {
  // A CPU tensor of 0 dimensions joins operands of any device, where its gradient then is.
  const bool joined = expected.sizes.empty() && expected.device.is_cpu();
  TENDRIL_CHECK_AS(AutogradError, gradient.device() == expected.device || joined, "Function ", node.name(),
                   " returned an invalid gradient at index ", i, " - expected device ", expected.device, " but got ",
                   gradient.device());
  if (gradient.sizes() != expected.sizes) {
    TENDRIL_CHECK_AS(AutogradError, expands_to(expected.sizes, gradient.sizes()), "Function ", node.name(),
                     " returned an invalid gradient at index ", i, " - got ", gradient.sizes(),
                     " but expected shape compatible with ", expected.sizes);
    const bool wider = is_floating(expected.dtype) && size_of(expected.dtype) > size_of(gradient.dtype());
    // For a wider operand the sum is not rounded to the gradient's dtype.
    if (wider && is_floating(gradient.dtype())) gradient = gradient.to(expected.dtype);
    gradient = sum_to(gradient, expected.sizes);
  }
  if (gradient.dtype() != expected.dtype) {
    TENDRIL_CHECK_AS(AutogradError, is_floating(gradient.dtype()), "Function ", node.name(),
                     " returned an invalid gradient at index ", i, " - expected ", expected.dtype, " but got ",
                     gradient.dtype());
    gradient = gradient.to(expected.dtype);
  }
  if (gradient.device() != expected.device) gradient = gradient.to(expected.device);
}

void add_to(Tensor& sum, Tensor& gradient) {
  if (grad_enabled()) {
    sum = sum + gradient;
  } else if (uniquely_owned(sum)) {
    raw::binary_(Binary::add, sum, gradient);
  } else if (uniquely_owned(gradient)) {
    raw::binary_(Binary::add, gradient, sum);
    sum = std::move(gradient);
  } else {
    sum = raw::binary(Binary::add, sum, gradient);
  }
}

}  // namespace tendril::autograd
