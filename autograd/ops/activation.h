#pragma once

#include "tendril/tensor/export.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Activations of several numbers or operands; those of one operand are rows of tensor/pointwise.def. Any floating
/// dtype, twice differentiable. DTypeError for other dtypes, except that hardtanh and threshold take integers, too:
/// their numbers then lose their fractions, as in PyTorch.
namespace tendril {

/// x kept within [min_val, max_val]. Error unless min_val is below max_val.
Tensor hardtanh(const Tensor& x, double min_val = -1, double max_val = 1);
/// x above `threshold`, `value` elsewhere.
Tensor threshold(const Tensor& x, double threshold, double value);
/// log(1 + e^(beta x)) / beta; x itself where beta x is above `threshold`.
Tensor softplus(const Tensor& x, double beta, double threshold = 20);
/// x above 0, weight x below: weight is one number, or [channels] for x [batch, channels, ...]. ShapeError otherwise.
/// (He et al., "Delving Deep into Rectifiers", 2015)
Tensor prelu(const Tensor& x, const Tensor& weight);
struct RReLUOptions {
  double lower = 1.0 / 8, upper = 1.0 / 3;  ///< bounds of the slope below 0
  bool training = false;
  Generator& generator = default_generator();  ///< for the slopes
};
/// x above 0, slope x elsewhere: in training a slope of each element's own, uniform in [lower, upper); else their mean.
/// Error unless lower is at most upper. (Xu et al., "Empirical Evaluation of Rectified Activations", 2015)
Tensor rrelu(const Tensor& x, const RReLUOptions& options = {});
/// The first half of x along `dim`, times the sigmoid of the second (Dauphin et al., "Language Modeling with Gated
/// Convolutional Networks", 2016). ShapeError unless the size is even.
Tensor glu(const Tensor& x, int64_t dim = -1);

}  // namespace tendril

TENDRIL_API_END
