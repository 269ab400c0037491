#include "tendril/rpc/session/agents.h"

#include <algorithm>
#include <mutex>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/system/mutex.h"

namespace tendril::rpc::detail {
namespace {

struct AgentList {
  Mutex mutex;
  std::vector<std::weak_ptr<Agent>> agents;
};

AgentList& agent_list() {
  static auto* instance = new AgentList();  // outlives every static object that may hold an agent
  return *instance;
}

}  // namespace

void register_agent(const std::shared_ptr<Agent>& agent) {
  AgentList& list = agent_list();
  const std::lock_guard lock(list.mutex);
  std::erase_if(list.agents, [](const std::weak_ptr<Agent>& one) { return one.expired(); });
  const auto is_it = [&](const std::weak_ptr<Agent>& one) {
    return !one.owner_before(agent) && !agent.owner_before(one);  // not by lock(), which may make this the last owner
  };
  if (std::none_of(list.agents.begin(), list.agents.end(), is_it)) list.agents.push_back(agent);
}

std::vector<std::shared_ptr<Agent>> live_agents() {
  std::vector<std::shared_ptr<Agent>> live;
  {
    AgentList& list = agent_list();
    const std::lock_guard lock(list.mutex);
    for (const auto& one : list.agents) {
      if (auto agent = one.lock()) live.push_back(std::move(agent));
    }
  }
  std::erase_if(live, [](const std::shared_ptr<Agent>& agent) { return agent->has_shut_down(); });
  return live;
}

}  // namespace tendril::rpc::detail
