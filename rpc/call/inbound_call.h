#pragma once

#include <exception>
#include <memory>

#include "tendril/rpc/wire/message.h"
#include "tendril/rpc/worker.h"
#include "tendril/tensor/export.h"

namespace tendril::rpc::detail {  // hidden
class Staging;
struct InboundState;
}  // namespace tendril::rpc::detail

TENDRIL_API_BEGIN

namespace tendril::rpc {

class Agent;
struct CallContext;

/// A request that is being served and must be answered once. It can be moved (a deferred reply moves it to the heap)
/// but not copied. If it is destroyed unanswered, it replies with an error. Used by one thread at a time.
class InboundCall {
 public:
  explicit InboundCall(std::unique_ptr<detail::InboundState> state) noexcept;
  InboundCall(InboundCall&&) noexcept;
  InboundCall& operator=(InboundCall&&) noexcept;
  ~InboundCall();

  bool answered() const noexcept { return state_ == nullptr; }  ///< also true of an object that was moved from
  Agent& agent() const noexcept;
  const WorkerInfo& from() const noexcept;
  /// The request. Its payload and tensors may be moved out.
  Message& request() noexcept;
  /// The context in which the handler runs: deadline, stop token (triggered by a cancel message or by the loss of the
  /// caller) and trace. A deferred reply makes it current with CallContextScope.
  const CallContext& context() const noexcept;

  /// Marks the function as started, which returns the request's credit to the caller. Only a function that `may_park`
  /// has to call this.
  void begin() noexcept;
  int level() const noexcept;  ///< Job::level of jobs that continue this call

  /// Replies with the payload and tensors of `result`, and fills in its other fields. Throws UsageError if the call has
  /// been answered already.
  void reply(Message&& result);
  /// Replies with the name of the error's type and its text. The RpcErrors listed in error_message.h arrive with their
  /// own type. Does nothing if the call has been answered already.
  void fail(std::exception_ptr error) noexcept;

 private:
  void send(Message&& result, detail::Staging* staging);

  std::unique_ptr<detail::InboundState> state_;
};

}  // namespace tendril::rpc

TENDRIL_API_END
