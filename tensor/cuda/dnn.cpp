#include "tendril/tensor/cuda/dnn.h"

#include "tendril/tensor/cuda/current.h"
#include "tendril/tensor/cuda/handles.h"
#include "tendril/tensor/error.h"

namespace tendril::cuda {

void raise(cudnnStatus_t status, const char* op, const char* call) {
  char detail[512] = "";
  cudnnGetLastErrorString(detail, sizeof detail);
  tendril::detail::raise<Error>(op, ": ", call, ": ", cudnnGetErrorString(status), *detail ? ": " : "", detail);
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
