// cuDNN for the emulated device: handles, errors, tensor and filter descriptors.
#include <algorithm>
#include <bit>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include "cuda_emulator/cudnn_descriptors.h"

namespace cuda_emulator {
namespace {

std::mutex mutex;
std::set<cudnnHandle_t> live;  // guarded by mutex
thread_local const char* last_error = "";

/// "The total size of a tensor including the potential padding between dimensions is limited to 2 giga-elements."
cudnnStatus_t check_sizes(const int* sizes, int dims, cudnnDataType_t type) {
  if (bytes_of(type) == 0) return refuse(CUDNN_STATUS_BAD_PARAM, "the data type is invalid");
  std::int64_t total = 1;
  for (int d = 0; d < dims; ++d) {
    if (sizes[d] <= 0) return refuse(CUDNN_STATUS_BAD_PARAM, "a dimension is not positive");
    total *= sizes[d];
    if (total > INT_MAX) return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the tensor has more than 2 giga-elements");
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

cudnnStatus_t look_at(cudnnHandle_t handle) {
  {
    const std::lock_guard lock(mutex);
    if (!live.contains(handle)) return refuse(CUDNN_STATUS_NOT_INITIALIZED, "the handle is not alive");
  }
  int device = -1;
  if (cudaGetDevice(&device) != cudaSuccess || device != handle->device) {
    return refuse(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH, "the handle is another device's");
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t refuse(cudnnStatus_t status, const char* message) {
  last_error = message;
  return status;
}

std::size_t bytes_of(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_FLOAT:
      return 4;
    case CUDNN_DATA_DOUBLE:
      return 8;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
      return 2;
    case CUDNN_DATA_INT32:
      return 4;
    default:
      return 0;
  }
}

double scalar_of(const void* value, cudnnDataType_t type) {
  return type == CUDNN_DATA_DOUBLE ? *static_cast<const double*>(value)
                                   : static_cast<double>(*static_cast<const float*>(value));
}

}  // namespace cuda_emulator

using namespace cuda_emulator;

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  int device = 0;
  if (!handle) return CUDNN_STATUS_BAD_PARAM;
  if (cudaGetDevice(&device) != cudaSuccess) return CUDNN_STATUS_NOT_INITIALIZED;
  *handle = new cudnnContext{.device = device};
  const std::lock_guard lock(mutex);
  live.insert(*handle);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  const std::lock_guard lock(mutex);
  if (live.erase(handle) == 0) return CUDNN_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (const cudnnStatus_t status = look_at(handle); status != CUDNN_STATUS_SUCCESS) return status;
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (CUDNN_STATUS_CATEGORY(static_cast<int>(status))) {
    case 0:
      return "CUDNN_STATUS_SUCCESS";
    case 1000:
      return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM:
      return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_EXECUTION_FAILED:
      return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
      return "CUDNN_STATUS_INTERNAL_ERROR";
  }
}

void cudnnGetLastErrorString(char* message, std::size_t room) {
  if (message && room > 0) std::snprintf(message, room, "%s", std::exchange(last_error, ""));
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) {
  *tensor = new cudnnTensorStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  delete tensor;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensor, cudnnDataType_t type, int dims,
                                         const int* sizes, const int* strides) {
  if (!tensor || !sizes || !strides) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "null");
  if (dims < 3 || dims > cudnnTensorStruct::kMost) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "expected 3 to 8 dimensions");
  }
  if (const cudnnStatus_t status = check_sizes(sizes, dims, type); status != CUDNN_STATUS_SUCCESS) return status;
  if (*std::min_element(strides, strides + dims) <= 0) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "a stride is not positive");
  }
  tensor->type = type;
  tensor->dims = dims;
  std::copy_n(sizes, dims, tensor->size);
  std::copy_n(strides, dims, tensor->stride);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  const int sizes[] = {n, c, h, w};
  if (const cudnnStatus_t status = check_sizes(sizes, 4, type); status != CUDNN_STATUS_SUCCESS) return status;
  const int rows[] = {c * h * w, h * w, w, 1}, channels_last[] = {c * h * w, 1, w * c, c};
  if (format != CUDNN_TENSOR_NCHW && format != CUDNN_TENSOR_NHWC) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "the format is invalid");
  }
  return cudnnSetTensorNdDescriptor(tensor, type, 4, sizes, format == CUDNN_TENSOR_NCHW ? rows : channels_last);
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* filter) {
  *filter = new cudnnFilterStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) {
  delete filter;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  const int sizes[] = {k, c, h, w};
  if (!filter) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "null");
  if (const cudnnStatus_t status = check_sizes(sizes, 4, type); status != CUDNN_STATUS_SUCCESS) return status;
  filter->type = type;
  filter->format = format;
  std::copy_n(sizes, 4, filter->size);
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
