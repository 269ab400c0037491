#pragma once

#include <iosfwd>
#include <memory>
#include <ostream>
#include <utility>

#include "tendril/rpc/default_agent.h"
#include "tendril/rpc/reference/typed_call.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

namespace detail {

/// Returns a future of the fetch's outcome, or of the creation's error if that occurs first.
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

/// Whether F is a method of T, or of a base of T, that can be called with these arguments through an RRef<T>.
template <class T, auto F, class... Args>
concept CallableOn =
    RemoteMethod<F> && std::derived_from<T, typename detail::Signature<decltype(F)>::Class> && Callable<F, Args...>;

/// A remote reference to a T, which stays on one worker, its *owner*. Other workers that refer to it are its *users*.
/// Sending an RRef to a worker makes that worker a user too (a *fork*). The object lives as long as any live worker of
/// the group has an RRef to it. Copies within a process share one reference.
///
/// A value: copy it, send it, put it into containers. As thread-safe as a shared_ptr. T must be serializable only for
/// `to_here`. Methods of the object may run on several threads at the same time, so T must do its own locking.
///
/// Throws RRefError if the owner is lost, the reference was lost in transit, or its creation failed. The first use that
/// waits for the creation throws the error of the creation itself.
template <class T>
class RRef {
 public:
  using element_type = T;

  RRef() = default;  ///< an empty reference
  /// Moves `value` into a new object, which this worker owns.
  explicit RRef(detail::ObjectType<T> value) : RRef(*default_agent(), std::move(value)) {}
  RRef(Agent& agent, detail::ObjectType<T> value)
      : RRef(agent, std::make_shared<detail::ObjectType<T>>(std::move(value))) {}
  /// Refers to an object that this worker owns and that may also be used locally through the shared_ptr.
  explicit RRef(std::shared_ptr<detail::ObjectType<T>> object) : RRef(*default_agent(), std::move(object)) {}
  RRef(Agent& agent, std::shared_ptr<detail::ObjectType<T>> object) : state_(detail::make_owner(agent)) {
    detail::store(*state_, std::move(object));
  }
  /// For internal use, see `state_pointer`.
  static RRef from_state(std::shared_ptr<RRefState> state) noexcept {
    RRef rref;
    rref.state_ = std::move(state);
    return rref;
  }

  explicit operator bool() const noexcept { return state_ != nullptr; }  ///< whether it is not empty
  bool is_owner() const { return state().is_owner(); }                   ///< whether the object is on this worker
  const WorkerInfo& owner() const { return state().owner(); }            ///< the worker that has the object
  /// The name of the worker that has the object.
  const std::string& owner_name() const { return state().owner().name; }
  /// Whether the owner knows of this reference: true on the owner, and on every worker that received the reference.
  bool confirmed_by_owner() const { return is_owner() || (state().settled().done() && !state().failure()); }

  /// Returns a copy of the object; waits until the object exists. On the owner it costs as little as copying a T (a
  /// copied Tensor shares its elements).
  T to_here(const CallOptions& options = {}) const { return to_here_async(options).wait(); }
  /// Returns a future of a copy of the object.
  Future<T> to_here_async(const CallOptions& options = {}) const;
  /// Returns the object itself; waits until it exists. Only on the owner; elsewhere it throws UsageError, naming both
  /// workers.
  std::add_lvalue_reference_t<T> local_value() const {
    const auto object = local_object();
    if constexpr (!std::is_void_v<T>) return *static_cast<T*>(object.get());
  }
  /// Returns a shared pointer to the object itself; otherwise the same as local_value().
  std::shared_ptr<T> local_pointer() const { return std::static_pointer_cast<T>(local_object()); }

  /// Calls a method of the object on its owner, without using the network if this is the owner; returns the result.
  template <auto F, class... Args>
  requires CallableOn<T, F, Args...> ResultOf<F> rpc_sync(Args&&... arguments)
  const { return rpc_async<F>(CallOptions{}, std::forward<Args>(arguments)...).wait(); }
  template <auto F, class... Args>
  requires CallableOn<T, F, Args...> ResultOf<F> rpc_sync(const CallOptions& options, Args&&... arguments)
  const { return rpc_async<F>(options, std::forward<Args>(arguments)...).wait(); }
  /// Calls a method of the object on its owner; returns a Future of the result.
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
  /// Calls a method of the object on its owner, leaves the result there, and returns an RRef to it.
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
  /// The state that copies share; for internal use.
  const std::shared_ptr<RRefState>& state_pointer() const noexcept { return state_; }

 private:
  RRefState& state() const {
    if (!state_) throw UsageError("RRef: it is empty (default-constructed or moved from)");
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

/// Constructs a T on this worker, in place, and returns a reference to it.
template <class T, class... Args>
requires std::constructible_from<T, Args...> RRef<T> make_rref(Args&&... arguments) {
  return RRef<T>(*default_agent(), std::make_shared<T>(std::forward<Args>(arguments)...));
}
/// Does the same on a given agent's worker.
template <class T, class... Args>
requires std::constructible_from<T, Args...> RRef<T> make_rref(Agent& agent, Args&&... arguments) {
  return RRef<T>(agent, std::make_shared<T>(std::forward<Args>(arguments)...));
}

template <class T>
struct Serializer<RRef<T>> {
  /// Sends a fork of the reference.
  static void save(OutputArchive& archive, const RRef<T>& rref) {
    if (rref) rref.state_pointer()->passed_on();
    archive.reference(rref.state_pointer());
  }
  /// Reads a fork that has arrived.
  static void load(InputArchive& archive, RRef<T>& rref) { rref = RRef<T>::from_state(archive.reference()); }
};

}  // namespace tendril::rpc

TENDRIL_API_END
