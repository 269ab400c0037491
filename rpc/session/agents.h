#pragma once

#include <memory>
#include <vector>

namespace tendril::rpc {
class Agent;
}

namespace tendril::rpc::detail {

/// Lists an agent that is set up far enough for other threads to inspect it: it has its listener, which comes before
/// its first peer, or a peer. It is listed until it is shut down. The list does not own it.
void register_agent(const std::shared_ptr<Agent>& agent);
/// The agents of this process that have not been shut down, oldest first. Thread-safe.
std::vector<std::shared_ptr<Agent>> live_agents();

}  // namespace tendril::rpc::detail
