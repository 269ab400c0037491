#pragma once

#include <cstddef>
#include <vector>

#include "cuda_emulator/symbols.h"

/// Shared memory of the running block. Under the world's lock.
namespace cuda_emulator {

/// What one kernel has: its own arrays and those of the functions that it calls. The former are known by name; the
/// latter are found by what its first blocks leave behind.
class SharedMemory {
 public:
  explicit SharedMemory(const void* kernel);

  /// Before a block: everything is 0xFF, `dynamic` bytes of dynamic memory included.
  void begin_block(std::size_t dynamic);
  void end_block();

 private:
  std::vector<bool> ours_;  // of shared_arrays()
  int to_watch_ = 3;
};

/// The one of a kernel.
SharedMemory& shared_memory_of(const void* kernel);

}  // namespace cuda_emulator
