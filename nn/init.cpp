#include "tendril/nn/init.h"

#include <algorithm>
#include <cmath>

#include "tendril/autograd/grad_mode.h"
#include "tendril/tensor/error.h"
#include "tendril/tensor/raw.h"

namespace tendril::nn::init {
namespace {

void check_fillable(const Tensor& tensor, const char* op) {
  TENDRIL_CHECK(tensor.defined(), op, ": the tensor is undefined");
  TENDRIL_CHECK_AS(DTypeError, is_floating(tensor.dtype()), op, ": the tensor has dtype ", tensor.dtype(),
                   ", expected a floating one");
}

void check_spread(double value, const char* op, const char* argument) {
  TENDRIL_CHECK(std::isfinite(value) && value >= 0, op, ": ", argument, ": got ", value,
                ", expected a finite number, 0 or more");
}

const Tensor& fill(const Tensor& tensor, double value, const char* op) {
  check_fillable(tensor, op);
  raw::fill_(tensor, value);
  tensor.storage()->bump_version();
  return tensor;
}

double kaiming_stddev(const Tensor& tensor, const KaimingOptions& options, const char* op) {
  check_fillable(tensor, op);
  const Fans fans = calculate_fans(tensor);
  const auto fan = static_cast<double>(options.fan == Fan::in ? fans.in : fans.out);
  if (tensor.numel() == 0) return 0;  // whatever the fan, nothing is filled
  return calculate_gain(options.nonlinearity, options.a) / std::sqrt(fan);
}

double xavier_stddev(const Tensor& tensor, double gain, const char* op) {
  check_fillable(tensor, op);
  check_spread(gain, op, "gain");
  const Fans fans = calculate_fans(tensor);
  if (tensor.numel() == 0) return 0;
  return gain * std::sqrt(2 / static_cast<double>(fans.in + fans.out));
}

/// Elements of another dtype and device take the place of the tensor's.
const Tensor& write(const Tensor& tensor, const Tensor& values) {
  raw::copy_(tensor, values);
  tensor.storage()->bump_version();
  return tensor;
}

/// Rows of normal numbers become an orthonormal set: each less its parts along those before it, twice, as once leaves
/// what rounding left (Giraud, Langou and Rozloznik, 2005).
void make_orthonormal(double* vectors, int64_t count, int64_t length) {
  const auto dot = [length](const double* x, const double* y) {
    double sum = 0;
    for (int64_t i = 0; i < length; ++i) sum += x[i] * y[i];
    return sum;
  };
  for (int64_t k = 0; k < count; ++k) {
    double* const v = vectors + k * length;
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t j = 0; j < k; ++j) {
        const double* const other = vectors + j * length;
        const double along = dot(v, other);
        for (int64_t i = 0; i < length; ++i) v[i] -= along * other[i];
      }
    }
    const double scale = 1 / std::sqrt(dot(v, v));
    for (int64_t i = 0; i < length; ++i) v[i] *= scale;
  }
}

}  // namespace

Fans calculate_fans(const Tensor& weight) {
  tendril::detail::check_defined(weight, "calculate_fans", "the weight");
  TENDRIL_CHECK_AS(ShapeError, weight.dim() >= 2, "calculate_fans: the weight has shape ", weight.sizes(),
                   ", expected [out, in, ...]");
  int64_t window = 1;
  for (int d = 2; d < weight.dim(); ++d) window *= weight.size(d);
  return {weight.size(1) * window, weight.size(0) * window};
}

double calculate_gain(Nonlinearity nonlinearity, double slope) {
  switch (nonlinearity) {
    case Nonlinearity::linear:
    case Nonlinearity::sigmoid:
      return 1;
    case Nonlinearity::tanh:
      return 5.0 / 3;
    case Nonlinearity::relu:
      return std::sqrt(2.0);
    case Nonlinearity::leaky_relu:
      return std::sqrt(2 / (1 + slope * slope));
    case Nonlinearity::selu:
      return 0.75;
  }
  TENDRIL_CHECK(false, "calculate_gain: nonlinearity: got ", static_cast<int>(nonlinearity));
}

const Tensor& zeros_(const Tensor& tensor) { return fill(tensor, 0, "zeros_"); }
const Tensor& ones_(const Tensor& tensor) { return fill(tensor, 1, "ones_"); }
const Tensor& constant_(const Tensor& tensor, double value) { return fill(tensor, value, "constant_"); }

const Tensor& uniform_(const Tensor& tensor, double low, double high, Generator& generator) {
  check_fillable(tensor, "uniform_");
  TENDRIL_CHECK(std::isfinite(high - low) && low <= high, "uniform_: got [", low, ", ", high,
                "), expected finite bounds, the lower first");
  raw::uniform_(tensor, low, high, generator);
  tensor.storage()->bump_version();
  return tensor;
}

const Tensor& normal_(const Tensor& tensor, double mean, double stddev, Generator& generator) {
  check_fillable(tensor, "normal_");
  TENDRIL_CHECK(std::isfinite(mean), "normal_: mean: got ", mean, ", expected a finite number");
  check_spread(stddev, "normal_", "stddev");
  raw::normal_(tensor, mean, stddev, generator);
  tensor.storage()->bump_version();
  return tensor;
}

const Tensor& xavier_uniform_(const Tensor& tensor, double gain, Generator& generator) {
  const double bound = std::sqrt(3.0) * xavier_stddev(tensor, gain, "xavier_uniform_");
  return uniform_(tensor, -bound, bound, generator);
}

const Tensor& xavier_normal_(const Tensor& tensor, double gain, Generator& generator) {
  return normal_(tensor, 0, xavier_stddev(tensor, gain, "xavier_normal_"), generator);
}

const Tensor& kaiming_uniform_(const Tensor& tensor, const KaimingOptions& options) {
  const double bound = std::sqrt(3.0) * kaiming_stddev(tensor, options, "kaiming_uniform_");
  return uniform_(tensor, -bound, bound, options.generator);
}

const Tensor& kaiming_normal_(const Tensor& tensor, const KaimingOptions& options) {
  return normal_(tensor, 0, kaiming_stddev(tensor, options, "kaiming_normal_"), options.generator);
}

const Tensor& trunc_normal_(const Tensor& tensor, double mean, double stddev, double low, double high,
                            Generator& generator) {
  const NoGrad no_grad;
  return tensor.trunc_normal_(mean, stddev, low, high, generator), tensor;
}

const Tensor& orthogonal_(const Tensor& tensor, double gain, Generator& generator) {
  check_fillable(tensor, "orthogonal_");
  TENDRIL_CHECK(std::isfinite(gain), "orthogonal_: gain: got ", gain, ", expected a finite number");
  TENDRIL_CHECK_AS(ShapeError, tensor.dim() >= 2, "orthogonal_: the tensor has shape ", tensor.sizes(),
                   ", expected two dimensions or more");
  if (tensor.numel() == 0) return tensor;
  const int64_t rows = tensor.size(0), columns = tensor.numel() / rows;
  const int64_t count = std::min(rows, columns), length = std::max(rows, columns);
  const Tensor vectors = raw::empty({count, length}, kFloat64);
  raw::normal_(vectors, 0, 1, generator);
  make_orthonormal(vectors.mutable_data<double>(), count, length);
  const Tensor matrix = raw::binary(Binary::mul, rows <= columns ? vectors : raw::transpose(vectors, 0, 1), gain);
  return write(tensor, raw::reshape(matrix, tensor.sizes()));
}

const Tensor& sparse_(const Tensor& tensor, double sparsity, double stddev, Generator& generator) {
  check_fillable(tensor, "sparse_");
  check_spread(stddev, "sparse_", "stddev");
  TENDRIL_CHECK_AS(ShapeError, tensor.dim() == 2, "sparse_: the tensor has shape ", tensor.sizes(),
                   ", expected a matrix");
  TENDRIL_CHECK(sparsity >= 0 && sparsity <= 1, "sparse_: sparsity: got ", sparsity, ", expected a number in [0, 1]");
  const int64_t rows = tensor.size(0), columns = tensor.size(1);
  const auto zeros = static_cast<int64_t>(std::ceil(sparsity * static_cast<double>(rows)));
  const Tensor values = raw::empty(tensor.sizes(), kFloat64);
  raw::normal_(values, 0, stddev, generator);
  for (int64_t column = 0; column < columns; ++column) {
    const Tensor order = raw::randperm(rows, generator);
    for (int64_t i = 0; i < zeros; ++i) values.mutable_data<double>()[order.data<int64_t>()[i] * columns + column] = 0;
  }
  return write(tensor, values);
}

}  // namespace tendril::nn::init
