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

/// A recv node, as its worker knows it: where the send node of its message is.
struct RemoteEdge {
  rpc::WorkerId worker = -1;
  MessageId message = 0;
};

/// One worker's part in one backward: which messages to send, which to answer and when. docs/distributed_autograd.md
/// explains the protocol. A state machine: it does no I/O, reads no clock and knows no tensors; it is told of events
/// and says what is to be done. Not thread-safe.
///
/// All messages of a pass are answered, and a worker that takes part answers the message that engaged it only when it
/// has nothing to do and all its own messages are answered (Dijkstra and Scholten, 1980): so when the root has all its
/// answers, nothing happens anywhere. Of one worker's answers to another, the first sent is the first to come.
class PassProtocol {
 public:
  struct Options {
    rpc::WorkerId self = 0;
    rpc::WorkerId root = 0;
    bool fast = false;          ///< an answer also waits for all of this worker's graph
    bool mark_first = false;    ///< of the root: do not try without marking
    bool all_fed = false;       ///< this worker had ended already: its send nodes have had their gradients
    uint64_t reports_made = 0;  ///< by this worker in this context before
  };

  explicit PassProtocol(const Options& options) : options_(options) {}
  /// What is to be done since the last time, in this order.
  std::vector<PassAction> take() { return std::exchange(out_, {}); }

  // ---- messages from others. Each is answered by one of the actions, unless said otherwise.
  /// Gradients for a send node. False: it has had its gradients; to be refused by the caller.
  bool gradient(PassToken token, MessageId message, bool resolved);
  /// The pass will reach these send nodes.
  void mark(PassToken token, const std::vector<MessageId>& messages);
  /// All marks are set: what is not marked will get no gradient.
  void resolve(PassToken token);
  /// The pass has failed.
  void over(PassToken token, rpc::WorkerId from);

  // ---- what happens here
  void start();                   ///< of the root
  bool run_ended(bool finished);  ///< true: more has come, run it again
  void walked(const std::vector<RemoteEdge>& reached);
  /// A gradient is about to be sent. False: the pass has failed, do not.
  bool sending(rpc::WorkerId to);
  void answered(const std::vector<WorkerReport>& reports);  ///< one of this worker's messages
  void over_answered();                                     ///< ... that the pass is over, or it could not be sent
  void telling_over(std::size_t more);                      ///< ... is sent to more workers than the protocol had named
  void fail();

  bool failed() const noexcept { return failed_; }
  bool idle() const noexcept { return !running_; }
  bool resolved() const noexcept { return stage_ == Stage::resolved; }
  bool was_stuck() const noexcept { return was_stuck_; }  ///< of the root: had to mark
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
  void begin_over(rpc::WorkerId except);
  void tell_over(rpc::WorkerId worker);
  void settle_over();
  void told(rpc::WorkerId worker) { told_.insert(worker); }

  const Options options_;
  std::vector<PassAction> out_;
  Stage stage_ = Stage::gradients;
  bool engaged_ = false;  // by `parent_`, which is not answered yet
  PassToken parent_ = 0;
  std::size_t outstanding_ = 0;  // own messages without an answer
  std::size_t walking_ = 0;
  bool running_ = false, run_again_ = false;
  bool has_graph_ = false;
  bool unfinished_ = false;
  bool was_stuck_ = false;
  std::unordered_set<MessageId> fed_, marked_;
  std::size_t marked_unfed_ = 0;
  uint64_t reports_made_ = options_.reports_made;
  std::map<rpc::WorkerId, WorkerReport> reports_;  // heard and not handed on; of the root: all
  std::unordered_set<rpc::WorkerId> told_;         // whom this worker has sent anything in this pass
  std::unordered_set<rpc::WorkerId> over_told_;    // ... that the pass is over

  bool failed_ = false, ended_ = false;
  bool over_begun_ = false, over_heard_ = false;
  std::optional<PassToken> over_parent_;  // not answered yet
  std::vector<PassToken> over_others_;
  std::size_t overs_outstanding_ = 0;
};

}  // namespace tendril::dist::autograd

TENDRIL_API_END
