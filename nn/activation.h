#pragma once

#include <cstdint>
#include <string>

#include "tendril/nn/module.h"
#include "tendril/tensor/tensor.h"

/// Activations as modules, for use where a module is asked for. Elsewhere the methods read shorter: `x.relu()`.
namespace tendril::nn {

/// max(x, 0)
struct ReLU : Movable<ReLU> {
  Tensor forward(const Tensor& x) const { return x.relu(); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};

/// 1 / (1 + e^-x)
struct Sigmoid : Movable<Sigmoid> {
  Tensor forward(const Tensor& x) const { return x.sigmoid(); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};

struct Tanh : Movable<Tanh> {
  Tensor forward(const Tensor& x) const { return x.tanh(); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};

/// x * sigmoid(x), also called swish (Ramachandran et al., "Searching for Activation Functions", 2017)
struct SiLU : Movable<SiLU> {
  Tensor forward(const Tensor& x) const { return x.silu(); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};

enum class Approximate { none, tanh };

/// x * Phi(x), Phi the normal distribution's; or its approximation
/// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) (Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016).
struct GELU : Movable<GELU> {
  explicit GELU(Approximate how = Approximate::none) : approximate(how) {}
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return forward(x); }
  std::string extra_repr() const override;

  const Approximate approximate;
};

/// e^x / sum(e^x) along `dim`
struct Softmax : Movable<Softmax> {
  explicit Softmax(int64_t along) : dim(along) {}
  Tensor forward(const Tensor& x) const { return x.softmax(dim); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
  std::string extra_repr() const override { return "dim=" + std::to_string(dim); }

  const int64_t dim;
};

/// log(softmax(x)) along `dim`, without its loss of precision
struct LogSoftmax : Movable<LogSoftmax> {
  explicit LogSoftmax(int64_t along) : dim(along) {}
  Tensor forward(const Tensor& x) const { return x.log_softmax(dim); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
  std::string extra_repr() const override { return "dim=" + std::to_string(dim); }

  const int64_t dim;
};

}  // namespace tendril::nn
