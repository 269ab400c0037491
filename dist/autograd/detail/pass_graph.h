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
#include "tendril/rpc/threads/mutex.h"

namespace tendril::dist::autograd::detail {

/// Gradients that have come for a send node.
struct Fed {
  MessageId message;
  rpc::WorkerId from;
  std::vector<Tensor> gradients;
};

/// One worker's part of the graph in one pass: the GraphTask and which of its entries belong to which send node; and
/// the walks that marking makes. Knows no protocol: what is marked it is told. Threads: `runs`, `begin`, `feed`,
/// `drop`, `run` and `free` by one at a time; the walks by any.
class PassGraph {
 public:
  using IsSend = std::function<bool(MessageId)>;

  PassGraph(const PassHeader& header, ContextState& context) : header_(header), context_(context) {}

  /// Of the root worker, before all else: gradients of ones for these.
  void set_roots(const std::vector<Tensor>& roots);

  bool begun() const noexcept { return task_ != nullptr; }
  /// The entries: the roots and the context's send nodes for which `is_entry` holds.
  void begin(const IsSend& is_entry);
  /// Throws AutogradError if the send node is not an entry, or others than its receiver sent these.
  void feed(Fed& fed);
  /// Completes the entries that have no gradient and for which `will_get_one` is false. Only the first call counts.
  void drop(const IsSend& will_get_one);
  /// Runs what is ready. True: all of it has run.
  bool run() { return task_->run(); }
  /// The task, to be destroyed where no lock is held: it gives the nodes back.
  std::unique_ptr<tendril::autograd::GraphTask> free() noexcept { return std::move(task_); }

  /// The recv nodes that can be reached from the roots, or from the context's send nodes of these messages, and were
  /// reached by no walk before. Throws AutogradError if there is no such send node.
  std::vector<RemoteEdge> walk_roots();
  std::vector<RemoteEdge> walk_sends(const std::vector<MessageId>& messages);

 private:
  std::vector<RemoteEdge> walk(std::vector<const tendril::autograd::Node*> stack);

  const PassHeader& header_;
  ContextState& context_;
  std::vector<tendril::autograd::Edge> roots_;
  std::vector<Tensor> root_gradients_;
  std::unique_ptr<tendril::autograd::GraphTask> task_;
  std::unordered_map<MessageId, std::pair<Ref<SendNode>, std::size_t>> entries_;  // and the first's place in the task
  std::unordered_set<MessageId> had_;                                             // gradients
  bool dropped_ = false;

  rpc::detail::Mutex walk_mutex_;
  std::unordered_set<const tendril::autograd::Node*> walked_;
};

}  // namespace tendril::dist::autograd::detail
