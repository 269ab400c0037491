#pragma once

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/threads/clock_fit.h"

namespace tendril::rpc {
class Agent;
}

namespace tendril::rpc::detail {

/// Asks rank 0 for the time several times and uses the fastest answer. Rank 0 has read its clock at some moment of the
/// round trip, so the error is at most half of the round trip. At rank 0 itself, the result is exact. Throws the errors
/// of calls.
ClockOffset measure_clock(Agent& agent, Clock::time_point deadline);

}  // namespace tendril::rpc::detail
