#pragma once

#include <memory>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

class Agent;

/// The agent that free functions (`rpc_sync(to, ...)`) act on: init_rpc sets it, shutdown clears it. Thread-safe.
/// Throws UsageError if there is none.
std::shared_ptr<Agent> default_agent();
/// The default agent or null.
std::shared_ptr<Agent> default_agent_or_null() noexcept;
/// Returns the one that was set before.
std::shared_ptr<Agent> set_default_agent(std::shared_ptr<Agent> agent) noexcept;

}  // namespace tendril::rpc

TENDRIL_API_END
