#pragma once

#include "tendril/tensor/cuda/kernels/kernel.cuh"
#include "tendril/tensor/cuda/runtime/index_errors.h"

namespace tendril::cuda {

/// Whether `index` is out of range; notes it if it is the first.
__device__ inline bool refused(int64_t index, const IndexReport& report) {
  if (static_cast<uint64_t>(index) < static_cast<uint64_t>(report.size)) return false;
  IndexRecord& record = *report.record;
  if (atomicCAS(&record.state, IndexRecord::kEmpty, IndexRecord::kClaimed) == IndexRecord::kEmpty) {
    record.dim = report.dim;
    record.use = report.use;
    record.value = index;
    record.size = report.size;
    record.owner = report.owner;
    __threadfence_system();  // another stream may be waited for before this kernel ends
    atomicExch(&record.state, IndexRecord::kComplete);
  }
  return true;
}

}  // namespace tendril::cuda
