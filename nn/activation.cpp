#include "tendril/nn/activation.h"

#include <sstream>

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/raw.h"

namespace tendril::nn {

Tensor GELU::forward(const Tensor& x) const { return approximate == Approximate::tanh ? x.gelu_tanh() : x.gelu(); }

Tensor Softmax2d::forward(const Tensor& x) const {
  TENDRIL_CHECK_AS(ShapeError, x.dim() == 3 || x.dim() == 4, "Softmax2d: x has shape ", x.sizes(),
                   ", expected [batch, channels, height, width] or [channels, height, width]");
  return x.softmax(-3);
}

std::string GELU::extra_repr() const { return approximate == Approximate::tanh ? "approximate=tanh" : ""; }

std::string LeakyReLU::extra_repr() const {
  std::ostringstream out;
  out << "negative_slope=" << negative_slope;
  return out.str();
}

std::string ELU::extra_repr() const {
  std::ostringstream out;
  out << "alpha=" << alpha;
  return out.str();
}

std::string CELU::extra_repr() const {
  std::ostringstream out;
  out << "alpha=" << alpha;
  return out.str();
}

std::string Softplus::extra_repr() const {
  std::ostringstream out;
  out << "beta=" << beta << ", threshold=" << threshold;
  return out.str();
}

std::string Softshrink::extra_repr() const {
  std::ostringstream out;
  out << "lambd=" << lambd;
  return out.str();
}

std::string Hardshrink::extra_repr() const {
  std::ostringstream out;
  out << "lambd=" << lambd;
  return out.str();
}

std::string Hardtanh::extra_repr() const {
  std::ostringstream out;
  out << "min_val=" << min_val << ", max_val=" << max_val;
  return out.str();
}

std::string Threshold::extra_repr() const {
  std::ostringstream out;
  out << "threshold=" << threshold << ", value=" << value;
  return out.str();
}

std::string GLU::extra_repr() const {
  std::ostringstream out;
  out << "dim=" << dim;
  return out.str();
}

std::string Softmin::extra_repr() const {
  std::ostringstream out;
  out << "dim=" << dim;
  return out.str();
}

RReLU::RReLU(double lower, double upper, Generator& generator) : lower_(lower), upper_(upper), generator_(&generator) {
  TENDRIL_CHECK(lower <= upper, "RReLU: got lower ", lower, " and upper ", upper,
                ", expected the first to be at most the second");
}

std::string RReLU::extra_repr() const {
  std::ostringstream out;
  out << "lower=" << lower_ << ", upper=" << upper_;
  return out.str();
}

PReLU::PReLU(const PReLUOptions& options) {
  TENDRIL_CHECK(options.num_parameters > 0, "PReLU: num_parameters: got ", options.num_parameters,
                ", expected a positive number");
  weight = raw::full({options.num_parameters}, options.init, options.dtype, options.device);
  register_parameter("weight", weight);
}

}  // namespace tendril::nn
