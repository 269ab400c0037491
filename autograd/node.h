#pragma once

#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <type_traits>

#include "tendril/autograd/saved.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/memory.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// The graph. Recording a forward operation `y_0, y_1, ... = op(x_0, x_1, ...)` makes one Node. It takes the
/// gradients of the outputs y and gives the gradients of the inputs x. Edge i leads to the node that produced x_i, and
/// says which of that node's outputs x_i was. A tensor holds its node; nodes hold only nodes that are older than they
/// are, so the graph has no cycles and is freed as the tensors go.
namespace tendril::autograd {

class Node;
struct NodeHooks;  // autograd/hooks.h

namespace detail {
// Each thread takes numbers in blocks: they are unique, and no two threads write to one cache line for every node.
struct SequenceNumbers {
  uint64_t next = 0;
  uint64_t end = 0;
};
extern constinit thread_local SequenceNumbers sequence_numbers;
extern constinit thread_local bool anomaly_detection;  // anomaly.h
void take_sequence_numbers() noexcept;
}  // namespace detail

/// The way from a node (or a tensor) to the gradient of one output of another node.
struct Edge {
  Ref<Node> node;         ///< null: nobody wants the gradient
  uint32_t input_nr = 0;  ///< which output of the forward operation, that is, which input of `node`'s backward

  explicit operator bool() const noexcept { return node != nullptr; }  ///< whether it leads anywhere
  friend bool operator==(const Edge& a, const Edge& b) noexcept = default;
};

/// A total order for searching. It has no meaning, and differs between runs.
struct EdgeOrder {
  /// Whether `a` comes before `b`.
  bool operator()(const Edge& a, const Edge& b) const noexcept {
    return a.node.get() != b.node.get() ? std::less<>()(a.node.get(), b.node.get()) : a.input_nr < b.input_nr;
  }
};

/// What a gradient must look like to be the gradient of a forward output.
struct OutputInfo {
  Dims sizes;  ///< of each dimension, in elements
  DType dtype = kFloat32;
  Device device;
};

/// One recorded operation. Immutable after recording but for hooks, saved tensors (freed by the run that used them)
/// and the cache of the run that owns it.
///
/// Thread-safety: any number of threads may hold nodes and record new ones over them. One run at a time may pass
/// through an interior node; the engine refuses a second.
class Node : public History {
 public:
  ~Node() override {
    if (hooks_) [[unlikely]]
      delete_hooks();
  }

  virtual const char* name() const noexcept = 0;  ///< the forward operation: "MulBackward"

  void derive(TensorImpl& view) final;

  /// Gradients of the outputs (undefined: zero) to gradients of the inputs (left undefined: zero). Called by the
  /// engine, with recording on or off as the run asks; formulas are written in Tensor operations, so that they can be
  /// recorded. A result may have the shape of any broadcast of its input: the engine sums it down.
  virtual void apply(std::span<Tensor> output_grads, std::span<Tensor> input_grads) = 0;

  /// Nodes created later have larger numbers (within a thread); the engine runs them first.
  uint64_t sequence_number() const noexcept { return sequence_; }
  /// One for each input: where its gradient goes.
  std::span<const Edge> edges() const noexcept { return {edges_, num_edges_}; }
  /// Of each output, what its gradient must look like.
  std::span<const OutputInfo> outputs() const noexcept { return {outputs_, num_outputs_}; }
  bool is_leaf() const noexcept { return is_leaf_; }  ///< whether it adds up the gradient of a leaf

  /// Whether somebody wants the gradient of input i in this run. Expensive formulas ask.
  bool needs_grad(int i) const noexcept { return (needed_ >> (i < 63 ? i : 63)) & 1; }

  /// Frees the saved tensors; a later backward through this node throws.
  void release_saved() noexcept;
  bool released() const noexcept { return released_; }  ///< whether the saved tensors are gone
  /// What is saved: for the engine, and for pictures.
  std::span<const SavedTensor> saved_tensors() const noexcept { return {saved_, num_saved_}; }

  /// Every node behind `start`, but for those behind `end`, that saved `changed`, which was changed in place and cannot
  /// be read by them any more, keeps its elements only and lets go of its history: that may lead to the node itself,
  /// and the two would keep each other for ever. `owners` is how many references there are besides.
  static void forget_changed(TensorImpl& changed, uint32_t owners, Node* start, const Node* end) noexcept;

  // ---- while recording
  /// The gradient of input i goes there.
  void set_edge(int i, Edge edge) noexcept { edges_[i] = std::move(edge); }
  /// Whether somebody wants the gradient of input i.
  bool has_edge(int i) const noexcept { return edges_[i].node != nullptr; }
  /// Gradients of output i will be of its sizes, dtype and device.
  [[gnu::always_inline]] void set_output(int i, const Tensor& output) noexcept {
    const TensorImpl& made = *output.impl();
    outputs_[i].sizes = made.sizes;
    outputs_[i].dtype = made.dtype;
    outputs_[i].device = made.storage->device();
  }

  /// Hooks and retained gradients, null for most nodes.
  NodeHooks* hooks() const noexcept { return hooks_; }
  NodeHooks& make_hooks();  ///< as `hooks()`, made where there were none

 protected:
  /// The arrays of a node, which the derived class owns.
  struct Parts {
    Edge* edges;                                 ///< one for each input
    OutputInfo* outputs;                         ///< one for each output
    Tensor* pending;                             ///< one for each output: the sum of the gradients that have come
    SavedTensor* saved;                          ///< what `apply` reads
    uint32_t num_edges, num_outputs, num_saved;  ///< their lengths
  };
  // Inlined by decree, as what else runs for each recorded operation: the sources of operations are so large that the
  // compiler stops inlining within them, which cost a tenth of a recorded addition (docs/benchmarks/ops.md).
  [[gnu::always_inline]] explicit Node(const Parts& parts, bool is_leaf = false) noexcept
      : sequence_(next_sequence()),
        edges_(parts.edges),
        outputs_(parts.outputs),
        pending_(parts.pending),
        saved_(parts.saved),
        num_edges_(parts.num_edges),
        num_outputs_(parts.num_outputs),
        num_saved_(static_cast<uint16_t>(parts.num_saved)),
        is_leaf_(is_leaf) {
    if (detail::anomaly_detection) [[unlikely]]
      note_place();
  }

  /// For nodes whose numbers of inputs and outputs are known only at run time.
  void set_parts(const Parts& parts) noexcept;

  /// What was saved; throws AutogradError if it was changed in place since, or freed by an earlier backward.
  Tensor unpack(const SavedTensor& tensor) const { return tensor.unpack(*this); }
  /// A node that must run even if all its output gradients are undefined, or that has no edges (a message to send).
  void set_always_run() noexcept { always_run_ = true; }

  void dispose() noexcept final;
  /// Ends the object and gives its memory back.
  virtual void destroy_now() noexcept = 0;

 private:
  friend class GraphTask;

  static uint64_t next_sequence() noexcept {
    detail::SequenceNumbers& mine = detail::sequence_numbers;
    if (mine.next == mine.end) [[unlikely]]
      detail::take_sequence_numbers();
    return mine.next++;
  }
  void delete_hooks() noexcept;
  void note_place() noexcept;  ///< where this thread is, for DetectAnomaly

  uint64_t sequence_;
  Edge* edges_;
  OutputInfo* outputs_;
  Tensor* pending_;  // run cache: the sum of what has arrived, per output
  SavedTensor* saved_;
  uint32_t num_edges_;
  uint32_t num_outputs_;
  uint16_t num_saved_;
  bool is_leaf_;
  bool released_ = false;
  bool always_run_ = false;
  bool captured_ = false;                  // run cache: the run's sink wants this node's incoming gradients
  bool visited_ = false;                   // run cache: the walk has been here
  bool reached_ = false;                   // run cache: some gradient came, if only an undefined one
  uint32_t waiting_ = 0;                   // run cache: gradients still to come
  std::atomic<uint32_t> searched_for_{0};  // the last tensor that forget_changed looked for here
  uint64_t needed_ = 0;           // run cache: which inputs' gradients are wanted; bit 63 stands for all from 63 on
  std::atomic<uint64_t> run_{0};  // which run owns the cache; 0: none
  NodeHooks* hooks_ = nullptr;    // owned
};

/// Makes a node N that `output` gets as its history, if any input requires a gradient and recording is on; else null.
template <class N, std::same_as<Tensor>... Inputs>
N* track(const Tensor& output, const Inputs&... inputs);  // history.h

/// Base of nodes with a fixed number of inputs, saved tensors and outputs: everything in one slab block.
/// `Derived` gives its own members initial values, and has `static constexpr const char* kName` and
///   void backward(const Tensor& g, std::span<Tensor> dx)              for one output (g is always defined), or
///   void backward(std::span<const Tensor> g, std::span<Tensor> dx)    for several (some of g may be undefined).
template <class Derived, int Inputs, int Saves = 0, int Outputs = 1>
class NodeOf : public Node {
 public:
  // Where these will be is told, and nothing read, before they are made; Clang warns of it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
  NodeOf() noexcept : Node({edges_.data(), outputs_.data(), pending_.data(), saved_.data(), Inputs, Outputs, Saves}) {}
#pragma GCC diagnostic pop

  const char* name() const noexcept override { return Derived::kName; }
  void apply(std::span<Tensor> g, std::span<Tensor> dx) final {
    if constexpr (Outputs == 1) {
      static_cast<Derived*>(this)->backward(static_cast<const Tensor&>(g[0]), dx);
    } else {
      static_cast<Derived*>(this)->backward(std::span<const Tensor>(g), dx);
    }
  }

  /// What a driver asks (tensor/drivers/record.h): history.h's `track`.
  template <std::same_as<Tensor>... Operands>
  [[gnu::always_inline]] static Derived* record(const Tensor& output, const Operands&... operands) {
    return track<Derived>(output, operands...);
  }
  /// Keeps an input for `backward`, in place i of Saves.
  void save(int i, const Tensor& input) { saved_[static_cast<std::size_t>(i)].save(input); }
  /// Keeps the node's own output, without a cycle of references.
  void save_output(int i, const Tensor& output) { saved_[static_cast<std::size_t>(i)].save_output(output); }
  /// What was kept in place i; throws AutogradError as `unpack`.
  Tensor saved(int i) const { return saved_[static_cast<std::size_t>(i)].unpack(*this); }

  static void* operator new(std::size_t bytes) { return memory::allocate(bytes); }  ///< a block of this thread's slab
  static void operator delete(void* block, std::size_t bytes) noexcept { memory::release(block, bytes); }  ///< likewise

 private:
  void destroy_now() noexcept final {
    auto* self = static_cast<Derived*>(this);
    self->Derived::~Derived();  // `delete` would look up the type, which is known here
    memory::release(self, sizeof(Derived));
  }

  std::array<Edge, Inputs> edges_;
  std::array<OutputInfo, Outputs> outputs_;
  std::array<Tensor, Outputs> pending_;
  [[no_unique_address]] std::array<SavedTensor, Saves> saved_;
};

}  // namespace tendril::autograd

TENDRIL_API_END
