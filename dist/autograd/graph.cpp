#include "tendril/dist/autograd/graph.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "tendril/autograd/history.h"
#include "tendril/dist/autograd/container.h"
#include "tendril/dist/autograd/detail/context_state.h"
#include "tendril/dist/autograd/detail/handlers.h"
#include "tendril/dist/autograd/detail/transmitter.h"
#include "tendril/dist/detail/named_tensors.h"
#include "tendril/rpc/call.h"
#include "tendril/rpc/error.h"

namespace tendril::dist::autograd {

using tendril::autograd::Edge;
using tendril::autograd::Node;
using Kind = RecordedNode::Kind;

namespace {

// ---- one worker's part

RecordedNode describe(const Node& node, ContextId context) {
  RecordedNode described{.kind = node.is_leaf() ? Kind::leaf : Kind::operation, .name = node.name()};
  for (const auto& output : node.outputs()) described.shapes.emplace_back(output.sizes.begin(), output.sizes.end());
  if (const auto* send = dynamic_cast<const SendNode*>(&node)) {
    described.kind = Kind::send;
    described.message = send->message();
    described.peer = send->to();
  } else if (const auto* recv = dynamic_cast<const RecvNode*>(&node); recv && recv->context() == context) {
    described.kind = Kind::recv;
    described.message = recv->message();
    described.peer = recv->from();
  }
  return described;
}

/// Returns the nodes that can be reached from `starts`, which the caller keeps alive.
std::vector<RecordedNode> nodes_behind(const std::vector<const Node*>& starts, ContextId context) {
  std::vector<RecordedNode> nodes;
  std::vector<const Node*> found;  // indexed by number
  std::unordered_map<const Node*, uint32_t> numbers;
  const auto number = [&](const Node* node) {
    const auto [at, is_new] = numbers.emplace(node, static_cast<uint32_t>(found.size()));
    if (is_new) {
      found.push_back(node);
      nodes.push_back(describe(*node, context));
    }
    return at->second;
  };
  for (const Node* start : starts) number(start);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i]->is_leaf()) continue;
    std::vector<uint32_t> next;
    for (const Edge& edge : found[i]->edges()) {
      if (edge) next.push_back(number(edge.node.get()));
    }
    nodes[i].next = std::move(next);
  }
  return nodes;
}

}  // namespace

RecordedPart Container::recorded(ContextId id, const std::vector<Tensor>& roots) const {
  RecordedPart part{.rank = self().id, .worker = self().name};
  const auto context = find(id);
  if (!context) return part;
  part.called = context->known();
  std::vector<Ref<SendNode>> sends = context->sends();
  std::sort(sends.begin(), sends.end(), [](const auto& a, const auto& b) { return a->message() < b->message(); });
  std::vector<Edge> edges;
  for (const Tensor& root : roots) edges.push_back(tendril::autograd::gradient_edge(root));
  std::vector<const Node*> starts;
  for (const Edge& edge : edges) {
    if (edge) starts.push_back(edge.node.get());
  }
  const std::set<const Node*> distinct(starts.begin(), starts.end());
  for (const auto& send : sends) starts.push_back(send.get());
  part.nodes = nodes_behind(starts, id);
  for (std::size_t i = 0; i < distinct.size(); ++i) part.nodes[i].root = true;  // roots come first
  return part;
}

// ---- all parts

/// Runs on every other worker that the context has reached.
RecordedPart recorded_here(ContextId context);
RecordedPart recorded_here(ContextId context) { return Container::current()->recorded(context, {}); }

namespace {

void check(const RecordedPart& part, const rpc::Agent& agent) {
  const int workers = agent.options().world_size;
  for (const RecordedNode& node : part.nodes) {
    const bool crosses = node.kind == Kind::send || node.kind == Kind::recv;
    const bool fits =
        node.kind <= Kind::recv &&
        (crosses ? node.peer >= 0 && node.peer < workers : node.peer < 0 && node.message == 0) &&
        std::all_of(node.next.begin(), node.next.end(), [&](uint32_t n) { return n < part.nodes.size(); });
    TENDRIL_CHECK_AS(rpc::MessageError, fits, "graph: worker '", part.worker, "' sent a malformed part");
  }
  for (const rpc::WorkerId worker : part.called) {
    TENDRIL_CHECK_AS(rpc::MessageError, worker >= 0 && worker < workers, "graph: worker '", part.worker,
                     "' reported a call to rank ", worker, ", which is not in this group");
  }
}

void name_messages(RecordedGraph& graph) {
  std::map<rpc::WorkerId, std::set<MessageId>> of_sender;
  for (const RecordedPart& part : graph.parts) {
    for (const RecordedNode& node : part.nodes) {
      if (node.message != 0) of_sender[node.kind == Kind::send ? part.rank : node.peer].insert(node.message);
    }
  }
  std::map<MessageId, MessageId> names;
  for (const auto& [sender, messages] : of_sender) {
    uint64_t number = 0;
    for (const MessageId message : messages) names[message] = make_id(sender, ++number);
  }
  for (RecordedPart& part : graph.parts) {
    for (RecordedNode& node : part.nodes) {
      if (node.message != 0) node.message = names.at(node.message);
    }
  }
}

}  // namespace

void detail::serve_graphs() { rpc::serve<&recorded_here>(); }

RecordedGraph Container::graph(ContextId id, const std::vector<Tensor>& roots,
                               std::chrono::milliseconds timeout) const {
  for (std::size_t i = 0; i < roots.size(); ++i)
    TENDRIL_CHECK_AS(AutogradError, roots[i].defined(), "graph: root ", i, " is undefined");
  TENDRIL_CHECK_AS(AutogradError, timeout.count() >= 0, "graph: timeout must not be negative, got ", timeout.count(),
                   " ms");
  (void)require(id, "graph");
  const auto agent = transmitter_->agent();
  TENDRIL_CHECK_AS(rpc::UsageError, agent != nullptr, "graph: worker '", self().name, "' has left its group");
  RecordedGraph graph{.root = self().id};
  std::map<rpc::WorkerId, RecordedPart> parts;
  parts.emplace(self().id, recorded(id, roots));
  const dist::detail::Unrecorded scope;
  std::vector<rpc::WorkerId> to_ask{worker_of(id)};
  const auto note = [&](const RecordedPart& part) {
    check(part, *agent);
    to_ask.insert(to_ask.end(), part.called.begin(), part.called.end());
    for (const RecordedNode& node : part.nodes) {
      if (node.peer >= 0) to_ask.push_back(node.peer);
    }
  };
  note(parts.at(self().id));
  while (!to_ask.empty()) {
    const rpc::WorkerId worker = to_ask.back();
    to_ask.pop_back();
    if (parts.contains(worker)) continue;
    RecordedPart part = timeout.count() > 0
                            ? rpc::rpc_sync<&recorded_here>(*agent, worker, rpc::CallOptions{.timeout = timeout}, id)
                            : rpc::rpc_sync<&recorded_here>(*agent, worker, id);
    part.rank = worker;
    note(part);
    parts.emplace(worker, std::move(part));
  }
  for (auto& [rank, part] : parts) graph.parts.push_back(std::move(part));
  name_messages(graph);
  return graph;
}

RecordedGraph graph(const Context& context, const std::vector<Tensor>& roots, std::chrono::milliseconds timeout) {
  return context.container()->graph(context.id(), roots, timeout);
}

}  // namespace tendril::dist::autograd
