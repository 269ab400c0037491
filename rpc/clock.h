#pragma once

#include <chrono>

#include "tendril/tensor/export.h"

namespace tendril::rpc::detail {
class Simulator;
}

TENDRIL_API_BEGIN

namespace tendril::rpc {

namespace detail {
/// Null unless a simulation is running (system/simulator.h). Changes only while no other thread uses rpc.
extern constinit Simulator* simulator;
std::chrono::steady_clock::time_point simulated_now() noexcept;
}  // namespace detail

/// The clock of all deadlines: std::chrono::steady_clock, or the virtual time of a simulation. Thread-safe.
struct Clock {
  using time_point = std::chrono::steady_clock::time_point;  ///< that of std::chrono::steady_clock
  using duration = time_point::duration;                     ///< likewise
  using rep = duration::rep;                                 ///< likewise
  using period = duration::period;                           ///< likewise
  static constexpr bool is_steady = true;                    ///< time never decreases

  /// The current time.
  static time_point now() noexcept {
    if (detail::simulator != nullptr) [[unlikely]]
      return detail::simulated_now();
    return std::chrono::steady_clock::now();
  }
};

/// Does what std::this_thread::sleep_until does, in virtual time if a simulation is running. Thread-safe.
void sleep_until(Clock::time_point when);
/// Does the same for a duration.
inline void sleep_for(Clock::duration time) { sleep_until(Clock::now() + time); }

}  // namespace tendril::rpc

TENDRIL_API_END
