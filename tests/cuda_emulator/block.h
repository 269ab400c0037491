#pragma once

#include <functional>
#include <string>

#include "cuda_emulator/device.h"

namespace cuda_emulator {

/// Runs `thread` once for each thread of each block. Only under the world's lock.
void run_grid(const void* kernel, dim3 grid, dim3 block, unsigned shared, const std::function<void()>& thread);

/// What is running right now, for messages: "kernel f(int*), block (0, 0, 0), thread (3, 0, 0)", or nothing.
std::string running();
/// The kernel that ran last, or "nothing".
std::string last_run();

/// An environment variable's number, or `otherwise` when it is not set. Ends the process on what is not a number.
std::uint64_t from_environment(const char* name, std::uint64_t otherwise);

/// Small and the same everywhere (splitmix64); seeded by TENDRIL_EMULATED_SEED.
class Shuffler {
 public:
  Shuffler();
  /// Uniform enough in [0, bound); bound > 0.
  std::uint64_t below(std::uint64_t bound);

 private:
  std::uint64_t state_;
};

}  // namespace cuda_emulator
