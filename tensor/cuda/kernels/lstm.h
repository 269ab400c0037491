#pragma once

#include <cstdint>
#include <span>

/// What cuDNN's layers need beside cuDNN. Nothing here waits.
namespace tendril::cuda {

/// A copy of `steps` equal parts in reverse order; for dtypes of 2 bytes or more.
void reverse_steps(const char* op, void* to, const void* from, int64_t steps, int64_t step_bytes);

struct BytesCopy {
  void* to;
  const void* from;
  int64_t bytes;  ///< even
};
/// All of them at once.
void copy_all(const char* op, std::span<const BytesCopy> copies);

}  // namespace tendril::cuda
