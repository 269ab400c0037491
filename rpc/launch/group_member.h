#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/launch/group_key.h"
#include "tendril/rpc/launch/group_settings.h"
#include "tendril/rpc/launch/membership.h"
#include "tendril/rpc/launch/rendezvous_service.h"
#include "tendril/rpc/observe/group_trace.h"
#include "tendril/rpc/observe/log.h"
#include "tendril/rpc/observe/metrics_server.h"
#include "tendril/rpc/observe/status_signal.h"
#include "tendril/rpc/reference/rref_context.h"

namespace tendril::rpc::detail {

/// What a phase of joining or leaving has at least, however late it begins: its work takes some messages, and handlers
/// some time to notice that they are to end.
inline constexpr std::chrono::milliseconds kLeastPhase{1000};

/// What makes up one worker of a group. Made by `start_agent` and `join` (joining.h) step by step, ended by leaving.h;
/// empty until then, and for good where that step failed.
struct GroupMember {
  std::shared_ptr<Agent> agent;
  std::shared_ptr<RRefContext> references;
  std::vector<WorkerInfo> workers;  ///< all of the group, by rank
  std::optional<MetricsServer> metrics;
  std::optional<StatusSignal> status_signal;
  GroupTrace trace;
  std::shared_ptr<RendezvousService> service;  ///< rank 0's
  std::shared_ptr<Membership> membership;

  /// "rpc: worker 'ps' TEXT"
  void note(LogLevel level, const std::string& text) const noexcept;
};

/// Makes the agent and what belongs to it, by the options and the environment; then whatever extends agents
/// (extend_agents, InitOptions::prepare). Nobody can call it yet.
void start_agent(GroupMember& member, const GroupSettings& settings, const InitOptions& options,
                 const GivenProof& given, const std::string& group);

}  // namespace tendril::rpc::detail
