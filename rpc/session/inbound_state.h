#pragma once

#include <memory>
#include <utility>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/call/recycled.h"
#include "tendril/rpc/session/session.h"

namespace tendril::rpc::detail {

/// One request on its way through queue, handler and reply. Also the pool's job: one allocation a request.
struct InboundState final : Job, Recycled {
  InboundState(std::shared_ptr<Session> s, Message&& r, const ServedFunction* f, LazyStopToken stop,
               Clock::time_point now);
  ~InboundState() override;
  /// It is started, or dropped: gives its credit back, once.
  void begin() noexcept { session->started(std::exchange(cost, 0)); }
  void run(std::unique_ptr<Job> self) noexcept override;
  std::chrono::nanoseconds likely_time() const noexcept override;
  int level() const noexcept override;
  JobSource* source() const noexcept override { return &session->requests(); }
  CallOrigin origin() const noexcept override { return context.origin; }

  std::shared_ptr<Session> session;
  Agent::Impl* agent;  // the session keeps it
  Message request;
  uint64_t call_id = 0;
  const ServedFunction* function = nullptr;
  CallContext context;
  uint64_t cost = 0;             // of flow control, until it is started
  Clock::time_point begun = {};  // the handler
};

}  // namespace tendril::rpc::detail
