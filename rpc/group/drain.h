#pragma once

#include <chrono>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/group/gathering.h"

namespace tendril::rpc::detail {

/// Waits until no call is in transit or running anywhere in the group, including nested and follow-up calls. All
/// workers must call it. In each round, every worker waits until it is idle; then all compare the numbers of requests
/// that they have sent and received. It returns when all workers were idle in two successive rounds with the same
/// numbers, and as many requests were received as sent: the four counters of F. Mattern, "Algorithms for distributed
/// termination detection", 1987. When a connection ends, the requests that it carried no longer count at either end. If
/// only one side has noticed the end, the other side replaces its connection between two rounds, and so notices it too.
///
/// Throws TimeoutError at the deadline, with what keeps this worker busy or with the number of requests that have not
/// arrived. Without a deadline, throws it when all workers have been idle for a minute and requests still have not
/// arrived.
void drain(const Agent& agent, Gathering& group, Clock::time_point deadline);

}  // namespace tendril::rpc::detail
