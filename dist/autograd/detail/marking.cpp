// The marking of a pass: finds the send nodes that the roots depend on (docs/distributed_autograd.md).
#include "tendril/dist/autograd/detail/pass.h"

namespace tendril::dist::autograd::detail {

bool Pass::is_marked(MessageId message) const {
  const std::lock_guard lock(mutex_);
  return protocol_.is_marked(message);
}

void Pass::walk_sends(const std::vector<MessageId>& messages) {
  std::vector<RemoteEdge> reached;
  std::exception_ptr error;
  try {
    const auto traced = trace_.slice(rpc::detail::TraceSpan::Kind::walk);
    reached = graph_.walk_sends(messages);
  } catch (const AutogradError&) {
    error = std::current_exception();
  }
  walked(reached, error);
}

void Pass::walk_roots() {
  std::vector<RemoteEdge> reached;
  {
    const auto traced = trace_.slice(rpc::detail::TraceSpan::Kind::walk);
    reached = graph_.walk_roots();
  }
  walked(reached, nullptr);
}

void Pass::walked(const std::vector<RemoteEdge>& reached, const std::exception_ptr& error) {
  Lock lock(mutex_);
  if (error) fail_locked(error);
  protocol_.walked(reached);
  act(lock);
}

}  // namespace tendril::dist::autograd::detail
