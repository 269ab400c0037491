#include "tendril/autograd/node.h"

#include <algorithm>
#include <vector>

#include "tendril/autograd/detail/backtrace.h"
#include "tendril/autograd/hooks.h"
#include "tendril/tensor/detail/switched_variable.h"

namespace tendril::autograd {

namespace {
// Trivial, so that they outlive every other thread-local object: tensors may die late.
constinit thread_local Node* dying = nullptr;
constinit thread_local bool draining = false;
const auto draining_switched = tendril::detail::of_each_thread([]() -> auto& { return draining; });
const auto dying_switched = tendril::detail::of_each_thread([]() -> auto& { return dying; });

constinit std::atomic<uint64_t> next_block{1};
constexpr uint64_t kNumbersPerBlock = 1 << 16;
}  // namespace

constinit thread_local detail::SequenceNumbers detail::sequence_numbers;

namespace {
const auto numbers_switched = tendril::detail::of_each_thread([]() -> auto& { return detail::sequence_numbers; });
}

void detail::take_sequence_numbers() noexcept {
  sequence_numbers.next = next_block.fetch_add(1, std::memory_order_relaxed) * kNumbersPerBlock;
  sequence_numbers.end = sequence_numbers.next + kNumbersPerBlock;
}

void Node::delete_hooks() noexcept { delete hooks_; }

void Node::set_parts(const Parts& parts) noexcept {
  edges_ = parts.edges;
  outputs_ = parts.outputs;
  pending_ = parts.pending;
  saved_ = parts.saved;
  num_edges_ = parts.num_edges;
  num_outputs_ = parts.num_outputs;
  num_saved_ = static_cast<uint16_t>(parts.num_saved);
}

// A node's edges and saved tensors may hold the last references to more nodes, which may hold more: a worklist keeps
// a graph of any depth off the stack. The dying nodes are chained through `pending_`, which they need no more.
void Node::dispose() noexcept {
  pending_ = reinterpret_cast<Tensor*>(dying);
  dying = this;
  if (draining) return;
  draining = true;
  while (Node* node = dying) {
    dying = reinterpret_cast<Node*>(node->pending_);
    node->destroy_now();
  }
  draining = false;
}

void Node::release_saved() noexcept {
  for (uint16_t i = 0; i < num_saved_; ++i) saved_[i].reset();
  released_ = num_saved_ > 0;
}

// The newest node first: who saved the tensor is newer than the tensor, and most often near. Nodes that were searched
// for the same tensor before are passed by, with all that lies behind them: they are older than that search, so that
// steps in a loop are not quadratic. (A tensor at the address of one that is gone is newer than they are.) As only the
// last search is known, searches for two tensors in turn would be: those that nobody saved are not looked for.
void Node::forget_changed(TensorImpl& changed, uint32_t owners, Node* start, const Node* end) noexcept {
  if (!start || start == end || changed.use_count() <= owners) return;
  if (!changed.was_saved.load(std::memory_order_relaxed)) return;
  const auto tag = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(&changed) / memory::kAlignment);
  const auto older = [](const Node* a, const Node* b) { return a->sequence_ < b->sequence_; };
  try {
    std::vector<Node*, memory::Allocator<Node*>> found{start};
    while (!found.empty()) {
      std::pop_heap(found.begin(), found.end(), older);
      Node* node = found.back();
      found.pop_back();
      for (uint16_t i = 0; i < node->num_saved_; ++i) node->saved_[i].forget(changed);
      if (changed.use_count() <= owners) return;
      for (const Edge& edge : node->edges()) {
        Node* next = edge.node.get();
        if (!next || next == end || next->is_leaf_) continue;
        if (next->searched_for_.exchange(tag, std::memory_order_relaxed) == tag) continue;
        found.push_back(next);
        std::push_heap(found.begin(), found.end(), older);
      }
    }
  } catch (const std::bad_alloc&) {  // the step has been made: better that something stays than that it fails
  }
}

void Node::note_place() noexcept try {
  if (!is_leaf_) make_hooks().recorded_at = detail::backtrace();
} catch (const std::bad_alloc&) {  // the operation goes on, and an error says that its place is not known
}

NodeHooks& Node::make_hooks() {
  if (!hooks_) hooks_ = new NodeHooks;
  return *hooks_;
}

}  // namespace tendril::autograd
