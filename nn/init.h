#pragma once

#include <cstdint>

#include "tendril/tensor/export.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Initial values, written over a tensor's elements without being recorded; each returns its tensor. As in PyTorch, a
/// weight is [out, in, ...]: fan_in = in * (product of the rest), fan_out = out * (product of the rest); it needs at
/// least two dimensions.
namespace tendril::nn::init {

/// Which of a weight's sizes counts.
enum class Fan {
  in,   ///< how many inputs each output has: keeps the size of what goes forward
  out,  ///< how many outputs each input has: keeps the size of gradients
};
/// What follows the layer: calculate_gain.
enum class Nonlinearity {
  linear,      ///< nothing, or a convolution: 1
  sigmoid,     ///< 1
  tanh,        ///< 5 / 3
  relu,        ///< sqrt(2)
  leaky_relu,  ///< sqrt(2 / (1 + slope^2))
  selu,        ///< 3 / 4
};

/// How many inputs an output has, and the reverse.
struct Fans {
  int64_t in, out;  ///< how many inputs an output has, and outputs an input
};
/// Throws ShapeError for fewer than two dimensions.
Fans calculate_fans(const Tensor& weight);
/// By how much the weights before a nonlinearity must be wider so that it keeps the variance. `slope` is
/// leaky_relu's below zero.
double calculate_gain(Nonlinearity nonlinearity, double slope = 0.01);

struct KaimingOptions {
  double a = 0;                                          ///< leaky_relu's slope below zero; 0 makes it relu
  Fan fan = Fan::in;                                     ///< which of the two keeps its variance
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;  ///< what follows the layer
  Generator& generator = default_generator();
};

/// All 0, in place, without history.
const Tensor& zeros_(const Tensor& tensor);
/// All 1.
const Tensor& ones_(const Tensor& tensor);
/// All `value`.
const Tensor& constant_(const Tensor& tensor, double value);
/// Uniform in [low, high).
const Tensor& uniform_(const Tensor& tensor, double low = 0, double high = 1,
                       Generator& generator = default_generator());
/// Normal, of this mean and standard deviation.
const Tensor& normal_(const Tensor& tensor, double mean = 0, double stddev = 1,
                      Generator& generator = default_generator());
/// U(-b, b), b = gain sqrt(6 / (fan_in + fan_out))
/// (Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010)
const Tensor& xavier_uniform_(const Tensor& tensor, double gain = 1, Generator& generator = default_generator());
/// N(0, s^2), s = gain sqrt(2 / (fan_in + fan_out))
const Tensor& xavier_normal_(const Tensor& tensor, double gain = 1, Generator& generator = default_generator());
/// U(-b, b), b = gain sqrt(3 / fan) (He et al., "Delving Deep into Rectifiers", 2015)
const Tensor& kaiming_uniform_(const Tensor& tensor, const KaimingOptions& options = {});
/// N(0, s^2), s = gain / sqrt(fan)
const Tensor& kaiming_normal_(const Tensor& tensor, const KaimingOptions& options = {});

/// N(mean, stddev^2) cut to [low, high], by the inverse of its distribution function. Error unless low is below high.
const Tensor& trunc_normal_(const Tensor& tensor, double mean = 0, double stddev = 1, double low = -2, double high = 2,
                            Generator& generator = default_generator());
/// Rows (or columns, if there are fewer) at right angles to each other, of length `gain`, for the tensor as a matrix
/// [first size, product of the rest] (Saxe, McClelland and Ganguli, 2014). Worked out by the host in float64.
/// ShapeError for fewer than two dimensions.
const Tensor& orthogonal_(const Tensor& tensor, double gain = 1, Generator& generator = default_generator());
/// N(0, stddev^2), but in each column a share of `sparsity` (rounded up) is 0 (Martens, 2010). ShapeError unless the
/// tensor is a matrix, Error unless sparsity is in [0, 1].
const Tensor& sparse_(const Tensor& tensor, double sparsity, double stddev = 0.01,
                      Generator& generator = default_generator());

}  // namespace tendril::nn::init

TENDRIL_API_END
