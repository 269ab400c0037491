#include "tendril/rpc/call_context.h"

#include <utility>

namespace tendril::rpc {

CallContext& CallContext::current() noexcept {
  thread_local CallContext context;
  return context;
}

CallContextScope::CallContextScope(CallContext context) noexcept
    : previous_(std::exchange(CallContext::current(), std::move(context))) {}

CallContextScope::~CallContextScope() { CallContext::current() = std::move(previous_); }

}  // namespace tendril::rpc
