#pragma once

#include <type_traits>
#include <utility>

#include "tendril/rpc/default_agent.h"
#include "tendril/rpc/reference/typed_call.h"
#include "tendril/rpc/rref.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// Calls functions on other workers, or on this one:
///
///     Tensor y = rpc::rpc_sync<&forward>("ps", x);                        // waits for the result
///     rpc::Future<Tensor> f = rpc::rpc_async<&forward>("ps", x);          // returns a Future of the result
///     rpc::RRef<Tensor> r = rpc::remote<&forward>("ps", x);               // leaves the result on "ps"
///     rpc::RRef<Observer> o = rpc::remote<Observer>("obs1", seed);        // constructs an object on "obs1"
///     rpc::rpc_sync<&forward>("ps", {.timeout = std::chrono::seconds(5)}, x);
///
/// The function is a template argument, so the compiler checks the call, and naming the function makes this program
/// serve it too. `to` is a worker's name, its rank or its WorkerInfo. Arguments are converted to the parameter types
/// and copied before the call returns. The elements of tensors are not copied: do not change them until the call has
/// ended, with a result or an error. If the function returns a Future<R> or Task<R>, the caller gets an R.
///
/// If you drop the future, the call continues. If the call then fails, its error is printed to stderr and counted;
/// unread_error.h lets you set another handler.
///
/// The wait for the result throws RemoteError (the function threw), TimeoutError, PeerLostError, CancelledError,
/// UnknownFunctionError or MessageError. The call itself throws UsageError (no such worker, before init_rpc, after
/// shutdown) or MessageError (arguments that cannot be sent).
namespace tendril::rpc {

namespace detail {
template <class R, class... P>
R result_of_type(R (*)(P...));
template <class Function>
using ResultOfType = decltype(result_of_type(static_cast<Function*>(nullptr)));
}  // namespace detail

/// Calls F on worker `to` and returns a Future of its result; see the top of this file.
template <auto F, class... Args>
requires RemoteFunction<F> && Callable<F, Args...> Future<ResultOf<F>> rpc_async(Agent& agent, const Destination& to,
                                                                                 const CallOptions& options,
                                                                                 Args&&... arguments) {
  return detail::start_call<detail::FreeFunction<F>, ResultOf<F>>(agent, to.resolve(agent), options, nullptr,
                                                                  std::forward<Args>(arguments)...);
}
template <auto F, class... Args>
requires RemoteFunction<F> && Callable<F, Args...> Future<ResultOf<F>> rpc_async(Agent& agent, const Destination& to,
                                                                                 Args&&... arguments) {
  return rpc_async<F>(agent, to, CallOptions{}, std::forward<Args>(arguments)...);
}
template <auto F, class... Args>
requires RemoteFunction<F> && Callable<F, Args...> Future<ResultOf<F>> rpc_async(const Destination& to,
                                                                                 const CallOptions& options,
                                                                                 Args&&... arguments) {
  return rpc_async<F>(*default_agent(), to, options, std::forward<Args>(arguments)...);
}
template <auto F, class... Args>
requires RemoteFunction<F> && Callable<F, Args...> Future<ResultOf<F>> rpc_async(const Destination& to,
                                                                                 Args&&... arguments) {
  return rpc_async<F>(*default_agent(), to, CallOptions{}, std::forward<Args>(arguments)...);
}

/// Calls F on worker `to` and waits for the result.
template <auto F, class... Args>
requires RemoteFunction<F> && Callable<F, Args...> ResultOf<F> rpc_sync(Agent& agent, const Destination& to,
                                                                        const CallOptions& options,
                                                                        Args&&... arguments) {
  return rpc_async<F>(agent, to, options, std::forward<Args>(arguments)...).wait();
}
template <auto F, class... Args>
requires RemoteFunction<F> && Callable<F, Args...> ResultOf<F> rpc_sync(Agent& agent, const Destination& to,
                                                                        Args&&... arguments) {
  return rpc_async<F>(agent, to, CallOptions{}, std::forward<Args>(arguments)...).wait();
}
template <auto F, class... Args>
requires RemoteFunction<F> && Callable<F, Args...> ResultOf<F> rpc_sync(const Destination& to,
                                                                        const CallOptions& options,
                                                                        Args&&... arguments) {
  return rpc_async<F>(*default_agent(), to, options, std::forward<Args>(arguments)...).wait();
}
template <auto F, class... Args>
requires RemoteFunction<F> && Callable<F, Args...> ResultOf<F> rpc_sync(const Destination& to, Args&&... arguments) {
  return rpc_async<F>(*default_agent(), to, CallOptions{}, std::forward<Args>(arguments)...).wait();
}

/// Rejects arguments that F does not accept.
template <auto F, class... Args>
requires RemoteFunction<F> && CannotBeCalledWith<F, Args...> Future<ResultOf<F>> rpc_async(const Destination& to,
                                                                                           Args&&...)
= delete;
template <auto F, class... Args>
requires RemoteFunction<F> && CannotBeCalledWith<F, Args...> ResultOf<F> rpc_sync(const Destination& to, Args&&...)
= delete;

/// Rejects PyTorch's form, rpc_sync("bob", greet, "me"): here the function is a template argument. These overloads
/// throw only to avoid a warning about a missing return value, which would hide the message.
template <class Function, class... Args>
requires std::is_function_v<Function> detail::ResultOfType<Function> rpc_async(const Destination&, Function*,
                                                                               Args&&...) {
  static_assert(!std::is_function_v<Function>, "write rpc_async<&function>(worker, arguments...)");
  throw UsageError("");
}
/// Likewise.
template <class Function, class... Args>
requires std::is_function_v<Function> detail::ResultOfType<Function> rpc_sync(const Destination&, Function*,
                                                                              Args&&...) {
  static_assert(!std::is_function_v<Function>, "write rpc_sync<&function>(worker, arguments...)");
  throw UsageError("");
}
/// Likewise.
template <class Function, class... Args>
requires std::is_function_v<Function> detail::ResultOfType<Function> remote(const Destination&, Function*, Args&&...) {
  static_assert(!std::is_function_v<Function>, "write remote<&function>(worker, arguments...)");
  throw UsageError("");
}

template <auto F>
using RemoteResult = RRef<detail::StoredType<ResultOf<F>>>;  ///< return type of remote<F>

/// Calls F on worker `to`, leaves the result there, and returns an RRef to it.
template <auto F, class... Args>
requires RemoteFunction<F> && Callable<F, Args...> RemoteResult<F> remote(Agent& agent, const Destination& to,
                                                                          const CallOptions& options,
                                                                          Args&&... arguments) {
  return RemoteResult<F>::from_state(detail::start_creation<detail::CreatingFunction<F>>(
      agent, to.resolve(agent), options, nullptr, std::forward<Args>(arguments)...));
}
template <auto F, class... Args>
requires RemoteFunction<F> && Callable<F, Args...> RemoteResult<F> remote(Agent& agent, const Destination& to,
                                                                          Args&&... arguments) {
  return remote<F>(agent, to, CallOptions{}, std::forward<Args>(arguments)...);
}
template <auto F, class... Args>
requires RemoteFunction<F> && Callable<F, Args...> RemoteResult<F> remote(const Destination& to,
                                                                          const CallOptions& options,
                                                                          Args&&... arguments) {
  return remote<F>(*default_agent(), to, options, std::forward<Args>(arguments)...);
}
template <auto F, class... Args>
requires RemoteFunction<F> && Callable<F, Args...> RemoteResult<F> remote(const Destination& to, Args&&... arguments) {
  return remote<F>(*default_agent(), to, CallOptions{}, std::forward<Args>(arguments)...);
}

/// Rejects arguments that F does not accept.
template <auto F, class... Args>
requires RemoteFunction<F> && CannotBeCalledWith<F, Args...> RemoteResult<F> remote(const Destination& to, Args&&...)
= delete;

/// Whether a T can be constructed from copies of these arguments; string literals are sent as std::string.
template <class T, class... Args>
concept RemotelyConstructible = std::is_class_v<T> && std::constructible_from<T, detail::WireArgument<Args>...> &&
    !detail::type_is_in_unnamed_namespace<T>();

/// Constructs a T on worker `to` from these arguments, and returns an RRef to it.
template <class T, class... Args>
requires RemotelyConstructible<T, Args...> RRef<T> remote(Agent& agent, const Destination& to,
                                                          const CallOptions& options, Args&&... arguments) {
  return RRef<T>::from_state(detail::start_creation<detail::Constructor<T, detail::WireArgument<Args>...>>(
      agent, to.resolve(agent), options, nullptr, std::forward<Args>(arguments)...));
}
template <class T, class... Args>
requires RemotelyConstructible<T, Args...> RRef<T> remote(Agent& agent, const Destination& to, Args&&... arguments) {
  return remote<T>(agent, to, CallOptions{}, std::forward<Args>(arguments)...);
}
template <class T, class... Args>
requires RemotelyConstructible<T, Args...> RRef<T> remote(const Destination& to, const CallOptions& options,
                                                          Args&&... arguments) {
  return remote<T>(*default_agent(), to, options, std::forward<Args>(arguments)...);
}
template <class T, class... Args>
requires RemotelyConstructible<T, Args...> RRef<T> remote(const Destination& to, Args&&... arguments) {
  return remote<T>(*default_agent(), to, CallOptions{}, std::forward<Args>(arguments)...);
}

/// Makes this program serve a function, or a method of T through an RRef<T>, that it does not call itself. This is for
/// programs that are built separately from their callers. Throws UsageError for a function with internal linkage.
template <auto F>
requires RemoteFunction<F>
void serve() { detail::entry_of<detail::FreeFunction<F>>(); }
/// Serves a method.
template <auto F, class T = typename detail::Signature<decltype(F)>::Class>
requires RemoteMethod<F>
void serve() { detail::entry_of<detail::Method<T, F>>(); }
/// Serves a function for calls by `rpc::remote`.
template <auto F>
requires RemoteFunction<F>
void serve_remote() { detail::entry_of<detail::CreatingFunction<F>>(); }
/// Serves a method for calls by `RRef::remote`.
template <auto F, class T = typename detail::Signature<decltype(F)>::Class>
requires RemoteMethod<F>
void serve_remote() { detail::entry_of<detail::CreatingMethod<T, F>>(); }
/// Serves T's constructor for these argument types.
template <class T, class... Args>
requires RemotelyConstructible<T, Args...>
void serve_constructor() { detail::entry_of<detail::Constructor<T, detail::WireArgument<Args>...>>(); }
/// Serves copies of a T, for `to_here`.
template <class T>
void serve_to_here() {
  detail::entry_of<detail::Fetch<T>>();
}

}  // namespace tendril::rpc

TENDRIL_API_END
