#include "tendril/tensor/cuda/runtime/renewals.h"

#include <cstddef>
#include <utility>

#include "tendril/tensor/cuda/runtime/check.h"
#include "tendril/tensor/error.h"

namespace tendril::cuda {
namespace {

thread_local Renewals* of_thread = nullptr;

/// While it lives, launches of this thread are told to `renewals`.
class Calling {
 public:
  explicit Calling(Renewals* renewals) noexcept : before_(std::exchange(of_thread, renewals)) {}
  ~Calling() { of_thread = before_; }
  Calling(const Calling&) = delete;
  Calling& operator=(const Calling&) = delete;

 private:
  Renewals* before_;
};

/// The last thing that was recorded of the stream; null where it is not recorded.
cudaGraphNode_t last_recorded(const char* op, cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t* last = nullptr;
  std::size_t count = 0;
#if CUDART_VERSION >= 13000
  TENDRIL_CUDA(op, cudaStreamGetCaptureInfo, stream, &status, nullptr, nullptr, &last, nullptr, &count);
#else
  TENDRIL_CUDA(op, cudaStreamGetCaptureInfo_v2, stream, &status, nullptr, nullptr, &last, &count);
#endif
  return status == cudaStreamCaptureStatusActive && count == 1 ? last[0] : nullptr;
}

}  // namespace

Renewals* renewals() noexcept { return of_thread; }

void Renewals::renew(std::function<void(bool replaying)> launches) {
  if (of_thread == this) return launches(false);  // within a part, and so renewed with it
  parts_.push_back({std::move(launches), {}});
  part_ = &parts_.back();
  const Calling calling(this);
  try {
    part_->launches(false);
  } catch (...) {
    broken_ = broken_ || !part_->kernels.empty();
    parts_.pop_back();
    throw;
  }
}

void Renewals::renew_all(cudaGraphExec_t exec) {
  if (parts_.empty()) return;
  exec_ = exec;
  const Calling calling(this);
  for (Part& part : parts_) {
    part_ = &part;
    next_ = 0;
    part.launches(true);
    TENDRIL_CHECK(next_ == part.kernels.size(), "Graph::replay: got ", next_, " kernels with new arguments, expected ",
                  part.kernels.size(), " as when they were recorded (record the step again)");
  }
}

bool Renewals::takes_over(const char* op, const cudaKernelNodeParams& launch) {
  if (!exec_) return false;
  TENDRIL_CHECK(next_ < part_->kernels.size() && part_->kernels[next_].function == launch.func, "Graph::replay: ", op,
                ": launches other kernels than when it was recorded (record the step again)");
  TENDRIL_CUDA(op, cudaGraphExecKernelNodeSetParams, exec_, part_->kernels[next_].node, &launch);
  ++next_;
  return true;
}

void Renewals::note_recorded(const char* op, const void* kernel, cudaStream_t stream) {
  const cudaGraphNode_t node = last_recorded(op, stream);
  TENDRIL_CHECK(node, op, ": expected to be recorded on the stream of the cuda::Graph, got another one");
  part_->kernels.push_back({node, kernel});
}

}  // namespace tendril::cuda
