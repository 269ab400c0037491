#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

#include "tendril/tensor/detail/replay.h"

/// Kernels of a cuda::Graph whose arguments are found anew before each replay.
namespace tendril::cuda {

class Renewals final : public tendril::detail::Recorder {
 public:
  using Recorder::Recorder;

  void renew(std::function<void(bool replaying)> launches) override;

  /// Whether something failed that had launched kernels: they are in the record, and would stay as they are.
  bool is_broken() const noexcept { return broken_; }

  /// Before a replay: all that is to be renewed gives its kernels their new arguments in `exec`. Throws what it throws,
  /// and Error when it launches other kernels than were recorded. No replay but the next ones see the new arguments.
  void renew_all(cudaGraphExec_t exec);

  /// What `launch` (kernel.cuh) tells the one that its thread is in (renewals()): of a launch that would be.
  /// True: the launch took the place of a recorded one, and does not happen.
  bool takes_over(const char* op, const cudaKernelNodeParams& launch);
  /// It has been recorded.
  void note_recorded(const char* op, const void* kernel, cudaStream_t stream);

 private:
  struct Kernel {
    cudaGraphNode_t node;
    const void* function;
  };
  struct Part {
    std::function<void(bool replaying)> launches;
    std::vector<Kernel> kernels;
  };

  std::vector<Part> parts_;
  bool broken_ = false;
  // While a part is called:
  Part* part_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;  ///< whose kernels get new arguments; null while they are recorded
  std::size_t next_ = 0;            ///< the kernel that does so next
};

/// Those that call something of this thread now; else null.
Renewals* renewals() noexcept;

}  // namespace tendril::cuda
