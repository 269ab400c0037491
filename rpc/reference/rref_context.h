#pragma once

#include <exception>
#include <memory>

#include "tendril/rpc/call/rref_state.h"
#include "tendril/rpc/reference/rref_table.h"
#include "tendril/rpc/session/agent_listener.h"
#include "tendril/rpc/system/mutex.h"

namespace tendril::rpc {

class Agent;

/// The references of one agent. Connects the agent to its table (rref_table.h), which does no I/O. Thread-safe.
class RRefContext final : public AgentListener,
                          public RRefTable::Host,
                          public RRefHome,
                          public std::enable_shared_from_this<RRefContext> {
 public:
  /// Sets an agent up for references. To be called once, before the agent's first peer; init_rpc does this.
  static std::shared_ptr<RRefContext> attach(Agent& agent);
  /// Returns the context of an agent. Throws UsageError if `attach` was not called.
  static std::shared_ptr<RRefContext> of(const Agent& agent);

  explicit RRefContext(Agent& agent);

  /// Returns a handle to the agent, which stays usable while the agent is destroyed (Agent::share). Throws UsageError
  /// after the agent's shutdown.
  std::shared_ptr<Agent> agent() const;
  RRefTable& table() const noexcept { return *table_; }
  RRefCounters counters() const { return table_->counters(); }

  // RRefHome
  void user_dropped(const ForkId& fork) noexcept override { table_->released(fork); }

  // RRefTable::Host
  void send_control(WorkerId to, Bytes payload) noexcept override;
  RequestStatus withdraw_request(WorkerId from, uint64_t call_id) noexcept override;
  std::shared_ptr<RRefState> new_owner_state(const RRefId& id) override;
  std::shared_ptr<RRefState> new_user_state(const RRefId& id, const WorkerInfo& owner, const ForkId& fork) override;

  // AgentListener
  void peer_joined(const WorkerInfo& peer, uint64_t incarnation) override { table_->peer_joined(peer, incarnation); }
  void peer_lost(const WorkerInfo& peer, const std::exception_ptr& reason) override { table_->peer_lost(peer, reason); }
  void control_received(const WorkerInfo& from, Bytes payload) override { table_->control_received(from, payload); }
  void on_send(const WorkerInfo& to, Message& message) override { table_->on_send(to, message); }
  void message_not_sent(const WorkerInfo& to, MessageKind kind, uint64_t call_id) noexcept override {
    table_->message_not_sent(to, kind, call_id);
  }
  void message_arrived(const WorkerInfo& from, std::unique_ptr<ParkedMessage> parked) noexcept override {
    table_->message_arrived(from, std::move(parked));
  }
  void call_cancelled(const WorkerInfo& to, uint64_t call_id) noexcept override { table_->call_cancelled(to, call_id); }
  void agent_closing() noexcept override;
  bool awaits(const WorkerInfo& peer) const noexcept override { return table_->awaits(peer.id); }
  Clock::time_point on_timer(Clock::time_point now) noexcept override { return table_->on_timer(now); }

 private:
  std::shared_ptr<Agent> agent_or_null() const noexcept;

  const WorkerInfo self_;
  const Ref<Executor> executor_;  // outlives the agent
  mutable detail::Mutex mutex_;
  std::shared_ptr<Agent> agent_;      // null after the agent's shutdown, which breaks the cycle between the two
  std::shared_ptr<RRefTable> table_;  // holds this object as its host until the table is closed
};

}  // namespace tendril::rpc
