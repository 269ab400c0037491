#include "tendril/dist/autograd/detail/transmitter.h"

#include <algorithm>

#include "tendril/rpc/error.h"

namespace tendril::dist::autograd::detail {

std::vector<rpc::WorkerInfo> Transmitter::peers() const {
  const rpc::Agent* agent = agent_.load(std::memory_order_acquire);
  return agent ? agent->peers() : std::vector<rpc::WorkerInfo>();
}

void Transmitter::send(rpc::WorkerId to, rpc::Message request, rpc::PendingCallRef call,
                       rpc::Clock::time_point deadline) {
  rpc::CallOptions options{.timeout = std::chrono::microseconds(0)};
  if (deadline != rpc::Clock::time_point::max()) {
    // Not 0, which would be none.
    const auto left = std::chrono::duration_cast<std::chrono::microseconds>(deadline - rpc::Clock::now());
    options.timeout = std::max(left, std::chrono::microseconds(1));
  }
  const rpc::CallContextScope no_context{rpc::CallContext{}};
  try {
    rpc::Agent* const agent = agent_.load(std::memory_order_acquire);
    if (!agent) throw rpc::UsageError("worker '" + self_.name + "' has been shut down");
    agent->call(to, std::move(request), call, options);
  } catch (...) {
    call->fail(std::current_exception());
  }
}

}  // namespace tendril::dist::autograd::detail
