#pragma once

#include <cstdint>

#include "tendril/rpc/call_context.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {
class Agent;
}

namespace tendril::rpc::detail {

/// Rank 0's steady clock minus this process's, at a moment of this process's.
struct ClockOffset {
  int64_t at_ns = 0;
  int64_t offset_ns = 0;
  int64_t error_ns = 0;  ///< the true offset is within so much of it
};

/// Asks rank 0 for the time several times, and takes the quickest answer: the clock was read at some moment of the
/// round trip, so that half of it is the error. At rank 0 itself exact. Throws what calls throw.
ClockOffset measure_clock(Agent& agent, Clock::time_point deadline);

/// From this process's steady clock to rank 0's: a line through two measurements, since clocks drift.
struct ClockFit {
  ClockOffset first, last;

  int64_t to_rank_0(int64_t ns) const noexcept;
  int64_t error_ns() const noexcept;  ///< between the two measurements
};

}  // namespace tendril::rpc::detail

TENDRIL_API_END
