#pragma once

#include <memory>
#include <utility>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/session/session.h"
#include "tendril/rpc/threads/recycled.h"

namespace tendril::rpc::detail {

/// One request on its way through the queue, the handler and the reply. It is also the pool's job, so that a request
/// needs one allocation.
struct InboundState final : Job, Recycled {
  InboundState(std::shared_ptr<Session> s, Message&& r, const ServedFunction* f, LazyStopToken stop,
               Clock::time_point now);
  ~InboundState() override;
  /// Called when the request is started or dropped. Returns its credit to the peer, once.
  void begin() noexcept { session->started(std::exchange(cost, 0)); }
  void run(std::unique_ptr<Job> self) noexcept override;
  std::chrono::nanoseconds likely_time() const noexcept override;
  int level() const noexcept override;
  JobSource* source() const noexcept override { return &session->requests(); }
  CallOrigin origin() const noexcept override { return context.origin; }

  std::shared_ptr<Session> session;
  Agent::Impl* agent;  // kept alive by the session
  Message request;
  uint64_t call_id = 0;
  const ServedFunction* function = nullptr;
  CallContext context;
  uint64_t cost = 0;             // for flow control; 0 once started
  Clock::time_point begun = {};  // when the handler began, if the agent records a trace
};

}  // namespace tendril::rpc::detail
