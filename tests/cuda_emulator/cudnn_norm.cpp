// cuDNN for the emulated device: batch normalisation over everything but the channels, of float tensors. Arguments are
// checked as NVIDIA's manual says that cuDNN checks them.
#include <cmath>
#include <vector>

#include "cuda_emulator/cudnn_descriptors.h"
#include "cuda_emulator/emulator.h"

using namespace cuda_emulator;

namespace {

struct Shape {
  int64_t images, channels, length;
};

/// f(offset) for the elements of a channel.
template <class F>
void for_each(const Shape& s, int64_t channel, F f) {
  for (int64_t n = 0; n < s.images; ++n) {
    for (int64_t i = 0; i < s.length; ++i) f((n * s.channels + channel) * s.length + i);
  }
}

cudnnStatus_t check(cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnTensorDescriptor_t x,
                    std::initializer_list<cudnnTensorDescriptor_t> like_x, cudnnTensorDescriptor_t channels,
                    std::initializer_list<const void*> pointers, double eps) {
  if (const cudnnStatus_t status = look_at(handle); status != CUDNN_STATUS_SUCCESS) return status;
  if (mode != CUDNN_BATCHNORM_SPATIAL) return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the emulator knows SPATIAL only");
  for (const void* pointer : pointers) {
    if (!pointer) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "null");
  }
  if (x->dims != 4 || x->type != CUDNN_DATA_FLOAT || !x->is_packed()) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the emulator knows packed float tensors of 4 dimensions only");
  }
  for (const cudnnTensorDescriptor_t other : like_x) {
    for (int d = 0; d < 4; ++d) {
      if (other->dims != 4 || other->size[d] != x->size[d] || other->type != x->type || !other->is_packed()) {
        return refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "tensors differ");
      }
    }
  }
  if (channels->dims != 4 || channels->size[0] != 1 || channels->size[1] != x->size[1] || channels->size[2] != 1 ||
      channels->size[3] != 1 || channels->type != CUDNN_DATA_FLOAT) {
    return refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "the channels' descriptor is not 1xCx1x1");
  }
  if (!(eps >= CUDNN_BN_MIN_EPSILON)) return refuse(CUDNN_STATUS_BAD_PARAM, "epsilon");
  return CUDNN_STATUS_SUCCESS;
}

Shape shape_of(cudnnTensorDescriptor_t x) { return {x->size[0], x->size[1], int64_t{x->size[2]} * x->size[3]}; }
bool replaces(const void* alpha, const void* beta) {
  return scalar_of(alpha, CUDNN_DATA_FLOAT) == 1 && scalar_of(beta, CUDNN_DATA_FLOAT) == 0;
}
cudnnStatus_t queue(cudnnHandle_t handle, std::function<void()> work) {
  return enqueue(handle->stream, std::move(work)) == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

}  // namespace

extern "C" {

cudnnStatus_t cudnnBatchNormalizationForwardTraining(cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha,
                                                     const void* beta, const cudnnTensorDescriptor_t x_desc,
                                                     const void* x_data, const cudnnTensorDescriptor_t y_desc,
                                                     void* y_data, const cudnnTensorDescriptor_t channels,
                                                     const void* scale, const void* bias, double factor,
                                                     void* running_mean, void* running_var, double eps, void* save_mean,
                                                     void* save_inverse) {
  const cudnnStatus_t status = check(handle, mode, x_desc, {y_desc}, channels, {x_data, y_data, scale, bias}, eps);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (!running_mean != !running_var || !save_mean != !save_inverse) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "one of a pair is null");
  }
  if (!replaces(alpha, beta)) return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the emulator does not blend");
  return queue(handle, [=, s = shape_of(x_desc)] {
    const auto* x = static_cast<const float*>(x_data);
    auto* y = static_cast<float*>(y_data);
    const auto count = static_cast<double>(s.images * s.length);
    for (int64_t c = 0; c < s.channels; ++c) {
      double sum = 0, squares = 0;
      for_each(s, c, [&](int64_t i) { sum += x[i]; });
      const double mean = sum / count;
      for_each(s, c, [&](int64_t i) { squares += (x[i] - mean) * (x[i] - mean); });
      const double inverse = 1 / std::sqrt(squares / count + eps);
      const auto blend = [&](void* running, double value) {
        float& old = static_cast<float*>(running)[c];
        old = static_cast<float>(value * factor + static_cast<double>(old) * (1 - factor));
      };
      if (running_mean) {
        blend(running_mean, mean);
        blend(running_var, squares / (count - 1));
      }
      if (save_mean) {
        static_cast<float*>(save_mean)[c] = static_cast<float>(mean);
        static_cast<float*>(save_inverse)[c] = static_cast<float>(inverse);
      }
      const double by = static_cast<const float*>(scale)[c] * inverse, shift = static_cast<const float*>(bias)[c];
      for_each(s, c, [&](int64_t i) { y[i] = static_cast<float>((x[i] - mean) * by + shift); });
    }
  });
}

cudnnStatus_t cudnnBatchNormalizationBackward(cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha,
                                              const void* beta, const void* alpha_parameters,
                                              const void* beta_parameters, const cudnnTensorDescriptor_t x_desc,
                                              const void* x_data, const cudnnTensorDescriptor_t dy_desc,
                                              const void* dy_data, const cudnnTensorDescriptor_t dx_desc, void* dx_data,
                                              const cudnnTensorDescriptor_t channels, const void* scale, void* d_scale,
                                              void* d_bias, double eps, const void* saved_mean,
                                              const void* saved_inverse) {
  const cudnnStatus_t status = check(handle, mode, x_desc, {dy_desc, dx_desc}, channels,
                                     {x_data, dy_data, dx_data, scale, d_scale, d_bias}, eps);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (!saved_mean || !saved_inverse) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the emulator wants the saved statistics");
  }
  if (!replaces(alpha, beta) || !replaces(alpha_parameters, beta_parameters)) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the emulator does not blend");
  }
  return queue(handle, [=, s = shape_of(x_desc)] {
    const auto *x = static_cast<const float*>(x_data), *dy = static_cast<const float*>(dy_data);
    auto* dx = static_cast<float*>(dx_data);
    const auto count = static_cast<double>(s.images * s.length);
    for (int64_t c = 0; c < s.channels; ++c) {
      const double mean = static_cast<const float*>(saved_mean)[c], r = static_cast<const float*>(saved_inverse)[c];
      double sum = 0, product = 0;
      for_each(s, c, [&](int64_t i) {
        sum += dy[i];
        product += dy[i] * (x[i] - mean) * r;
      });
      static_cast<float*>(d_scale)[c] = static_cast<float>(product);
      static_cast<float*>(d_bias)[c] = static_cast<float>(sum);
      const double by = static_cast<const float*>(scale)[c] * r;
      for_each(s, c, [&](int64_t i) {
        dx[i] = static_cast<float>(by * (dy[i] - sum / count - (x[i] - mean) * r * product / count));
      });
    }
  });
}

}  // extern "C"
