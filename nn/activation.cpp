#include "tendril/nn/activation.h"

namespace tendril::nn {
namespace {

Tensor gelu_tanh(const Tensor& x) {
  constexpr double kSqrt2OverPi = 0.79788456080286535588;
  const Tensor inner = x.add(x.mul(x).mul(x).mul(0.044715)).mul(kSqrt2OverPi);
  return x.mul(0.5).mul(inner.tanh().add(1.0));
}

}  // namespace

Tensor GELU::forward(const Tensor& x) const { return approximate == Approximate::tanh ? gelu_tanh(x) : x.gelu(); }

std::string GELU::extra_repr() const { return approximate == Approximate::tanh ? "approximate=tanh" : ""; }

}  // namespace tendril::nn
