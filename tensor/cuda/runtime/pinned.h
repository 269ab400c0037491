#pragma once

#include "tendril/tensor/cuda/runtime.h"

namespace tendril::cuda {

/// A copy from or to host memory at `address` has just been issued to `stream`: a pinned block that holds the address
/// is not handed out again before the stream has come so far. False for memory that is not the pool's. Thread-safe.
bool note_pinned_use(const void* address, const Stream& stream);

}  // namespace tendril::cuda
