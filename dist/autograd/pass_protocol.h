#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tendril/dist/autograd/ids.h"
#include "tendril/dist/autograd/pass_action.h"
#include "tendril/rpc/worker.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::dist::autograd {

/// An edge from a recv node of this worker to the send node of its message on another worker.
struct RemoteEdge {
  rpc::WorkerId worker = -1;
  MessageId message = 0;
};

/// One worker's part in one backward: decides which messages to send, and when to answer received ones. The protocol is
/// explained in docs/distributed_autograd.md. A state machine without I/O, clock or tensors, which turns events into
/// actions. Not thread-safe.
///
/// Every message of a pass is answered. A worker answers the message that engaged it only when it has nothing left to
/// do and all its own messages are answered (Dijkstra and Scholten, 1980). So when the root has all its answers, no
/// worker is active and no message is in flight. The answers from one worker to another must arrive in the order in
/// which they were sent.
class PassProtocol {
 public:
  struct Options {
    rpc::WorkerId self = 0;
    rpc::WorkerId root = 0;
    bool fast = false;          ///< an answer also waits until all of this worker's graph has run
    bool mark_first = false;    ///< root only: mark before the first run
    bool all_received = false;  ///< this worker ended its part before: all its send nodes have had their gradients
    uint64_t reports_made = 0;  ///< number of earlier reports of this worker in this context
  };

  explicit PassProtocol(const Options& options) : options_(options) {}
  /// Returns the actions requested since the last call, to be carried out in this order.
  std::vector<PassAction> take() { return std::exchange(out_, {}); }

  // ---- messages from other workers. Each is answered by an action, unless stated otherwise.
  /// Gradients for a send node. Returns false if it already had its gradients; the caller must then refuse the message.
  bool gradient(PassToken token, MessageId message, bool resolved);
  /// The pass will reach these send nodes.
  void mark(PassToken token, const std::vector<MessageId>& messages);
  /// All marks are set: unmarked send nodes will get no gradient.
  void resolve(PassToken token);
  /// The pass has failed.
  void over(PassToken token, rpc::WorkerId from);

  // ---- local events
  void start();                   ///< root only
  bool run_ended(bool finished);  ///< returns true if more gradients have arrived: run the graph again
  void walked(const std::vector<RemoteEdge>& reached);
  /// A gradient is about to be sent. Returns false if it must not be, because the pass has failed.
  bool sending(rpc::WorkerId to);
  void answered(const std::vector<WorkerReport>& reports);  ///< one of this worker's messages was answered
  void over_answered();                                     ///< an over was answered, or could not be sent
  void sending_aborts(std::size_t more);                    ///< the caller sends `more` overs without a SendOver action
  void fail();

  bool failed() const noexcept { return failed_; }
  bool idle() const noexcept { return !running_; }
  bool resolved() const noexcept { return stage_ == Stage::resolved; }
  bool was_stuck() const noexcept { return was_stuck_; }  ///< root only: had to mark
  bool is_marked(MessageId message) const { return marked_.contains(message); }
  uint64_t reports_made() const noexcept { return reports_made_; }

 private:
  enum class Stage : uint8_t { gradients, marking, resolved };

  bool is_root() const noexcept { return options_.self == options_.root; }
  void engage(PassToken token);
  void settle();
  void advance();
  void end();
  void start_run();
  void begin_marking();
  void learn_resolved();
  void begin_abort(rpc::WorkerId except);
  void send_abort(rpc::WorkerId worker);
  void settle_over();
  void told(rpc::WorkerId worker) { contacted_.insert(worker); }

  const Options options_;
  std::vector<PassAction> out_;
  Stage stage_ = Stage::gradients;
  bool engaged_ = false;  // by `parent_`, which is not answered yet
  PassToken parent_ = 0;
  std::size_t outstanding_ = 0;  // this worker's unanswered messages
  std::size_t walking_ = 0;
  bool running_ = false, run_again_ = false;
  bool has_graph_ = false;
  bool unfinished_ = false;
  bool was_stuck_ = false;
  std::unordered_set<MessageId> fed_, marked_;
  std::size_t marked_pending_ = 0;
  uint64_t reports_made_ = options_.reports_made;
  std::map<rpc::WorkerId, WorkerReport> reports_;  // received and not forwarded yet; on the root: all
  std::unordered_set<rpc::WorkerId> contacted_;    // workers to which this one has sent anything in this pass
  std::unordered_set<rpc::WorkerId> abort_sent_;   // workers that were sent an over, or need none

  bool failed_ = false, ended_ = false;
  bool over_begun_ = false, over_heard_ = false;
  std::optional<PassToken> over_parent_;  // not answered yet
  std::vector<PassToken> over_others_;
  std::size_t overs_outstanding_ = 0;
};

}  // namespace tendril::dist::autograd

TENDRIL_API_END
