#pragma once

#include <cudnn.h>

#include <cstddef>
#include <cstdint>

/// What stands behind cuDNN's opaque types in the emulator; for the files cudnn_*.cpp.
struct cudnnContext {
  int device = 0;
  cudaStream_t stream = nullptr;
};
/// A tensor of `dims` (at most 8) dimensions; 0 dims: created, not set.
struct cudnnTensorStruct {
  static constexpr int kMost = 8;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int dims = 0;
  int size[kMost] = {}, stride[kMost] = {};

  bool is_packed() const {
    std::int64_t expected = 1;
    for (int d = dims - 1; d >= 0; expected *= size[d--]) {
      if (size[d] > 1 && stride[d] != expected) return false;
    }
    return true;
  }
  /// Of four dimensions, in the order NHWC.
  bool is_channels_last() const {
    const int expected[] = {size[1] * size[2] * size[3], 1, size[3] * size[1], size[1]};
    for (int d = 0; d < 4; ++d) {
      if (size[d] > 1 && stride[d] != expected[d]) return false;
    }
    return dims == 4;
  }
};
struct cudnnFilterStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  int size[4] = {};  // of none: created, not set
};
struct cudnnConvolutionStruct {
  bool is_set = false;
  int padding[2] = {}, stride[2] = {1, 1}, dilation[2] = {1, 1};
  int groups = 1;
  cudnnConvolutionMode_t mode = CUDNN_CONVOLUTION;
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

namespace cuda_emulator {

/// CUDNN_STATUS_SUCCESS if `handle` is alive and its device the current one.
cudnnStatus_t look_at(cudnnHandle_t handle);
/// Notes `message` for cudnnGetLastErrorString of this thread and returns `status`.
cudnnStatus_t refuse(cudnnStatus_t status, const char* message);
/// 0 for types that the emulator does not compute with.
std::size_t bytes_of(cudnnDataType_t type);
/// The scalar behind an alpha or beta for tensors of `type`: double for CUDNN_DATA_DOUBLE, float for others.
double scalar_of(const void* value, cudnnDataType_t type);

}  // namespace cuda_emulator
