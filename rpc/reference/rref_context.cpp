#include "tendril/rpc/reference/rref_context.h"

#include "tendril/rpc/agent.h"
#include "tendril/rpc/error.h"

namespace tendril::rpc {

RRefContext::RRefContext(Agent& agent) : self_(agent.self()), executor_(&agent.executor()), agent_(agent.share()) {}

std::shared_ptr<RRefContext> RRefContext::attach(Agent& agent) {
  auto context = std::make_shared<RRefContext>(agent);
  context->table_ = std::make_shared<RRefTable>(agent.self(), agent.incarnation(), context);
  agent.set_listener(context);
  return context;
}

std::shared_ptr<RRefContext> RRefContext::of(const Agent& agent) {
  if (auto context = std::dynamic_pointer_cast<RRefContext>(agent.listener())) return context;
  throw UsageError("worker '" + agent.self().name + "' has no references: RRefContext::attach was not called");
}

std::shared_ptr<Agent> RRefContext::agent_or_null() const noexcept {
  const std::lock_guard lock(mutex_);
  return agent_;
}

std::shared_ptr<Agent> RRefContext::agent() const {
  if (auto agent = agent_or_null()) return agent;
  throw UsageError("RRef: its agent has been shut down");
}

void RRefContext::send_control(WorkerId to, Bytes payload) noexcept {
  try {
    if (const auto agent = agent_or_null()) agent->send_control(to, std::move(payload));
  } catch (const std::bad_alloc&) {  // ControlChannel sends the records again
  }
}

RequestStatus RRefContext::withdraw_request(WorkerId from, uint64_t call_id) noexcept {
  const auto agent = agent_or_null();
  return agent ? agent->withdraw_request(from, call_id) : RequestStatus::answered;
}

// The table's lock is held. add_peer takes it while it holds the agent's lock, so this must not call the agent.
std::shared_ptr<RRefState> RRefContext::new_owner_state(const RRefId& id) {
  return std::make_shared<RRefState>(id, self_, weak_from_this(), executor_.get());
}

std::shared_ptr<RRefState> RRefContext::new_user_state(const RRefId& id, const WorkerInfo& owner, const ForkId& fork) {
  return std::make_shared<RRefState>(id, owner, fork, weak_from_this(), executor_.get());
}

void RRefContext::agent_closing() noexcept {
  std::shared_ptr<Agent> agent;  // released without the lock
  {
    const std::lock_guard lock(mutex_);
    agent.swap(agent_);
  }
  table_->close();
}

namespace detail {

std::shared_ptr<Agent> agent_of(const RRefState& state) {
  const auto context = std::static_pointer_cast<RRefContext>(state.home().lock());
  if (!context) throw UsageError("RRef: its agent is gone");
  return context->agent();
}

std::shared_ptr<RRefState> make_owner(Agent& agent) { return RRefContext::of(agent)->table().make_owner(); }

void check_owner(const RRefState& state) {
  if (state.is_owner()) return;
  std::string here = "this worker";
  if (const auto home = std::static_pointer_cast<RRefContext>(state.home().lock())) {
    try {
      here = "'" + home->agent()->self().name + "'";
    } catch (const UsageError&) {
    }
  }
  throw UsageError("RRef: local_value() on " + here + ", but the object is on its owner '" + state.owner().name +
                   "': call to_here() for a copy, or a method through the RRef");
}

}  // namespace detail
}  // namespace tendril::rpc
