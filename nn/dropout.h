#pragma once

#include <string>
#include <typeinfo>

#include "tendril/nn/module.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

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

/// As Dropout, of whole channels: what is at one place of the first two dimensions of x [batch, channels, ...] is zero
/// or stays together. (Tompson et al., "Efficient Object Localization Using Convolutional Networks", 2015)
class ChannelDropout : public Module {
 public:
  /// ShapeError for other dimensions than the class's.
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  /// The probability of a zero.
  double p() const noexcept { return p_; }
  std::string extra_repr() const override;

 protected:
  ChannelDropout(const char* op, int dims, double p, Generator& generator);
  ChannelDropout(ChannelDropout&& from, const std::type_info& type, Extent object);

 private:
  const char* op_;
  int dims_;
  double p_;
  Generator* generator_;
};

/// Of sequences [batch, channels, length]. `generator` must outlive the module. Throws Error unless p is in [0, 1].
struct Dropout1d : Movable<Dropout1d, ChannelDropout> {
  explicit Dropout1d(double p = 0.5, Generator& generator = default_generator());
};
/// Of images [batch, channels, height, width].
struct Dropout2d : Movable<Dropout2d, ChannelDropout> {
  explicit Dropout2d(double p = 0.5, Generator& generator = default_generator());
};
/// Of volumes [batch, channels, depth, height, width].
struct Dropout3d : Movable<Dropout3d, ChannelDropout> {
  explicit Dropout3d(double p = 0.5, Generator& generator = default_generator());
};

}  // namespace tendril::nn

TENDRIL_API_END
