#include "tendril/tensor/cuda/cudnn/dnn.h"

#include <string>

#include "tendril/tensor/cuda/runtime/current.h"
#include "tendril/tensor/cuda/runtime/handles.h"
#include "tendril/tensor/cuda/runtime/refusals.h"
#include "tendril/tensor/error.h"

namespace tendril::cuda {

namespace {

std::string explained(cudnnStatus_t status, const char* op, const char* call) {
  char detail[512] = "";
  cudnnGetLastErrorString(detail, sizeof detail);
  std::string text(op);
  text.append(": ").append(call).append(": ").append(cudnnGetErrorString(status));
  if (*detail) text.append(": ").append(detail);
  return text;
}

}  // namespace

void raise(cudnnStatus_t status, const char* op, const char* call) {
  tendril::detail::raise<Error>(explained(status, op, call));
}

namespace {

bool is_unsupported(cudnnStatus_t status) {
  return CUDNN_STATUS_CATEGORY(static_cast<int>(status)) == CUDNN_STATUS_NOT_SUPPORTED;
}

}  // namespace

bool is_served(cudnnStatus_t status, const char* op, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return true;
  if (is_unsupported(status)) return false;
  refused(op, call, static_cast<int>(status), explained(status, op, call));
  return false;
}

bool DnnAnswers::take(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS && !is_unsupported(status)) kept_ = false;
  return is_served(status, op_, call);
}

namespace {

struct Dnn {
  Dnn() { TENDRIL_CUDNN("cuDNN", cudnnCreate, &handle); }
  ~Dnn() { cudnnDestroy(handle); }
  Dnn(const Dnn&) = delete;
  Dnn& operator=(const Dnn&) = delete;

  cudnnHandle_t handle = nullptr;
};

}  // namespace

cudnnHandle_t dnn_handle() {
  const cudnnHandle_t handle = thread_handle<Dnn>().handle;
  TENDRIL_CUDNN("cuDNN", cudnnSetStream, handle, current_stream());
  return handle;
}

cudnnDataType_t dnn_type(DType dtype, const char* op) {
  switch (dtype) {
    case kFloat32:
      return CUDNN_DATA_FLOAT;
    case kFloat64:
      return CUDNN_DATA_DOUBLE;
    case kFloat16:
      return CUDNN_DATA_HALF;
    case kBFloat16:
      return CUDNN_DATA_BFLOAT16;
    default:
      tendril::detail::raise<DTypeError>(op, ": no cuda kernel for ", dtype);
  }
}

}  // namespace tendril::cuda
