#include "tendril/rpc/group/group_member.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "tendril/rpc/call/function.h"
#include "tendril/rpc/system/mutex.h"

namespace tendril::rpc {

namespace {

struct Extensions {
  detail::Mutex mutex;
  std::vector<void (*)(Agent&)> functions;
};

Extensions& extensions() {
  static auto* instance = new Extensions();  // filled before main, in no particular order
  return *instance;
}

std::vector<void (*)(Agent&)> agent_extensions() {
  const std::lock_guard lock(extensions().mutex);
  return extensions().functions;
}

}  // namespace

bool extend_agents(void (*extend)(Agent&)) {
  const std::lock_guard lock(extensions().mutex);
  auto& functions = extensions().functions;
  if (std::find(functions.begin(), functions.end(), extend) == functions.end()) functions.push_back(extend);
  return true;
}

namespace detail {

void GroupMember::note(LogLevel level, const std::string& text) const noexcept {
  if (!logs(level)) return;
  const std::string& name = agent->self().name;
  log(level, name, "rpc: worker '" + name + "' " + text);
}

void start_agent(GroupMember& member, const GroupSettings& settings, const InitOptions& options,
                 const Credentials& given, const std::string& group) {
  AgentOptions completed = options.agent;
  completed.name = settings.self.name;
  completed.rank = settings.self.id;
  completed.world_size = settings.world_size;
  completed.group = group;
  completed.key = given.key;
  completed.tls = given.tls;
  completed.num_worker_threads = options.num_worker_threads;
  completed.rpc_timeout = options.rpc_timeout;
  completed.device_maps = options.device_maps;
  TENDRIL_CHECK_AS(UsageError, detail::simulator == nullptr || !given.tls,
                   "init_rpc: TLS certificates are not simulated, use real processes");
  const int port = metrics_port(options.metrics_port, settings.self.id, std::getenv);
  TENDRIL_CHECK_AS(UsageError, detail::simulator == nullptr || port < 0,
                   "init_rpc: metrics are not simulated, unset metrics_port and TENDRIL_METRICS_PORT");
  member.agent = std::make_shared<Agent>(std::move(completed), served_functions());
  member.references = RRefContext::attach(*member.agent);
  if (options.status_signal && detail::simulator == nullptr) member.status_signal.emplace();
  member.trace.start(*member.agent, options.trace, group);
  if (port >= 0) member.metrics.emplace(member.agent->share(), port);
  for (const auto extend : agent_extensions()) extend(*member.agent);
  if (options.prepare) options.prepare(member.agent);
}

}  // namespace detail
}  // namespace tendril::rpc
