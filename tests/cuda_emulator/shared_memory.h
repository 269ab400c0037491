#pragma once

#include <cstddef>
#include <vector>

#include "cuda_emulator/symbols.h"

/// Shared memory of the running block. Under the world's lock.
namespace cuda_emulator {

/// What one kernel has: its own arrays and those of the functions that it calls. The former are known by name; the
/// latter by what its first blocks change, so that those blocks still find there what was there before.
class SharedMemory {
 public:
  explicit SharedMemory(const void* kernel);

  /// Before a block: everything is 0xFF, `dynamic` bytes of dynamic memory included.
  void begin_block(std::size_t dynamic);
  void end_block();

 private:
  std::vector<const SharedArray*> ours_, others_;
  std::vector<unsigned char> before_;  // what was in the others
  int to_watch_ = 2;                   // so many blocks
};

/// The one of a kernel.
SharedMemory& shared_memory_of(const void* kernel);

}  // namespace cuda_emulator
