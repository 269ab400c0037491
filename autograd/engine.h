#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "tendril/autograd/accumulate_grad.h"
#include "tendril/autograd/node.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Running a graph backward.
namespace tendril::autograd {

/// Where the gradients of one run go.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  /// Called by the running thread, once a run for each target that a gradient reached, when that gradient is final:
  /// summed over all uses, after the tensor's hooks. `target.node` is a leaf (an AccumulateGrad), or, where the run was
  /// asked for particular edges, one of these. A gradient nobody else holds may be kept without a copy.
  virtual void accumulate(const Edge& target, Tensor gradient) = 0;
};

/// Writes to the leaves' `.grad`.
class GradSink final : public GradientSink {
 public:
  void accumulate(const Edge& target, Tensor gradient) override {
    static_cast<AccumulateGrad&>(*target.node).accumulate(std::move(gradient));
  }
};

/// One backward run over a graph: its entries are declared first, their gradients may come later, from any thread.
///
///   GraphTask task(entries, sink);        // walks the graph, counts how many gradients each node waits for
///   task.add_root(entries[0], gradient);  // each entry once; an undefined gradient is a zero, and counts
///   task.run();                           // until nothing is ready; again after more roots came
///
/// Iterative (a graph of any depth) and deterministic: of the nodes that are ready, the one recorded last runs first.
/// The task, not the node, checks gradients' dtype and device, sums them to the recorded shape, adds up those of
/// several uses, and leaves out what nobody wants. A node all of whose output gradients are undefined does not run
/// (unless it asks to) and gives undefined gradients.
///
/// The cache of a run is in the nodes, tagged with the run's number; a second task over the same interior nodes is
/// refused with AutogradError when it is made, until the first has passed through them or is gone. Leaves are free:
/// any number of tasks may share them.
///
/// Thread-safety: add_root and run may be called from any thread. One thread runs at a time: a run that finds another
/// one busy leaves its work to that one and returns. An exception from a node or a hook leaves through run(); the
/// task is then over, and further calls throw.
class GraphTask {
 public:
  /// What a run keeps and computes.
  struct Options {
    bool retain_graph = false;  ///< keep saved tensors for another run
    bool create_graph = false;  ///< record the backward formulas
    /// If not empty: only these targets get gradients (leaves, or edges to outputs of interior nodes), and only nodes
    /// on the way to them run.
    std::vector<Edge> wanted = {};
  };

  GraphTask(std::span<const Edge> entries, GradientSink& sink, Options options);
  GraphTask(const std::vector<Edge>& entries, GradientSink& sink) : GraphTask(std::span(entries), sink, Options{}) {}
  ~GraphTask();
  GraphTask(const GraphTask&) = delete;
  GraphTask& operator=(const GraphTask&) = delete;

  /// The gradient of one declared entry; an edge declared n times is fed n times. Throws AutogradError for an edge that
  /// was not declared or was fed before, ShapeError, DTypeError or AutogradError if the gradient cannot be of it.
  void add_root(const Edge& entry, Tensor gradient);
  /// As above, of the entry that was declared in this place: without a search.
  void add_root(std::size_t entry, Tensor gradient);
  /// The gradient of this entry will never come. What can be reached through no other entry is left as it is, not run
  /// and its saved tensors kept; what can does not wait for this one any more.
  void drop_root(std::size_t entry);

  /// Runs until no node is ready. Returns whether all is done: every entry was fed and every node has run.
  bool run();
  bool finished() const;  ///< whether every entry had its gradient and every node has run

 private:
  struct Leaf {
    Edge target;
    Tensor sum;
    uint32_t waiting = 0;
    bool wanted = false;
  };
  struct Ready {
    uint64_t sequence;
    Node* node;
    bool operator<(const Ready& other) const noexcept { return sequence < other.sequence; }
  };
  struct Entry {
    Edge edge;
    bool fed = false;
  };
  struct Arrival {
    uint32_t entry;
    Tensor gradient;
    bool dropped;
  };
  struct Frame {
    Node* node;
    uint32_t next_edge;
  };

  void claim(Node& node);
  void visit(Node& start);
  Leaf& leaf(Node& node);
  Leaf* find_leaf(const Node& node) noexcept;
  void insert_leaf(std::size_t position) noexcept;
  bool useful(Node& node) noexcept;
  void abandon() noexcept;

  static void check_gradient(const Edge& root, const Tensor& gradient);
  void arrive_locked(std::size_t entry, Tensor&& gradient, bool dropped);
  void deliver(const Edge& edge, Tensor&& gradient);
  void drop(const Edge& edge);
  void pass_by(Node& node);
  void make_ready(Node& node);
  void finish_leaf(Leaf& leaf);
  void run_node(Node& node);
  void capture(Node& node, std::span<const Tensor> output_grads);

  template <class T>
  using Vector = std::vector<T, memory::Allocator<T>>;

  GradientSink& sink_;
  const Options options_;  // `wanted` in EdgeOrder
  const uint64_t id_;
  Vector<Node*> claimed_;
  std::size_t num_run_ = 0;
  Vector<Leaf> leaves_;
  Vector<uint32_t> leaf_index_;  // open addressing: position in leaves_ + 1, or 0
  Vector<Ready> ready_;          // a heap
  Vector<Tensor> input_grads_;   // all undefined between two nodes
  std::size_t remaining_ = 0;    // useful nodes and leaves that are still to be finished

  mutable std::mutex mutex_;  // guards what follows
  Vector<Entry> entries_;
  Vector<Arrival> inbox_;
  bool running_ = false;
  bool failed_ = false;
  bool finished_ = false;
};

}  // namespace tendril::autograd

TENDRIL_API_END
