#pragma once

#include <chrono>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/launch/gathering.h"

namespace tendril::rpc::detail {

/// Waits until no call is on its way or running anywhere in the group, nested and follow-up ones included. All workers
/// call it. Each round every worker waits until it is idle, then all compare how many requests they have sent and
/// received. It is over when in two rounds in a row all were idle, as many had been received as sent, and the numbers
/// had not changed: the four counters of F. Mattern, "Algorithms for distributed termination detection", 1987. A
/// connection that has ended takes its requests out of the numbers at both its ends. If only one side has noticed that
/// end, the other replaces its connection between two rounds, and so learns of it.
/// Throws TimeoutError at the deadline, saying what this worker is busy with or how many requests have not arrived;
/// without a deadline also when everybody has been idle for a minute and some still have not.
void drain(const Agent& agent, Gathering& group, Clock::time_point deadline);

}  // namespace tendril::rpc::detail
