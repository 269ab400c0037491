#include "tendril/rpc/default_agent.h"

#include <atomic>

#include "tendril/rpc/error.h"
#include "tendril/tensor/detail/switched_variable.h"

namespace tendril::rpc {
namespace {

std::atomic<std::shared_ptr<Agent>>& slot() {
  static auto* agent = new std::atomic<std::shared_ptr<Agent>>();  // never destroyed: static objects may make calls
  return *agent;
}
const auto default_agent_switched = tendril::detail::of_each_process([]() -> auto& { return slot(); });

}  // namespace

std::shared_ptr<Agent> default_agent() {
  if (auto agent = default_agent_or_null()) return agent;
  throw UsageError("RPC has not been initialised: call rpc::init_rpc first (or it has been shut down)");
}

std::shared_ptr<Agent> default_agent_or_null() noexcept { return slot().load(); }

std::shared_ptr<Agent> set_default_agent(std::shared_ptr<Agent> agent) noexcept {
  return slot().exchange(std::move(agent));
}

}  // namespace tendril::rpc
