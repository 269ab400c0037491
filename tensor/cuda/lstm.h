#pragma once

#include <cstdint>

namespace tendril::cuda {

/// A copy of `steps` equal parts in reverse order; for dtypes of 2 bytes or more. Does not wait.
void reverse_steps(const char* op, void* to, const void* from, int64_t steps, int64_t step_bytes);

}  // namespace tendril::cuda
