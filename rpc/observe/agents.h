#pragma once

#include <memory>
#include <vector>

namespace tendril::rpc {
class Agent;
}

namespace tendril::rpc::detail {

/// An agent that is set up far enough to be looked at by other threads: it has its listener, which comes before its
/// first peer, or a peer. From now on it is listed until it is shut down. It is not kept.
void note_agent(const std::shared_ptr<Agent>& agent);
/// The agents of this process that have not been shut down, oldest first. Thread-safe.
std::vector<std::shared_ptr<Agent>> live_agents();

}  // namespace tendril::rpc::detail
