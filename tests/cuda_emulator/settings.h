#pragma once

#include <cstdint>

/// What the environment sets (emulator.h names the variables).
namespace cuda_emulator {

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
