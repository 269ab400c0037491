#pragma once

#include "tendril/rpc/agent.h"

namespace tendril::rpc::detail {

/// Implements Agent::connect. Blocks the calling thread, but not the loop.
void connect(Agent::Impl& agent, const WorkerInfo& peer, const Agent::Endpoint& endpoint, Clock::time_point deadline);

}  // namespace tendril::rpc::detail
