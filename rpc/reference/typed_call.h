#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <tuple>
#include <typeinfo>
#include <utility>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/call/call_target.h"
#include "tendril/rpc/call/rref_state.h"
#include "tendril/rpc/threads/recycled.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// The worker that a call goes to: its name, its rank, or its WorkerInfo.
class Destination {
 public:
  Destination(const char* name) : name_(name) {}
  Destination(std::string name) : name_(std::move(name)) {}
  Destination(std::string_view name) : name_(name) {}
  Destination(const WorkerInfo& worker) : rank_(worker.id) {}
  template <std::integral Rank>
  requires(!std::same_as<Rank, bool> && !std::same_as<Rank, char>) Destination(Rank rank)
      : rank_(std::in_range<WorkerId>(rank) ? static_cast<WorkerId>(rank) : WorkerId{-1}) {}

  /// Returns the worker's rank. Throws UsageError for a name that `agent` does not know; a rank is not checked here.
  WorkerId resolve(const Agent& agent) const { return name_.empty() ? rank_ : agent.worker(name_).id; }

 private:
  std::string name_;
  WorkerId rank_ = -1;
};

namespace detail {

/// Returns the reference to a method's receiver if the call must hold it until it ends: the request only names it
/// (ForkDescriptor::receiver). Returns null if this worker owns the object; the request then holds the reference.
inline std::shared_ptr<RRefState> held_receiver(const std::shared_ptr<RRefState>& receiver) {
  return receiver && !receiver->is_owner() ? receiver : nullptr;
}
/// Writes the receiver into the request, as its first reference.
void write_receiver(OutputArchive& archive, Message& request, const std::shared_ptr<RRefState>& receiver);

/// The future of a call's result and the call's bookkeeping, in one allocation.
template <class R>
class TypedCall final : public FutureState<R>, public PendingCall, public Recycled {
 public:
  TypedCall(Executor& executor, const char* function, const std::shared_ptr<RRefState>& receiver)
      : FutureState<R>(&executor), function_(function), receiver_(held_receiver(receiver)) {}
  ~TypedCall() override {
    if (const auto error = this->unread_error()) report_unread_error(this->executor(), function_, error);
  }

  void complete(Message&& reply) noexcept override {
    receiver_.reset();
    try {
      InputArchive archive(reply, function_);
      archive.expect(0, typeid(R));
      if constexpr (std::is_void_v<R>) {
        archive.finish();
        this->prepare_value();
      } else {
        archive >> this->prepare_value();  // in place, so that no user destructor runs on this thread
        archive.finish();
      }
      this->complete_prepared(nullptr);
    } catch (...) {
      this->complete_prepared(std::current_exception());
    }
  }
  void fail(std::exception_ptr error) noexcept override {
    receiver_.reset();
    this->try_set_error(std::move(error));
  }

 private:
  const char* function_;
  std::shared_ptr<RRefState> receiver_;
};

/// Settles the caller's reference when the call that creates the object has ended.
class CreationCall final : public FutureState<void>, public PendingCall {
 public:
  CreationCall(Executor& executor, std::shared_ptr<RRefState> state, const char* function,
               const std::shared_ptr<RRefState>& receiver)
      : FutureState<void>(&executor),
        state_(std::move(state)),
        function_(function),
        receiver_(held_receiver(receiver)) {}
  void complete(Message&& reply) noexcept override;
  void fail(std::exception_ptr error) noexcept override;

 private:
  std::shared_ptr<RRefState> state_;
  const char* function_;
  std::shared_ptr<RRefState> receiver_;
};

/// Writes an argument, converted to the type that is sent for its parameter.
template <class Wire, class Arg>
void write_argument(OutputArchive& archive, Arg&& argument) {
  if constexpr (std::is_same_v<std::remove_cvref_t<Arg>, Wire>) {
    archive << argument;
  } else {
    const Wire converted = static_cast<Wire>(std::forward<Arg>(argument));
    archive << converted;
  }
}
template <class... Wire, class... Args>
void write_arguments(OutputArchive& archive, std::tuple<Wire...>*, Args&&... arguments) {
  (write_argument<Wire>(archive, std::forward<Args>(arguments)), ...);
}

/// Sends a request for `Callable`; `receiver` is null unless it is a method.
template <class Callable, class R, class... Args>
Future<R> start_call(Agent& agent, WorkerId to, const CallOptions& options, const std::shared_ptr<RRefState>& receiver,
                     Args&&... arguments) {
  if constexpr (!std::is_void_v<R>) check_default_constructible<R>();
  const FunctionEntry& entry = entry_of<Callable>();
  Message request;
  request.function = entry.id;
  OutputArchive archive(request);
  if (receiver) write_receiver(archive, request, receiver);
  write_arguments(archive, static_cast<typename Callable::Arguments*>(nullptr), std::forward<Args>(arguments)...);
  const Ref<TypedCall<R>> call(new TypedCall<R>(agent.executor(), entry.served.name.c_str(), receiver));
  agent.call(to, std::move(request), PendingCallRef(call), options);
  return Future<R>(call);
}

/// Sends a request whose result stays on worker `to`. Returns the reference to the result.
std::shared_ptr<RRefState> send_creation(Agent& agent, WorkerId to, const CallOptions& options, Message&& request,
                                         const char* function, const std::shared_ptr<RRefState>& receiver);

template <class Callable, class... Args>
std::shared_ptr<RRefState> start_creation(Agent& agent, WorkerId to, const CallOptions& options,
                                          const std::shared_ptr<RRefState>& receiver, Args&&... arguments) {
  const FunctionEntry& entry = entry_of<Callable>();
  Message request;
  request.function = entry.id;
  request.flags = kCreatesReference;
  OutputArchive archive(request);
  if (receiver) write_receiver(archive, request, receiver);
  write_arguments(archive, static_cast<typename Callable::Arguments*>(nullptr), std::forward<Args>(arguments)...);
  return send_creation(agent, to, options, std::move(request), entry.served.name.c_str(), receiver);
}
}  // namespace detail
}  // namespace tendril::rpc

TENDRIL_API_END
