#pragma once

#include <memory>

#include "tendril/rpc/reference/rref_state.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

template <class T>
class RRef;

/// A base for objects that hand out references to themselves, as std::enable_shared_from_this is for shared pointers:
///
///     class Agent : public rpc::WeakSelf<Agent> {
///       void start() { observer.rpc_async<&Observer::run>(weak_self()); }
///     };
///
/// The object holds itself only weakly, so that no cycle keeps it alive. Works once the object is owned by an RRef:
/// after its constructor, for objects made by `rpc::remote<T>` and `rpc::make_rref<T>`.
template <class T>
class WeakSelf {
 public:
  /// Throws RRefError if no RRef owns this object (yet, or any more).
  RRef<T> weak_self() const;

  /// Called where an RRef takes the object over.
  void set_self(const std::shared_ptr<RRefState>& state) noexcept { self_ = state; }

 protected:
  WeakSelf() = default;
  // A copy is another object: it is not what the original's references refer to.
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
