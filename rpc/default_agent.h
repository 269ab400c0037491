#pragma once

#include <memory>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

class Agent;

/// Returns the agent that the free functions (`rpc_sync(to, ...)`) use. init_rpc sets it, and shutdown clears it.
/// Thread-safe. Throws UsageError if it is not set.
std::shared_ptr<Agent> default_agent();
/// Returns the default agent, or null if it is not set.
std::shared_ptr<Agent> default_agent_or_null() noexcept;
/// Sets the default agent, and returns the previous one.
std::shared_ptr<Agent> set_default_agent(std::shared_ptr<Agent> agent) noexcept;

}  // namespace tendril::rpc

TENDRIL_API_END
