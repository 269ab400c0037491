#include "tendril/rpc/call_context.h"

#include <utility>

#include "tendril/tensor/detail/switched_variable.h"

namespace tendril::rpc {

CallContext& CallContext::current() noexcept {
  thread_local CallContext context;
  return context;
}

namespace {
const auto call_context_switched = tendril::detail::of_each_thread([]() -> auto& { return CallContext::current(); });
}

CallContextScope::CallContextScope(CallContext context) noexcept
    : previous_(std::exchange(CallContext::current(), std::move(context))) {}

CallContextScope::~CallContextScope() { CallContext::current() = std::move(previous_); }

}  // namespace tendril::rpc
