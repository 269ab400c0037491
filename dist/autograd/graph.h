#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tendril/dist/autograd/backward.h"
#include "tendril/dist/autograd/simulated_graph.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// What a context has recorded on all workers, as one graph and as pictures.
///
///     const auto graph = dist::autograd::graph(context, {loss});        // before backward
///     std::ofstream("out.dot") << dist::autograd::dot(graph) << dist::autograd::dot_steps(graph, Mode::smart);
///
/// `dot -Tsvg -O out.dot` makes a picture of each graph of the file.
namespace tendril::dist::autograd {

/// A node of one worker's part.
struct RecordedNode {
  /// What it stands for.
  enum class Kind : uint8_t {
    operation,  ///< of this worker
    leaf,       ///< where a gradient is accumulated
    send,       ///< where gradients come in for what a message took away
    recv,       ///< where gradients leave for where a message came from
  };
  Kind kind = Kind::operation;               ///< what it is
  std::string name;                          ///< as `Node::name`
  std::vector<std::vector<int64_t>> shapes;  ///< of its outputs
  bool root = false;                         ///< a root is its output
  MessageId message = 0;                     ///< of a send or recv node
  rpc::WorkerId peer = -1;                   ///< ... where the message went, or came from
  std::vector<uint32_t> next;                ///< where its gradients go on: nodes of the same part

  /// Travels with a part.
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& kind& name& shapes& root& message& peer& next;
  }
};

/// What one worker has recorded: what its roots and what it has sent were computed from. What it received and did not
/// use is not in it.
struct RecordedPart {
  rpc::WorkerId rank = -1;            ///< the worker's
  std::string worker;                 ///< its name
  std::vector<RecordedNode> nodes;    ///< in no order; `next` says how they hang together
  std::vector<rpc::WorkerId> called;  ///< within the context

  /// Travels to who asks.
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& rank& worker& nodes& called;
  }
};

/// The parts of all workers that a context has reached, by rank.
struct RecordedGraph {
  rpc::WorkerId root = 0;           ///< who asked
  std::vector<RecordedPart> parts;  ///< one for each worker

  /// Its messages as a PassSimulation takes them: which of them depend on which.
  SimulatedGraph messages() const;
};

/// Gathers it: this worker's part, then, by calls outside the context, those of the workers that were called in it, and
/// of those that they called. `roots` as for `backward`; without any only what was sent is there. Messages are named
/// anew: sender.1, sender.2, ... as they were sent. Runs nothing and changes nothing; each worker's part is as it was
/// when it answered, so that nothing should be recorded meanwhile. `timeout` is each call's, 0 the agent's.
///
/// Throws AutogradError for a context that is unknown here or released, or an undefined root; what calls throw
/// (rpc::PeerLostError, rpc::TimeoutError, rpc::RemoteError); rpc::MessageError for a part that is none.
RecordedGraph graph(const Context& context, const std::vector<Tensor>& roots = {},
                    std::chrono::milliseconds timeout = std::chrono::milliseconds(0));

/// The graph in the DOT language of Graphviz: a cluster for each worker, dashed arrows where a message crosses. As in
/// autograd::dot arrows go the way of the forward computation, leaves are blue, roots green. A received message that is
/// not used is a dashed box.
std::string dot(const RecordedGraph& graph);

/// A backward over the graph step by step, a DOT graph for each, one behind the other: what has been marked (yellow),
/// has had or made its gradient (green) and will get none (dashed), below it what has happened. Messages alone, each
/// with its send and recv node. The steps are those of the real protocol in one of the orders that may occur
/// (PassSimulation; what became possible first happens first). The last says how it ends: `Mode::fast` waits for ever
/// where a message is not used.
std::string dot_steps(const RecordedGraph& graph, Mode mode);

}  // namespace tendril::dist::autograd

TENDRIL_API_END
