#pragma once

#include "tendril/tensor/cuda/runtime/renewals.h"
#include "tendril/tensor/error.h"

/// What a thread may not do while it records a Graph.
namespace tendril::cuda {

/// Whether this thread does.
bool is_capturing() noexcept;
/// Whether it is the stream whose work this thread records.
bool is_recorded(cudaStream_t stream) noexcept;

/// A kernel that looks at indices is recorded by this thread: it will note what is out of range for the process.
void note_recorded_indices() noexcept;

/// Throws Error "OP: cannot be recorded in a cuda::Graph: WHY".
inline void refuse_in_capture(const char* op, const char* why) {
  TENDRIL_CHECK(!is_capturing(), op, ": cannot be recorded in a cuda::Graph: ", why);
}

/// For work that is no launch of a kernel of ours, and which a replay could not give other arguments.
inline void refuse_when_renewed(const char* op) {
  TENDRIL_CHECK(!renewals(), op,
                ": cannot be part of what a cuda::Graph gives other arguments before each replay, "
                "expected kernels alone");
}

/// For kernels whose arguments are others each time: who launches them gives them to the recorder (detail/replay.h).
inline void refuse_unless_renewed(const char* op, const char* why) {
  TENDRIL_CHECK(!is_capturing() || renewals(), op, ": cannot be recorded in a cuda::Graph: ", why);
}

}  // namespace tendril::cuda
