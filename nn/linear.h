#pragma once

#include <cstdint>
#include <string>

#include "tendril/nn/module.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::nn {

struct LinearOptions {
  bool bias = true;
  DType dtype = kFloat32;
  Device device = default_device();
  Generator& generator = default_generator();  ///< for the initial values
};

/// y = x W^T + b, for x of [..., in_features]; y is [..., out_features], in the same dtype.
/// Initial values as PyTorch's: both uniform in +-1/sqrt(in_features).
class Linear : public Movable<Linear> {
 public:
  /// Throws Error unless both counts are positive.
  Linear(int64_t in_features, int64_t out_features, const LinearOptions& options = {});

  /// ShapeError for another number of features, DTypeError for another dtype.
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

  /// Draws the initial values anew.
  void reset_parameters(Generator& generator = default_generator());

  std::string extra_repr() const override;

  Tensor weight;  ///< [out_features, in_features]
  Tensor bias;    ///< [out_features]; undefined without bias
};

}  // namespace tendril::nn

TENDRIL_API_END
