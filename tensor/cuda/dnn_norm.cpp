#include <cstdint>
#include <limits>

#include "tendril/tensor/cuda/dnn.h"
#include "tendril/tensor/cuda/math_mode.h"
#include "tendril/tensor/cuda/norm.h"
#include "tendril/tensor/cuda/workspace.h"

/// The mode that may be faster, CUDNN_BATCHNORM_SPATIAL_PERSISTENT, overflows for large finite values: not taken.
namespace tendril::cuda {
namespace {

constexpr cudnnBatchNormMode_t kMode = CUDNN_BATCHNORM_SPATIAL;

bool aligned(const View& view) { return reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0; }

/// One value a channel makes an infinite unbiased variance; one an image is better off in a kernel of ours that goes
/// along the channels.
bool serves(const View& x, const View& second, const View& third, double eps) {
  return aligned(x) && aligned(second) && aligned(third) && x.dtype == kFloat32 && x.numel > 0 &&
         x.numel < std::numeric_limits<int>::max() && x.sizes[2] > 1 && eps >= CUDNN_BN_MIN_EPSILON;
}

struct Shapes {
  explicit Shapes(const char* op, const View& x) {
    const auto n = static_cast<int>(x.sizes[0]), c = static_cast<int>(x.sizes[1]), s = static_cast<int>(x.sizes[2]);
    TENDRIL_CUDNN(op, cudnnSetTensor4dDescriptor, whole, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, c, 1, s);
    TENDRIL_CUDNN(op, cudnnSetTensor4dDescriptor, channels, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, c, 1, 1);
  }
  TensorDescriptor whole, channels;
};

float* data_or(const View* view, float* other) { return view ? view->as<float>() : other; }

}  // namespace

bool batch_norm_by_cudnn(const View& out, const View& mean, const View& var, const View& x, const View* weight,
                         const View* bias, double eps) {
  constexpr const char* op = "batch_norm";
  if (!serves(x, out, out, eps)) return false;
  const Shapes shapes(op, x);
  const int64_t channels = x.sizes[1];
  const auto count = static_cast<double>(x.sizes[0] * x.sizes[2]);
  const Workspace scratch(2 * static_cast<std::size_t>(channels) * sizeof(float));
  float *ones = scratch.as<float>(), *zeros = ones + channels;
  // The batch's statistics come as running ones that forget everything: factor 1. What they forget is multiplied by 0,
  // so it must be finite. The variance is unbiased.
  fill_channels(op, mean.as<float>(), var.as<float>(), bias ? nullptr : zeros, weight ? nullptr : ones, channels);
  const DnnScalar one(1, kFloat32), zero(0, kFloat32);
  TENDRIL_CUDNN(op, cudnnBatchNormalizationForwardTraining, dnn_handle(), kMode, one, zero, shapes.whole, x.data,
                shapes.whole, out.data, shapes.channels, data_or(weight, ones), data_or(bias, zeros), 1.0, mean.data,
                var.data, eps, nullptr, nullptr);
  scale_channels(op, var.as<float>(), (count - 1) / count, channels);
  detail::count_batch_norm();
  return true;
}

bool batch_norm_backward_by_cudnn(const View* dx, const View* dweight, const View* dbias, const View& g, const View& x,
                                  const View& mean, const View& var, const View* weight, double eps) {
  constexpr const char* op = "batch_norm_backward";
  if (!dx || !serves(x, g, *dx, eps)) return false;  // the sums alone need no cuDNN, which would write all three
  const Shapes shapes(op, x);
  const int64_t channels = x.sizes[1];
  const Workspace scratch(4 * static_cast<std::size_t>(channels) * sizeof(float));
  float *inverse = scratch.as<float>(), *ones = inverse + channels, *unwanted = ones + channels;
  invert_channels(op, inverse, var.as<const float>(), eps, weight ? nullptr : ones, channels);
  const DnnScalar one(1, kFloat32), zero(0, kFloat32);
  TENDRIL_CUDNN(op, cudnnBatchNormalizationBackward, dnn_handle(), kMode, one, zero, one, zero, shapes.whole, x.data,
                shapes.whole, g.data, shapes.whole, dx->data, shapes.channels, data_or(weight, ones),
                data_or(dweight, unwanted), data_or(dbias, unwanted + channels), eps, mean.data, inverse);
  detail::count_batch_norm();
  return true;
}

}  // namespace tendril::cuda
