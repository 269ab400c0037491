#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tendril/autograd/ops/conv.h"
#include "tendril/nn/module.h"
#include "tendril/tensor/detail/prepared_weight.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/geometry.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::nn {

struct Conv2dOptions {
  Size2 stride = 1;
  Size2 padding = 0;  ///< zeros on either side
  Size2 dilation = 1;
  int64_t groups = 1;  ///< divides both numbers of channels
  bool bias = true;
  DType dtype = kFloat32;
  Device device = default_device();
  Generator& generator = default_generator();  ///< for the initial values
};

/// The convolution of images (autograd/ops/conv.h), [batch, in, height, width] or [in, height, width].
/// Initial values as PyTorch's: weight and bias uniform in +-1/sqrt(fan_in), fan_in = in / groups * kernel.
///
/// Unrecorded calls (evaluation under NoGrad), and recorded ones from the second call with the same weight on
/// (micro-batches), also keep the weight in the order that the kernels read, in up to eight times its memory. The first
/// call after a change of the weight drops this form, and the first recorded call drops that of unrecorded ones. No
/// form is kept of a weight in borrowed memory, or whose `mutable_data<float>()` was taken. After writing to the weight
/// through raw_data() or a function of raw.h, call weight.storage()->bump_version().
class Conv2d : public Movable<Conv2d> {
 public:
  /// Throws Error for counts that are not positive or that `groups` does not divide, and for a bad geometry.
  Conv2d(int64_t in_channels, int64_t out_channels, Size2 kernel_size, const Conv2dOptions& options = {});

  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

  /// Draws the initial values anew.
  void reset_parameters(Generator& generator = default_generator());
  /// Stride, padding, dilation, groups.
  const ConvGeometry& geometry() const noexcept { return geometry_; }
  std::string extra_repr() const override;

  Tensor weight;  ///< [out, in / groups, kernel height, kernel width]
  Tensor bias;    ///< [out]; undefined without bias

 private:
  ConvGeometry geometry_;
  mutable tendril::detail::PreparedWeight prepared_;
};

struct Conv1dOptions {
  int64_t stride = 1;
  int64_t padding = 0;  ///< zeros on either side
  int64_t dilation = 1;
  int64_t groups = 1;  ///< divides both numbers of channels
  bool bias = true;
  DType dtype = kFloat32;
  Device device = default_device();
  Generator& generator = default_generator();  ///< for the initial values
};

/// The convolution of sequences, [batch, in, length] or [in, length]: that of images of height 1. Initial values, and
/// what it keeps, as Conv2d's.
class Conv1d : public Movable<Conv1d> {
 public:
  /// Throws Error for counts that are not positive or that `groups` does not divide, and for a bad geometry.
  Conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size, const Conv1dOptions& options = {});

  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

  /// Draws the initial values anew.
  void reset_parameters(Generator& generator = default_generator());
  std::string extra_repr() const override;

  Tensor weight;  ///< [out, in / groups, kernel]
  Tensor bias;    ///< [out]; undefined without bias

 private:
  ConvGeometry geometry_;
  mutable tendril::detail::PreparedWeight prepared_;
};

struct ConvTranspose2dOptions {
  Size2 stride = 1;
  Size2 padding = 0;         ///< what is cut off on either side
  Size2 output_padding = 0;  ///< what is added on one side: below the stride or the dilation
  Size2 dilation = 1;
  int64_t groups = 1;  ///< divides both numbers of channels
  bool bias = true;
  DType dtype = kFloat32;
  Device device = default_device();
  Generator& generator = default_generator();  ///< for the initial values
};

/// The transposed convolution of images, conv_transpose2d of autograd/ops/conv.h. Initial values as PyTorch's: uniform
/// in +-1/sqrt(out / groups * kernel).
class ConvTranspose2d : public Movable<ConvTranspose2d> {
 public:
  /// Throws Error for counts that are not positive or that `groups` does not divide, and for a bad geometry.
  ConvTranspose2d(int64_t in_channels, int64_t out_channels, Size2 kernel_size,
                  const ConvTranspose2dOptions& options = {});

  /// With an `output_size`, which of the sizes that the convolution takes to x's is meant, in place of the options'
  /// output_padding: ShapeError unless it is the smallest of them or less than the stride above it.
  Tensor forward(const Tensor& x, const std::optional<Size2>& output_size = {}) const;
  Tensor operator()(const Tensor& x, const std::optional<Size2>& output_size = {}) const {
    return call(*this, x, output_size);
  }

  /// Draws the initial values anew.
  void reset_parameters(Generator& generator = default_generator());
  std::string extra_repr() const override;

  Tensor weight;  ///< [in, out / groups, kernel height, kernel width]
  Tensor bias;    ///< [out]; undefined without bias

 private:
  ConvGeometry geometry_;
  Size2 output_padding_;
};

struct ConvTranspose1dOptions {
  int64_t stride = 1;
  int64_t padding = 0;         ///< what is cut off on either side
  int64_t output_padding = 0;  ///< what is added at the end: below the stride or the dilation
  int64_t dilation = 1;
  int64_t groups = 1;  ///< divides both numbers of channels
  bool bias = true;
  DType dtype = kFloat32;
  Device device = default_device();
  Generator& generator = default_generator();  ///< for the initial values
};

/// The transposed convolution of sequences, [batch, in, length] or [in, length]. Initial values as ConvTranspose2d's.
class ConvTranspose1d : public Movable<ConvTranspose1d> {
 public:
  /// Throws Error for counts that are not positive or that `groups` does not divide, and for a bad geometry.
  ConvTranspose1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
                  const ConvTranspose1dOptions& options = {});

  /// With an `output_size`, which of the sizes that the convolution takes to x's is meant, in place of the options'
  /// output_padding: ShapeError unless it is the smallest of them or less than the stride above it.
  Tensor forward(const Tensor& x, const std::optional<int64_t>& output_size = {}) const;
  Tensor operator()(const Tensor& x, const std::optional<int64_t>& output_size = {}) const {
    return call(*this, x, output_size);
  }

  /// Draws the initial values anew.
  void reset_parameters(Generator& generator = default_generator());
  std::string extra_repr() const override;

  Tensor weight;  ///< [in, out / groups, kernel]
  Tensor bias;    ///< [out]; undefined without bias

 private:
  Conv1dGeometry geometry_;
  int64_t output_padding_;
};

}  // namespace tendril::nn

TENDRIL_API_END
