#pragma once

#include <cudnn.h>

#include <utility>

#include "tendril/tensor/dtype.h"

/// cuDNN. Read only in this folder, most of which is compiled where it was found.
namespace tendril::cuda {

/// Throws Error: "conv2d: cudnnConvolutionForward: CUDNN_STATUS_BAD_PARAM: ..." with what cuDNN says of its last error.
[[noreturn]] void raise(cudnnStatus_t status, const char* op, const char* call);

inline void check(cudnnStatus_t status, const char* op, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS) [[unlikely]]
    raise(status, op, call);
}

/// Whether cuDNN does what it was asked to. False where it says NOT_SUPPORTED: another way must be taken. Anything else
/// that it refuses is a mistake of ours, or a device that fails: false as well, said once on the error output with what
/// cuDNN says of its last error; under `strict()` Error.
bool is_served(cudnnStatus_t status, const char* op, const char* call);

/// cuDNN's answers to what is asked once and kept. It may be kept if they were all yes or NOT_SUPPORTED, of which the
/// next call would hear the same; a lack of memory may pass.
class DnnAnswers {
 public:
  explicit DnnAnswers(const char* op) : op_(op) {}
  bool take(cudnnStatus_t status, const char* call);
  bool may_be_kept() const noexcept { return kept_; }

 private:
  const char* op_;
  bool kept_ = true;
};

/// The calling thread's handle for its current device, set to its current stream.
cudnnHandle_t dnn_handle();

/// A descriptor that ends with its owner. May be empty.
template <class D, cudnnStatus_t (*Create)(D*), cudnnStatus_t (*Destroy)(D)>
class Descriptor {
 public:
  Descriptor() { check(Create(&value_), "cuDNN", "creating a descriptor"); }
  ~Descriptor() {
    if (value_) Destroy(value_);
  }
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  operator D() const noexcept { return value_; }

 private:
  D value_ = nullptr;
};
using TensorDescriptor = Descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using FilterDescriptor = Descriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using ConvolutionDescriptor =
    Descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor>;

/// cuDNN's name of a floating dtype. Throws DTypeError naming `op` for others.
cudnnDataType_t dnn_type(DType dtype, const char* op);

/// The scalars alpha and beta of cuDNN's calls, in the type that a dtype's calls want: float unless it is float64.
class DnnScalar {
 public:
  DnnScalar(double value, DType dtype) noexcept
      : wide_(dtype == kFloat64), as_double_(value), as_float_(static_cast<float>(value)) {}
  operator const void*() const noexcept { return wide_ ? static_cast<const void*>(&as_double_) : &as_float_; }

 private:
  bool wide_;
  double as_double_;
  float as_float_;
};

}  // namespace tendril::cuda

/// TENDRIL_CUDNN("conv2d", cudnnSetStream, handle, stream)
#define TENDRIL_CUDNN(op, function, ...) ::tendril::cuda::check(function(__VA_ARGS__), op, #function)
