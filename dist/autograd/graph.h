#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tendril/dist/autograd/backward.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// The graph that a context has recorded on all workers.
///
///     const auto graph = dist::autograd::graph(context, {loss});  // before backward
///     for (const auto& part : graph.parts) std::cout << part.worker << ": " << part.nodes.size() << " nodes\n";
///
/// examples/apps/graphs draws such graphs.
namespace tendril::dist::autograd {

/// A node of one worker's part.
struct RecordedNode {
  /// The kind of the node.
  enum class Kind : uint8_t {
    operation,  ///< an operation of this worker
    leaf,       ///< accumulates a gradient
    send,       ///< receives the gradients of a message's tensors
    recv,       ///< sends the gradients of a message's tensors
  };
  Kind kind = Kind::operation;               ///< the kind
  std::string name;                          ///< as `Node::name`
  std::vector<std::vector<int64_t>> shapes;  ///< shapes of its outputs
  bool root = false;                         ///< one of its outputs is a root
  MessageId message = 0;                     ///< of a send or recv node
  rpc::WorkerId peer = -1;                   ///< of a send or recv node: the other worker of the message
  std::vector<uint32_t> next;                ///< the nodes of the same part that receive its gradients

  /// For the transfer of the part that contains it.
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& kind& name& shapes& root& message& peer& next;
  }
};

/// One worker's part of the graph: the history of its roots and of the tensors that it sent. A received tensor that was
/// not used is not in it.
struct RecordedPart {
  rpc::WorkerId rank = -1;            ///< the worker's rank
  std::string worker;                 ///< the worker's name
  std::vector<RecordedNode> nodes;    ///< in no particular order, connected by `next`
  std::vector<rpc::WorkerId> called;  ///< the workers that it called in the context

  /// For the transfer to the worker that gathers the graph.
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& rank& worker& nodes& called;
  }
};

/// The parts of all workers that a context has reached, sorted by rank.
struct RecordedGraph {
  rpc::WorkerId root = 0;           ///< the worker that gathered the graph
  std::vector<RecordedPart> parts;  ///< one per worker
};

/// Gathers the graph: this worker's part, the parts of the workers that it called in the context, the parts of those
/// that they called, and so on. The calls for it are made outside the context. `roots` are those of `backward`; without
/// roots, the graph contains only the history of sent tensors. Messages are renumbered per sender, in the order in
/// which they were sent. The recorded graph does not change. Do not record anything meanwhile, because each part is a
/// snapshot from when its worker answered. `timeout` applies to each call; 0 is the agent's default.
///
/// Throws AutogradError if the context is unknown here or released, a root is undefined or `timeout` is negative;
/// rpc::UsageError if the worker has left its group; rpc::PeerLostError, rpc::TimeoutError and rpc::RemoteError if a
/// call fails; rpc::MessageError if a worker returns a malformed part.
RecordedGraph graph(const Context& context, const std::vector<Tensor>& roots = {},
                    std::chrono::milliseconds timeout = std::chrono::milliseconds(0));

}  // namespace tendril::dist::autograd

TENDRIL_API_END
