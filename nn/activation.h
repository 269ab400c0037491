#pragma once

#include <cstdint>
#include <string>

#include "tendril/autograd/ops/activation.h"
#include "tendril/nn/module.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Activations as modules, for use where a module is asked for. Elsewhere the methods read shorter: `x.relu()`.
namespace tendril::nn {

/// max(x, 0)
struct ReLU : Movable<ReLU> {
  Tensor forward(const Tensor& x) const { return x.relu(); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
};

/// 1 / (1 + e^-x)
struct Sigmoid : Movable<Sigmoid> {
  Tensor forward(const Tensor& x) const { return x.sigmoid(); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
};

/// tanh(x).
struct Tanh : Movable<Tanh> {
  Tensor forward(const Tensor& x) const { return x.tanh(); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
};

/// x * sigmoid(x), also called swish (Ramachandran et al., "Searching for Activation Functions", 2017)
struct SiLU : Movable<SiLU> {
  Tensor forward(const Tensor& x) const { return x.silu(); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
};

/// Which form of GELU.
enum class Approximate {
  none,  ///< exact, by the error function
  tanh,  ///< by tanh, as in the first GPTs
};

/// x * Phi(x), Phi the normal distribution's; or its approximation
/// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) (Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016).
struct GELU : Movable<GELU> {
  explicit GELU(Approximate how = Approximate::none) : approximate(how) {}
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override;

  const Approximate approximate;  ///< which form
};

/// e^x / sum(e^x) along `dim`
struct Softmax : Movable<Softmax> {
  explicit Softmax(int64_t along) : dim(along) {}
  Tensor forward(const Tensor& x) const { return x.softmax(dim); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override { return "dim=" + std::to_string(dim); }

  const int64_t dim;
};

/// softmax over the channels at each place: x is [batch, channels, height, width] or [channels, height, width];
/// ShapeError for other dimensions.
struct Softmax2d : Movable<Softmax2d> {
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
};

/// log(softmax(x)) along `dim`, without its loss of precision
struct LogSoftmax : Movable<LogSoftmax> {
  explicit LogSoftmax(int64_t along) : dim(along) {}
  Tensor forward(const Tensor& x) const { return x.log_softmax(dim); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override { return "dim=" + std::to_string(dim); }

  const int64_t dim;
};

/// x above 0, negative_slope * x below
struct LeakyReLU : Movable<LeakyReLU> {
  explicit LeakyReLU(double negative_slope_value = 0.01) : negative_slope(negative_slope_value) {}
  Tensor forward(const Tensor& x) const { return x.leaky_relu(negative_slope); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override;

  const double negative_slope;  ///< the slope below 0
};

/// x above 0, alpha * (e^x - 1) below (Clevert et al., 2016)
struct ELU : Movable<ELU> {
  explicit ELU(double alpha_value = 1) : alpha(alpha_value) {}
  Tensor forward(const Tensor& x) const { return x.elu(alpha); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override;

  const double alpha;  ///< what negative values tend to, negated
};

/// x above 0, alpha * (e^(x / alpha) - 1) below (Barron, 2017)
struct CELU : Movable<CELU> {
  explicit CELU(double alpha_value = 1) : alpha(alpha_value) {}
  Tensor forward(const Tensor& x) const { return x.celu(alpha); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override;

  const double alpha;  ///< what negative values tend to, negated
};

/// ELU with the constants that keep mean 0 and variance 1 (Klambauer et al., 2017)
struct SELU : Movable<SELU> {
  Tensor forward(const Tensor& x) const { return x.selu(); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
};

/// x * tanh(softplus(x)) (Misra, 2019)
struct Mish : Movable<Mish> {
  Tensor forward(const Tensor& x) const { return x.mish(); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
};

/// log(1 + e^(beta x)) / beta; x where beta x is above threshold
struct Softplus : Movable<Softplus> {
  explicit Softplus(double beta_value = 1, double threshold_value = 20)
      : beta(beta_value), threshold(threshold_value) {}
  Tensor forward(const Tensor& x) const { return softplus(x, beta, threshold); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override;

  const double beta;       ///< how sharp the bend is
  const double threshold;  ///< from where on x itself is the result
};

/// x / (1 + |x|)
struct Softsign : Movable<Softsign> {
  Tensor forward(const Tensor& x) const { return x.softsign(); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
};

/// log(sigmoid(x))
struct LogSigmoid : Movable<LogSigmoid> {
  Tensor forward(const Tensor& x) const { return x.logsigmoid(); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
};

/// x - tanh(x)
struct Tanhshrink : Movable<Tanhshrink> {
  Tensor forward(const Tensor& x) const { return x.tanhshrink(); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
};

/// x moved towards 0 by lambd, 0 where it would cross it
struct Softshrink : Movable<Softshrink> {
  explicit Softshrink(double lambd_value = 0.5) : lambd(lambd_value) {}
  Tensor forward(const Tensor& x) const { return x.softshrink(lambd); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override;

  const double lambd;  ///< half the width of what becomes 0
};

/// 0 within [-lambd, lambd], x elsewhere
struct Hardshrink : Movable<Hardshrink> {
  explicit Hardshrink(double lambd_value = 0.5) : lambd(lambd_value) {}
  Tensor forward(const Tensor& x) const { return x.hardshrink(lambd); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override;

  const double lambd;  ///< half the width of what becomes 0
};

/// x kept within [min_val, max_val]
struct Hardtanh : Movable<Hardtanh> {
  explicit Hardtanh(double min_val_value = -1, double max_val_value = 1)
      : min_val(min_val_value), max_val(max_val_value) {}
  Tensor forward(const Tensor& x) const { return hardtanh(x, min_val, max_val); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override;

  const double min_val;  ///< the smallest result
  const double max_val;  ///< the largest
};

/// x kept within [0, 6]
struct ReLU6 : Movable<ReLU6> {
  Tensor forward(const Tensor& x) const { return x.relu6(); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
};

/// (x + 3) / 6 kept within [0, 1]
struct Hardsigmoid : Movable<Hardsigmoid> {
  Tensor forward(const Tensor& x) const { return x.hardsigmoid(); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
};

/// x * hardsigmoid(x) (Howard et al., 2019)
struct Hardswish : Movable<Hardswish> {
  Tensor forward(const Tensor& x) const { return x.hardswish(); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
};

/// x above threshold, value elsewhere
struct Threshold : Movable<Threshold> {
  explicit Threshold(double threshold_value, double value_value) : threshold(threshold_value), value(value_value) {}
  Tensor forward(const Tensor& x) const { return tendril::threshold(x, threshold, value); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override;

  const double threshold;  ///< from where on x itself is the result
  const double value;      ///< what the others become
};

/// the first half along dim times the sigmoid of the second
struct GLU : Movable<GLU> {
  explicit GLU(int64_t dim_value = -1) : dim(dim_value) {}
  Tensor forward(const Tensor& x) const { return glu(x, dim); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override;

  const int64_t dim;
};

/// softmax(-x) along dim
struct Softmin : Movable<Softmin> {
  explicit Softmin(int64_t dim_value) : dim(dim_value) {}
  Tensor forward(const Tensor& x) const { return x.neg().softmax(dim); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override;

  const int64_t dim;
};

/// x above 0, slope x elsewhere: in training each element's slope is drawn from [lower, upper) anew, in evaluation it
/// is their mean (autograd/ops/activation.h).
class RReLU : public Movable<RReLU> {
 public:
  /// `generator` must outlive the module. Throws Error unless lower is at most upper.
  explicit RReLU(double lower = 1.0 / 8, double upper = 1.0 / 3, Generator& generator = default_generator());
  Tensor forward(const Tensor& x) const { return rrelu(x, {lower_, upper_, is_training(), *generator_}); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override;

 private:
  double lower_, upper_;
  Generator* generator_;
};

struct PReLUOptions {
  int64_t num_parameters = 1;  ///< 1, or the channels of x
  double init = 0.25;          ///< the slope to begin with
  DType dtype = kFloat32;
  Device device = default_device();
};

/// x above 0, weight x below; the weight is learned (autograd/ops/activation.h).
class PReLU : public Movable<PReLU> {
 public:
  /// Throws Error unless num_parameters is positive.
  explicit PReLU(const PReLUOptions& options = {});
  Tensor forward(const Tensor& x) const { return prelu(x, weight); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override { return "num_parameters=" + std::to_string(weight.numel()); }

  Tensor weight;  ///< [num_parameters]
};

}  // namespace tendril::nn

TENDRIL_API_END
