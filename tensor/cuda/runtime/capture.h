#pragma once

#include "tendril/tensor/error.h"

/// What a thread may not do while it records a Graph.
namespace tendril::cuda {

/// Whether this thread does.
bool is_capturing() noexcept;

/// Throws Error: "dropout: cannot be recorded in a cuda::Graph: each replay would draw the same numbers".
inline void refuse_in_capture(const char* op, const char* why) {
  TENDRIL_CHECK(!is_capturing(), op, ": cannot be recorded in a cuda::Graph: ", why);
}

}  // namespace tendril::cuda
