#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/group/group_key.h"
#include "tendril/rpc/group/group_settings.h"
#include "tendril/rpc/group/membership.h"
#include "tendril/rpc/group/rendezvous_service.h"
#include "tendril/rpc/observe/group_trace.h"
#include "tendril/rpc/observe/metrics_server.h"
#include "tendril/rpc/observe/status_signal.h"
#include "tendril/rpc/reference/rref_context.h"
#include "tendril/rpc/system/log.h"

namespace tendril::rpc::detail {

/// The minimum time for a phase of joining or leaving, however late the phase begins. Its messages, and handlers that
/// must notice that they are to end, need this time.
inline constexpr std::chrono::milliseconds kMinPhaseTime{1000};

/// The parts of one worker of a group. `start_agent` and `join` (joining.h) create them step by step, and leaving.h
/// ends them. A part is empty until its step has succeeded.
struct GroupMember {
  std::shared_ptr<Agent> agent;
  std::shared_ptr<RRefContext> references;
  std::vector<WorkerInfo> workers;  ///< all workers of the group, by rank
  std::optional<MetricsServer> metrics;
  std::optional<StatusSignal> status_signal;
  GroupTrace trace;
  std::shared_ptr<RendezvousService> service;  ///< only at rank 0
  std::shared_ptr<Membership> membership;

  /// "rpc: worker 'ps' TEXT"
  void note(LogLevel level, const std::string& text) const noexcept;
};

/// Creates the agent and its parts according to the options and the environment, then runs the functions that extend
/// agents (extend_agents, InitOptions::prepare). Other workers cannot call the agent yet.
void start_agent(GroupMember& member, const GroupSettings& settings, const InitOptions& options,
                 const Credentials& given, const std::string& group);

}  // namespace tendril::rpc::detail
