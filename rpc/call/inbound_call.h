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

/// A request that is being served, and the duty to answer it once. Moves (a deferred reply takes it to the heap), never
/// copies; one that goes away unanswered answers with an error. Used by one thread at a time.
class InboundCall {
 public:
  explicit InboundCall(std::unique_ptr<detail::InboundState> state) noexcept;
  InboundCall(InboundCall&&) noexcept;
  InboundCall& operator=(InboundCall&&) noexcept;
  ~InboundCall();

  bool answered() const noexcept { return state_ == nullptr; }  ///< also after it was moved from
  Agent& agent() const noexcept;
  const WorkerInfo& from() const noexcept;
  /// The request: payload and tensors may be moved out.
  Message& request() noexcept;
  /// The context the handler runs in: deadline, stop token (set off by a cancel message or the caller's loss), trace.
  /// A deferred reply makes it current with CallContextScope.
  const CallContext& context() const noexcept;

  /// The function runs from now on: the caller may send as much again. Only functions that `may_park` need say so.
  void begin() noexcept;
  int level() const noexcept;  ///< Job::level of what goes on with it

  /// Sends payload and tensors of `result` back; its other fields are filled in here. Once.
  void reply(Message&& result);
  /// Sends the error back: its type's name and text (RpcErrors arrive with their own type where error_message.h says
  /// so). Once.
  void fail(std::exception_ptr error) noexcept;

 private:
  void send(Message&& result, detail::Staging* staging);

  std::unique_ptr<detail::InboundState> state_;
};

}  // namespace tendril::rpc

TENDRIL_API_END
