#pragma once

#include <type_traits>
#include <utility>

#include "tendril/rpc/call/typed_call.h"
#include "tendril/rpc/default_agent.h"
#include "tendril/rpc/rref.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// Calls of functions on other workers (or this one):
///
///     Tensor y = rpc::rpc_sync<&forward>("ps", x);                        // waits for the result
///     rpc::Future<Tensor> f = rpc::rpc_async<&forward>("ps", x);          // a Future of it
///     rpc::RRef<Tensor> r = rpc::remote<&forward>("ps", x);               // the result stays there
///     rpc::RRef<Observer> o = rpc::remote<Observer>("obs1", seed);        // so does the object that is constructed
///     rpc::rpc_sync<&forward>("ps", {.timeout = std::chrono::seconds(5)}, x);
///
/// The function is a template argument: the call is checked by the compiler, and mentioning it makes this program serve
/// the function too. `to` is a worker's name, its rank or its WorkerInfo. Arguments are converted to the parameters'
/// types and copied before the call returns, except that tensors' elements must not be changed until the call has
/// ended, with a result or an error. A function that returns a Future<R> or Task<R> gives an R on the caller's side.
///
/// A future may be dropped: the call goes on. If it fails then, its error is printed to stderr and counted
/// (unread_error.h: another handler may be set).
///
/// Errors, thrown by the wait for the result: RemoteError (the function threw), TimeoutError, PeerLostError,
/// CancelledError, UnknownFunctionError, MessageError; at once: UsageError (no such worker, before init_rpc, after
/// shutdown), MessageError (arguments that cannot be sent).
namespace tendril::rpc {

namespace detail {
template <class R, class... P>
R result_of_type(R (*)(P...));
template <class Function>
using ResultOfType = decltype(result_of_type(static_cast<Function*>(nullptr)));
}  // namespace detail

/// Calls F on worker `to` and gives a Future of its result: see the head of this file.
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

/// PyTorch's form, rpc_sync("bob", greet, "me"), does not compile: the function is a template argument here. These
/// overloads throw only to avoid a warning about a missing return value, which would hide the message.
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
using RemoteResult = RRef<detail::StoredType<ResultOf<F>>>;  ///< what remote<F> gives

/// Calls F on worker `to` and leaves the result there: an RRef of it.
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

/// T can be constructed from copies of these arguments; string literals are sent as std::string.
template <class T, class... Args>
concept RemotelyConstructible = std::is_class_v<T> && std::constructible_from<T, detail::WireArgument<Args>...> &&
    !detail::type_is_in_unnamed_namespace<T>();

/// Makes a T on worker `to`, of these arguments: an RRef of it.
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

/// Makes this program serve a function, or a method of T through an RRef<T>, that it does not call itself: for programs
/// that are built apart from their callers. Throws UsageError for a function with internal linkage.
template <auto F>
requires RemoteFunction<F>
void serve() { detail::entry_of<detail::FreeFunction<F>>(); }
/// ... a method.
template <auto F, class T = typename detail::Signature<decltype(F)>::Class>
requires RemoteMethod<F>
void serve() { detail::entry_of<detail::Method<T, F>>(); }
/// ... as `rpc::remote` calls it.
template <auto F>
requires RemoteFunction<F>
void serve_remote() { detail::entry_of<detail::CreatingFunction<F>>(); }
/// ... a method.
template <auto F, class T = typename detail::Signature<decltype(F)>::Class>
requires RemoteMethod<F>
void serve_remote() { detail::entry_of<detail::CreatingMethod<T, F>>(); }
/// ... T's constructor, called with these arguments.
template <class T, class... Args>
requires RemotelyConstructible<T, Args...>
void serve_constructor() { detail::entry_of<detail::Constructor<T, detail::WireArgument<Args>...>>(); }
/// ... copies of a T, for `to_here`.
template <class T>
void serve_to_here() {
  detail::entry_of<detail::Fetch<T>>();
}

}  // namespace tendril::rpc

TENDRIL_API_END
