#pragma once

#include <functional>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tendril/autograd/engine.h"
#include "tendril/dist/autograd/detail/context_state.h"
#include "tendril/dist/autograd/detail/messages.h"
#include "tendril/dist/autograd/pass_protocol.h"
#include "tendril/rpc/system/mutex.h"

namespace tendril::dist::autograd::detail {

/// Gradients received for a send node.
struct ReceivedGradients {
  MessageId message;
  rpc::WorkerId from;
  std::vector<Tensor> gradients;
};

/// One worker's part of the graph in one pass: the GraphTask, its entries for each send node, and the walks for
/// marking. Independent of the protocol: callers pass in which messages are marked. Thread-safety: the walks may run on
/// any thread; one thread at a time may call the other functions.
class PassGraph {
 public:
  using IsSend = std::function<bool(MessageId)>;

  PassGraph(const PassHeader& header, ContextState& context) : header_(header), context_(context) {}

  /// Root only, and called first: sets the roots, whose gradients are ones.
  void set_roots(const std::vector<Tensor>& roots);

  bool begun() const noexcept { return task_ != nullptr; }
  /// Creates the task. Its entries are the roots and the context's send nodes for which `is_entry` returns true.
  void begin(const IsSend& is_entry);
  /// Adds gradients to the task. Throws AutogradError if the send node is not an entry, the gradients were not sent by
  /// its receiver, or their number differs from that of its outputs.
  void add_gradients(ReceivedGradients& fed);
  /// Drops the entries that have no gradient and for which `will_get_one` returns false. Only the first call has an
  /// effect.
  void drop(const IsSend& will_get_one);
  /// Runs the nodes that are ready. Returns whether the whole graph has run.
  bool run() { return task_->run(); }
  /// Returns the task. The caller must destroy it without holding a lock, because it releases the nodes.
  std::unique_ptr<tendril::autograd::GraphTask> free() noexcept { return std::move(task_); }

  /// Return the recv nodes that can be reached from the roots, or from the context's send nodes of these messages, and
  /// that no earlier walk has reached. `walk_sends` throws AutogradError if a message has no send node here.
  std::vector<RemoteEdge> walk_roots();
  std::vector<RemoteEdge> walk_sends(const std::vector<MessageId>& messages);

 private:
  std::vector<RemoteEdge> walk(std::vector<const tendril::autograd::Node*> stack);

  const PassHeader& header_;
  ContextState& context_;
  std::vector<tendril::autograd::Edge> roots_;
  std::vector<Tensor> root_gradients_;
  std::unique_ptr<tendril::autograd::GraphTask> task_;
  std::unordered_map<MessageId, std::pair<Ref<SendNode>, std::size_t>> entries_;  // with the first entry's index
  std::unordered_set<MessageId> had_;                                             // messages whose gradients were added
  bool dropped_ = false;

  rpc::detail::Mutex walk_mutex_;
  std::unordered_set<const tendril::autograd::Node*> walked_;
};

}  // namespace tendril::dist::autograd::detail
