#include "tendril/dist/autograd/detail/pass_graph.h"

#include "tendril/autograd/history.h"
#include "tendril/tensor/raw.h"

namespace tendril::dist::autograd::detail {

using tendril::autograd::Edge;
using tendril::autograd::GraphTask;
using tendril::autograd::Node;

void PassGraph::set_roots(const std::vector<Tensor>& roots) {
  for (const Tensor& root : roots) {
    roots_.push_back(tendril::autograd::gradient_edge(root));
    root_gradients_.push_back(raw::ones(root.sizes(), root.dtype(), root.device()));
  }
}

// ---- running

void PassGraph::begin(const IsSend& is_entry) {
  std::vector<Edge> edges = roots_;
  for (const Ref<SendNode>& node : context_.sends()) {
    if (!is_entry(node->message())) continue;
    entries_.emplace(node->message(), std::pair(node, edges.size()));
    for (uint32_t i = 0; i < node->outputs().size(); ++i) edges.push_back({node, i});
  }
  task_ =
      std::make_unique<GraphTask>(std::move(edges), context_, GraphTask::Options{.retain_graph = header_.retain_graph});
  for (std::size_t i = 0; i < root_gradients_.size(); ++i) task_->add_root(i, std::move(root_gradients_[i]));
}

void PassGraph::add_gradients(ReceivedGradients& fed) {
  const auto found = entries_.find(fed.message);
  TENDRIL_CHECK_AS(AutogradError, found != entries_.end(), "backward: received gradients for message ",
                   worker_of(fed.message), ".", number_of(fed.message), ", which is not recorded in context ",
                   worker_of(header_.context), ".", number_of(header_.context), " on this worker");
  const auto& [node, first] = found->second;
  TENDRIL_CHECK_AS(AutogradError, node->to() == fed.from && node->outputs().size() == fed.gradients.size(),
                   "backward: message ", worker_of(fed.message), ".", number_of(fed.message), " with ",
                   node->outputs().size(), " tensors was sent to rank ", node->to(), ", but rank ", fed.from, " sent ",
                   fed.gradients.size(), " gradients for it");
  had_.insert(fed.message);
  for (std::size_t i = 0; i < fed.gradients.size(); ++i) task_->add_root(first + i, std::move(fed.gradients[i]));
}

void PassGraph::drop(const IsSend& will_get_one) {
  if (std::exchange(dropped_, true)) return;
  for (const auto& [message, entry] : entries_) {
    if (had_.contains(message) || will_get_one(message)) continue;
    for (std::size_t i = 0; i < entry.first->outputs().size(); ++i) task_->drop_root(entry.second + i);
  }
}

// ---- marking

std::vector<RemoteEdge> PassGraph::walk(std::vector<const Node*> stack) {
  std::vector<RemoteEdge> reached;
  const std::lock_guard lock(walk_mutex_);
  while (!stack.empty()) {
    const Node* const node = stack.back();
    stack.pop_back();
    if (node->is_leaf() || !walked_.insert(node).second) continue;
    if (const auto* recv = dynamic_cast<const RecvNode*>(node)) {
      reached.push_back({recv->from(), recv->message()});
      continue;
    }
    for (const Edge& edge : node->edges()) {
      if (edge) stack.push_back(edge.node.get());
    }
  }
  return reached;
}

std::vector<RemoteEdge> PassGraph::walk_sends(const std::vector<MessageId>& messages) {
  std::vector<Ref<SendNode>> nodes;
  std::vector<const Node*> stack;
  for (const MessageId message : messages) {
    nodes.push_back(context_.send(message));
    TENDRIL_CHECK_AS(AutogradError, nodes.back(), "backward: asked to mark a message that is not recorded here");
    stack.push_back(nodes.back().get());
  }
  return walk(std::move(stack));
}

std::vector<RemoteEdge> PassGraph::walk_roots() {
  std::vector<const Node*> stack;
  for (const Edge& root : roots_) stack.push_back(root.node.get());
  return walk(std::move(stack));
}

}  // namespace tendril::dist::autograd::detail
