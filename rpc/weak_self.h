#pragma once

#include <memory>

#include "tendril/rpc/call/rref_state.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

template <class T>
class RRef;

/// A base class for objects that pass out RRefs to themselves, like std::enable_shared_from_this for shared pointers:
///
///     class Agent : public rpc::WeakSelf<Agent> {
///       void start() { observer.rpc_async<&Observer::run>(weak_self()); }
///     };
///
/// The object holds itself only weakly, so that no cycle keeps it alive. `weak_self` works once an RRef owns the
/// object. For objects made by `rpc::remote<T>` and `rpc::make_rref<T>`, that is after their constructor.
template <class T>
class WeakSelf {
 public:
  /// Returns an RRef to this object. Throws RRefError if no RRef owns the object, yet or any more.
  RRef<T> weak_self() const;

  /// Called when an RRef becomes the owner of the object.
  void set_self(const std::shared_ptr<RRefState>& state) noexcept { self_ = state; }

 protected:
  WeakSelf() = default;
  // A copy is a different object, to which the original's references do not refer.
  WeakSelf(const WeakSelf&) noexcept {}
  WeakSelf& operator=(const WeakSelf&) noexcept { return *this; }
  ~WeakSelf() = default;

 private:
  std::weak_ptr<RRefState> self_;
};

namespace detail {
template <class T>
void attach_self(T* object, RRefState& state) {
  if constexpr (requires { object->set_self(state.shared_from_this()); }) {
    object->set_self(state.shared_from_this());
  } else {
    (void)object, (void)state;
  }
}
}  // namespace detail
}  // namespace tendril::rpc

TENDRIL_API_END
