#include "tendril/nn/linear.h"

#include <cmath>

#include "tendril/autograd/ops/matmul.h"
#include "tendril/nn/init.h"
#include "tendril/tensor/raw.h"

namespace tendril::nn {

Linear::Linear(int64_t in_features, int64_t out_features, const LinearOptions& options) {
  TENDRIL_CHECK(in_features > 0, "Linear: in_features: got ", in_features, ", expected a positive number");
  TENDRIL_CHECK(out_features > 0, "Linear: out_features: got ", out_features, ", expected a positive number");
  weight = raw::empty({out_features, in_features}, options.dtype, options.device);
  register_parameter("weight", weight);
  if (options.bias) {
    bias = raw::empty({out_features}, options.dtype, options.device);
    register_parameter("bias", bias);
  }
  reset_parameters(options.generator);
}

void Linear::reset_parameters(Generator& generator) {
  // PyTorch's kaiming_uniform_ with a = sqrt(5): sqrt(6 / ((1 + 5) fan_in)).
  const double bound = 1 / std::sqrt(static_cast<double>(weight.size(1)));
  init::uniform_(weight, -bound, bound, generator);
  if (bias.defined()) init::uniform_(bias, -bound, bound, generator);
}

Tensor Linear::forward(const Tensor& x) const {
  TENDRIL_CHECK(x.defined(), "Linear: x is an undefined tensor");
  TENDRIL_CHECK_AS(ShapeError, x.dim() >= 1 && x.size(-1) == weight.size(1), "Linear: x has shape ", x.sizes(),
                   ", expected [..., ", weight.size(1), "]");
  return linear(x, weight, bias);
}

std::string Linear::extra_repr() const {
  return "in_features=" + std::to_string(weight.size(1)) + ", out_features=" + std::to_string(weight.size(0)) +
         ", bias=" + (bias.defined() ? "true" : "false");
}

}  // namespace tendril::nn
