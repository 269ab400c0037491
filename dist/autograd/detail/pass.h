#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tendril/dist/autograd/detail/context_state.h"
#include "tendril/dist/autograd/detail/messages.h"
#include "tendril/dist/autograd/detail/pass_graph.h"
#include "tendril/dist/autograd/detail/pass_trace.h"
#include "tendril/dist/autograd/detail/transmitter.h"
#include "tendril/dist/autograd/pass_protocol.h"
#include "tendril/rpc/call/inbound_call.h"
#include "tendril/rpc/future.h"
#include "tendril/rpc/system/mutex.h"

namespace tendril::dist::autograd::detail {

/// One worker's part in one backward over one context: connects the protocol, which does not handle tensors, to the
/// graph, the engine and the agent. Created by the first message of the pass or, on the root, by backward.
///
/// Thread-safe. One thread at a time runs the graph: the thread that called backward on the root's worker, a thread of
/// the pool on the others.
class Pass final : public std::enable_shared_from_this<Pass> {
 public:
  struct Options {
    PassHeader header;
    bool mark_first = false;    ///< root only
    bool all_received = false;  ///< this worker ended its part before
    uint64_t reports_made = 0;  ///< number of earlier reports of this worker in this context
    rpc::Clock::time_point deadline = rpc::Clock::time_point::max();
  };
  Pass(const Options& options, std::shared_ptr<ContextState> context, std::shared_ptr<Transmitter> transmitter);
  ~Pass();

  PassId id() const noexcept { return header_.pass; }

  /// Root only: runs the pass. Returns, or rethrows the pass's error, when the pass is over on all workers.
  void run_from(const std::vector<Tensor>& roots);

  // ---- messages of other workers
  void gradient(rpc::InboundCall call, GradientMessage message);
  void mark(rpc::InboundCall call, const std::vector<MessageId>& messages);
  void resolve(rpc::InboundCall call);
  void over(rpc::InboundCall call);

  /// Cancels the pass on this worker with this error. No effect if the pass has already failed.
  void fail(const std::exception_ptr& error);
  /// Lets a failed pass end without a message from its root, because the root is lost or has begun another pass.
  void abandon();
  bool failed() const;
  /// Calls `f` when this worker's part has ended, or immediately if it already has.
  void when_ended(std::function<void()> f);

  /// The pass whose graph this thread is running; null if it is running none.
  static Pass* running() noexcept;
  /// Sends the gradients of a recv node to the worker of its send node.
  void send(const RecvNode& node, std::span<Tensor> gradients);

 private:
  using Lock = std::unique_lock<rpc::detail::Mutex>;

  static std::exception_ptr timeout_error();
  PassToken keep(rpc::InboundCall call);
  /// Releases the lock and carries out the actions of the protocol.
  void act(Lock& lock);
  struct Ending;
  std::optional<Ending> take_ending(const std::vector<PassAction>& actions);
  void end(Ending ending);
  void reply(PassToken token, rpc::Message message);
  void notify_root(bool Pass::*flag);
  void request_run();
  bool run_once();  ///< returns true if it must be called again
  bool is_marked(MessageId message) const;
  void walk_sends(const std::vector<MessageId>& messages);
  void walk_roots();
  void walked(const std::vector<RemoteEdge>& reached, const std::exception_ptr& error);
  void answered(rpc::Message* reply, const std::exception_ptr& error);
  void over_answered(rpc::Message* reply, const std::exception_ptr& error);
  void call_and_settle(rpc::WorkerId to, rpc::Message request);
  void send_abort(rpc::WorkerId to);
  void fail_locked(const std::exception_ptr& error);

  const PassHeader header_;
  const rpc::Clock::time_point deadline_;
  const std::shared_ptr<ContextState> context_;
  const std::shared_ptr<Transmitter> transmitter_;
  const bool is_root_;
  const PassTrace trace_;

  mutable rpc::detail::Mutex mutex_;
  PassProtocol protocol_;
  std::exception_ptr error_;
  PassToken next_token_ = 1;
  std::unordered_map<PassToken, rpc::InboundCall> calls_;  // not answered yet
  std::vector<ReceivedGradients> fed_;                     // received, not yet added to the task
  bool abandoned_ = false;
  bool ended_ = false;            // the task has been taken out to be freed
  bool left_context_ = false;     // another pass of the context can begin
  bool over_incomplete_ = false;  // some workers may not know that the pass has failed
  bool abort_broadcast_ = false;
  std::vector<std::function<void()>> at_end_;

  // Root only: the reasons to wake its thread.
  bool work_ = false, walk_roots_ = false, done_ = false;
  Ref<rpc::FutureState<void>> wake_;

  PassGraph graph_;  // used by the thread that runs the graph, except for its walks
};

}  // namespace tendril::dist::autograd::detail
