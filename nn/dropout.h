#pragma once

#include <string>

#include "tendril/nn/module.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/tensor.h"

namespace tendril::nn {

/// In training, zeroes each element with probability p and scales the others by 1 / (1 - p), so that the mean stays;
/// in evaluation, hands x through. (Srivastava et al., "Dropout", 2014)
class Dropout : public Movable<Dropout> {
 public:
  /// `generator` must outlive the module. Throws Error unless p is in [0, 1].
  explicit Dropout(double p = 0.5, Generator& generator = default_generator());

  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

  /// The probability of a zero.
  double p() const noexcept { return p_; }
  /// Draws from this one, which must live as long, instead of the default one.
  void set_generator(Generator& generator) noexcept { generator_ = &generator; }
  std::string extra_repr() const override;

 private:
  double p_;
  Generator* generator_;
};

}  // namespace tendril::nn
