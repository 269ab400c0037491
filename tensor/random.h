#pragma once

#include <cstdint>
#include <mutex>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril {

class StateDict;
struct LoadOptions;
struct LoadReport;

/// A stream of random numbers: Philox blocks of four 32-bit words (philox.h), counted from 0. Whoever draws reserves
/// the blocks it needs; what a tensor is filled with then depends on (seed, offset) only, not on threads, and a CUDA
/// device draws the same. Thread-safety: all members. With several threads at one generator, which draw comes first is
/// up to their order.
class Generator {
 public:
  /// A seed and a place in its stream.
  struct State {
    uint64_t seed = 0;    ///< what it was seeded with
    uint64_t offset = 0;  ///< the next unused block
    friend bool operator==(const State&, const State&) = default;
  };

  explicit Generator(uint64_t seed) noexcept : state_{seed, 0} {}

  /// Begins the stream of this seed.
  void manual_seed(uint64_t seed) noexcept { set_state({seed, 0}); }
  /// Where in its stream it is: to be set again.
  State state() const noexcept {
    std::lock_guard lock(mutex_);
    return state_;
  }
  /// Goes on from there.
  void set_state(State state) noexcept {
    std::lock_guard lock(mutex_);
    state_ = state;
  }
  /// "seed" and "offset", as int64 of the same bits.
  StateDict state_dict() const;
  /// What is drawn from here on is what the saved one would have drawn. Throws Error that lists what does not fit;
  /// nothing has changed then.
  LoadReport load_state_dict(const StateDict& dict, const LoadOptions& options);
  LoadReport load_state_dict(const StateDict& dict);  ///< strictly

  /// Takes `blocks` blocks; the first is at the returned offset.
  State reserve(uint64_t blocks) noexcept {
    std::lock_guard lock(mutex_);
    const State taken = state_;
    state_.offset += blocks;
    return taken;
  }

  // ---- one number at a time, each from a block of its own
  uint64_t bits() noexcept;                 ///< 64 random bits
  double uniform() noexcept;                ///< in [0, 1), a multiple of 2^-53
  uint64_t below(uint64_t bound) noexcept;  ///< in [0, bound), unbiased; 0 for bound 0

 private:
  mutable std::mutex mutex_;
  State state_;
};

/// What functions draw from when no generator is given. Its seed at start-up is a constant, as in PyTorch.
Generator& default_generator() noexcept;
void manual_seed(uint64_t seed) noexcept;  ///< of the default generator

}  // namespace tendril

TENDRIL_API_END
