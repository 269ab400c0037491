#pragma once

#include <iosfwd>
#include <memory>
#include <ostream>
#include <utility>

#include "tendril/rpc/call/typed_call.h"
#include "tendril/rpc/default_agent.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

namespace detail {

/// The outcome of a fetch, or the creation's error if that comes first.
template <class T>
Future<T> first_of_creation_and(const std::shared_ptr<RRefState>& state, const Future<T>& fetched) {
  const Ref<FutureState<T>> result(new FutureState<T>(fetched.state()->executor()));
  fetched.then([result, state](Future<T> done) {
    if (const std::exception_ptr& error = done.state()->error()) {
      const std::exception_ptr failure = state->failure();
      result->try_set_error(failure ? failure : error);
    } else {
      result->try_set_value(std::move(done.state()->value()));
    }
  });
  state->settled().then([result](Future<void> settled) {
    if (settled.has_error()) result->try_set_error(settled.state()->error());
  });
  return Future<T>(result);
}

}  // namespace detail

/// F can be called with these arguments on the object that an RRef<T> refers to: it is a method of T or of a base.
template <class T, auto F, class... Args>
concept CallableOn =
    RemoteMethod<F> && std::derived_from<T, typename detail::Signature<decltype(F)>::Class> && Callable<F, Args...>;

/// A reference to a T that stays where it is: with its *owner*, the worker that holds the object. Others are its
/// *users*. Sending an RRef to a worker makes that one a user too (a *fork*); the object lives as long as an RRef to it
/// exists anywhere in the group, on a worker that is alive. Copies within a process share one hold.
///
/// A value: copy it, send it, put it into containers. Thread-safe as a shared_ptr is. T need be serialisable only for
/// `to_here`; methods of the object may run at the same time on several threads: their author locks.
///
/// Errors: RRefError for a reference whose owner is lost, that was lost on its way, or whose creation failed; what went
/// wrong in the creation is thrown by the first use that waits for it.
template <class T>
class RRef {
 public:
  using element_type = T;

  RRef() = default;  ///< refers to nothing
  /// A reference to `value`, which this worker owns from now on.
  explicit RRef(detail::ObjectType<T> value) : RRef(*default_agent(), std::move(value)) {}
  RRef(Agent& agent, detail::ObjectType<T> value)
      : RRef(agent, std::make_shared<detail::ObjectType<T>>(std::move(value))) {}
  /// A reference to an object that others on this worker may share.
  explicit RRef(std::shared_ptr<detail::ObjectType<T>> object) : RRef(*default_agent(), std::move(object)) {}
  RRef(Agent& agent, std::shared_ptr<detail::ObjectType<T>> object) : state_(detail::make_owner(agent)) {
    detail::store(*state_, std::move(object));
  }
  /// For the library's own use, as `state_pointer`.
  static RRef from_state(std::shared_ptr<RRefState> state) noexcept {
    RRef rref;
    rref.state_ = std::move(state);
    return rref;
  }

  explicit operator bool() const noexcept { return state_ != nullptr; }  ///< whether it refers to anything
  bool is_owner() const { return state().is_owner(); }                   ///< whether the object is on this worker
  const WorkerInfo& owner() const { return state().owner(); }            ///< the worker that has the object
  /// The name of the worker that has the object.
  const std::string& owner_name() const { return state().owner().name; }
  /// Whether the owner knows of this reference: true on the owner, and wherever the reference was received.
  bool confirmed_by_owner() const { return is_owner() || (state().settled().done() && !state().failure()); }

  /// A copy of the object; waits until it exists. On the owner as cheap as copying a T (a Tensor shares its elements).
  T to_here(const CallOptions& options = {}) const { return to_here_async(options).wait(); }
  /// A copy of the object, when it has come.
  Future<T> to_here_async(const CallOptions& options = {}) const;
  /// The object itself; waits until it exists. On the owner only: UsageError elsewhere, naming both workers.
  std::add_lvalue_reference_t<T> local_value() const {
    const auto object = local_object();
    if constexpr (!std::is_void_v<T>) return *static_cast<T*>(object.get());
  }
  /// The object itself, shared.
  std::shared_ptr<T> local_pointer() const { return std::static_pointer_cast<T>(local_object()); }

  /// Calls a method on the owner, here without a detour over the wire if this is the owner; returns its result.
  template <auto F, class... Args>
  requires CallableOn<T, F, Args...> ResultOf<F> rpc_sync(Args&&... arguments)
  const { return rpc_async<F>(CallOptions{}, std::forward<Args>(arguments)...).wait(); }
  template <auto F, class... Args>
  requires CallableOn<T, F, Args...> ResultOf<F> rpc_sync(const CallOptions& options, Args&&... arguments)
  const { return rpc_async<F>(options, std::forward<Args>(arguments)...).wait(); }
  /// Calls a method of the object where it is: a Future of the result.
  template <auto F, class... Args>
  requires CallableOn<T, F, Args...> Future<ResultOf<F>> rpc_async(Args&&... arguments)
  const { return rpc_async<F>(CallOptions{}, std::forward<Args>(arguments)...); }
  template <auto F, class... Args>
  requires CallableOn<T, F, Args...> Future<ResultOf<F>> rpc_async(const CallOptions& options, Args&&... arguments)
  const {
    const auto agent = detail::agent_of(state());
    return detail::start_call<detail::Method<T, F>, ResultOf<F>>(*agent, state().owner().id, options, state_,
                                                                 std::forward<Args>(arguments)...);
  }
  /// As `rpc_async`, and the result stays on the owner.
  template <auto F, class... Args>
  requires CallableOn<T, F, Args...> RRef<detail::StoredType<ResultOf<F>>> remote(Args&&... arguments)
  const { return remote<F>(CallOptions{}, std::forward<Args>(arguments)...); }
  template <auto F, class... Args>
  requires CallableOn<T, F, Args...> RRef<detail::StoredType<ResultOf<F>>> remote(const CallOptions& options,
                                                                                  Args&&... arguments)
  const {
    const auto agent = detail::agent_of(state());
    return RRef<detail::StoredType<ResultOf<F>>>::from_state(detail::start_creation<detail::CreatingMethod<T, F>>(
        *agent, state().owner().id, options, state_, std::forward<Args>(arguments)...));
  }

  /// Rejects arguments that the method does not accept.
  template <auto F, class... Args>
  requires RemoteMethod<F> && CannotBeCalledWith<F, Args...> ResultOf<F> rpc_sync(Args&&...)
  const = delete;
  template <auto F, class... Args>
  requires RemoteMethod<F> && CannotBeCalledWith<F, Args...> Future<ResultOf<F>> rpc_async(Args&&...)
  const = delete;
  template <auto F, class... Args>
  requires RemoteMethod<F> && CannotBeCalledWith<F, Args...> RRef<detail::StoredType<ResultOf<F>>> remote(Args&&...)
  const = delete;

  /// Whether both refer to the same object.
  friend bool operator==(const RRef& a, const RRef& b) noexcept {
    return a.state_ == b.state_ || (a.state_ && b.state_ && a.state_->id() == b.state_->id());
  }
  friend std::ostream& operator<<(std::ostream& out, const RRef& rref) {
    return rref.state_ ? out << *rref.state_ : out << "RRef to nothing";
  }
  /// What the copies share; for the library's own use.
  const std::shared_ptr<RRefState>& state_pointer() const noexcept { return state_; }

 private:
  RRefState& state() const {
    if (!state_) throw UsageError("RRef: it refers to nothing (default-constructed or moved from)");
    return *state_;
  }
  std::shared_ptr<void> local_object() const {
    detail::check_owner(state());
    state().settled().wait();
    return state().object(typeid(detail::ObjectType<T>));
  }

  std::shared_ptr<RRefState> state_;
};

template <class T>
RRef(T) -> RRef<T>;
template <class T>
RRef(std::shared_ptr<T>) -> RRef<T>;
template <class T>
RRef(Agent&, T) -> RRef<T>;
template <class T>
RRef(Agent&, std::shared_ptr<T>) -> RRef<T>;

template <class T>
Future<T> RRef<T>::to_here_async(const CallOptions& options) const {
  const auto agent = detail::agent_of(state());
  if (is_owner()) {
    return state().settled().then([state = state_](Future<void>) -> T {
      const auto object = state->object(typeid(detail::ObjectType<T>));
      if constexpr (!std::is_void_v<T>) return *static_cast<const T*>(object.get());
    });
  }
  if (const std::exception_ptr failure = state().failure()) return make_error_future<T>(failure);
  Future<T> fetched = detail::start_call<detail::Fetch<T>, T>(*agent, state().owner().id, options, state_);
  return confirmed_by_owner() ? fetched : detail::first_of_creation_and<T>(state_, std::move(fetched));
}

template <class T>
RRef<T> WeakSelf<T>::weak_self() const {
  if (auto state = self_.lock()) return RRef<T>::from_state(std::move(state));
  throw RRefError(
      "weak_self: no RRef owns this object; make it with rpc::remote or rpc::make_rref, and call weak_self "
      "after its constructor");
}

/// Makes a T here, in place, and returns a reference to it.
template <class T, class... Args>
requires std::constructible_from<T, Args...> RRef<T> make_rref(Args&&... arguments) {
  return RRef<T>(*default_agent(), std::make_shared<T>(std::forward<Args>(arguments)...));
}
/// As above, of another agent than the default one.
template <class T, class... Args>
requires std::constructible_from<T, Args...> RRef<T> make_rref(Agent& agent, Args&&... arguments) {
  return RRef<T>(agent, std::make_shared<T>(std::forward<Args>(arguments)...));
}

template <class T>
struct Serializer<RRef<T>> {
  /// As a fork of the reference.
  static void save(OutputArchive& archive, const RRef<T>& rref) { archive.reference(rref.state_pointer()); }
  /// Of a fork that has come.
  static void load(InputArchive& archive, RRef<T>& rref) { rref = RRef<T>::from_state(archive.reference()); }
};

}  // namespace tendril::rpc

TENDRIL_API_END
