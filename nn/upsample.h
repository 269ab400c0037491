#pragma once

#include <string>
#include <vector>

#include "tendril/autograd/ops/interpolate.h"
#include "tendril/nn/module.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::nn {

/// Sequences, images and volumes of another size (autograd/ops/interpolate.h).
struct Upsample : Movable<Upsample> {
  explicit Upsample(const InterpolateOptions& how) : options(how) {}
  /// All sides by one factor.
  explicit Upsample(double scale_factor, InterpolateMode mode = InterpolateMode::nearest)
      : options{.scale_factor = std::vector<double>{scale_factor}, .mode = mode} {}
  Tensor forward(const Tensor& x) const { return interpolate(x, options); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override;

  const InterpolateOptions options;
};

}  // namespace tendril::nn

TENDRIL_API_END
