#include "tendril/dist/autograd/detail/transmitter.h"

#include <algorithm>

#include "tendril/rpc/error.h"

namespace tendril::dist::autograd::detail {

Transmitter::Transmitter(rpc::Agent& agent)
    : self_(agent.self()), executor_(&agent.executor()), agent_(agent.share()) {}

std::shared_ptr<rpc::Agent> Transmitter::agent() const noexcept {
  const std::lock_guard lock(mutex_);
  return agent_;
}

void Transmitter::close() noexcept {
  std::shared_ptr<rpc::Agent> agent;  // released without the lock
  const std::lock_guard lock(mutex_);
  agent.swap(agent_);
}

std::vector<rpc::WorkerInfo> Transmitter::peers() const {
  const auto agent = this->agent();
  return agent ? agent->peers() : std::vector<rpc::WorkerInfo>();
}

void Transmitter::send(rpc::WorkerId to, rpc::Message request, rpc::PendingCallRef call,
                       rpc::Clock::time_point deadline) {
  rpc::CallOptions options{.timeout = std::chrono::microseconds(0)};
  if (deadline != rpc::Clock::time_point::max()) {
    // At least 1, because 0 means no timeout.
    const auto left = std::chrono::duration_cast<std::chrono::microseconds>(deadline - rpc::Clock::now());
    options.timeout = std::max(left, std::chrono::microseconds(1));
  }
  const rpc::CallContextScope no_context{rpc::CallContext{}};
  try {
    const auto agent = this->agent();
    if (!agent) throw rpc::UsageError("worker '" + self_.name + "' has been shut down");
    agent->call(to, std::move(request), call, options);
  } catch (...) {
    call->fail(std::current_exception());
  }
}

}  // namespace tendril::dist::autograd::detail
