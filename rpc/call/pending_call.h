#pragma once

#include <exception>
#include <type_traits>
#include <utility>

#include "tendril/rpc/threads/future_core.h"
#include "tendril/rpc/wire/message.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// A call that waits for its reply. The typed layer's call state derives from `FutureState<R>` and from this class, so
/// that a call needs one allocation. The agent calls exactly one of the two functions, once, on the thread that
/// received the reply (or noticed the failure).
class PendingCall {
 public:
  /// Takes the callee's result; for an error reply, `fail` is called instead. Must not throw: a reply that cannot be
  /// read completes the future with a MessageError.
  virtual void complete(Message&& reply) noexcept = 0;
  virtual void fail(std::exception_ptr error) noexcept = 0;

 protected:
  ~PendingCall() = default;
};

/// Owns a pending call through a reference to its future state.
class PendingCallRef {
 public:
  PendingCallRef() = default;
  template <class State>
  requires std::is_base_of_v<PendingCall, State> && std::is_base_of_v<FutureCore, State> PendingCallRef(
      Ref<State> state)
  noexcept : call_(state.get()), owner_(std::move(state)) {}

  PendingCall* operator->() const noexcept { return call_; }
  explicit operator bool() const noexcept { return owner_ != nullptr; }

 private:
  PendingCall* call_ = nullptr;
  Ref<FutureCore> owner_;
};

}  // namespace tendril::rpc

TENDRIL_API_END
