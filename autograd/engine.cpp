#include "tendril/autograd/engine.h"

#include <algorithm>
#include <atomic>

#include "tendril/autograd/anomaly.h"
#include "tendril/autograd/autocast.h"
#include "tendril/autograd/detail/gradients.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/hooks.h"

namespace tendril::autograd {

namespace {
std::atomic<uint64_t> next_run{1};

bool any_defined(std::span<const Tensor> gradients) {
  bool any = false;
  for (const Tensor& gradient : gradients) any |= gradient.defined();
  return any;
}

/// Throws unless it is a gradient of such an output; kernels rely on that. `who` gave it.
template <class... Who>
void check_like(const Tensor& gradient, const OutputInfo& expected, const Who&... who) {
  TENDRIL_CHECK_AS(ShapeError, gradient.sizes() == expected.sizes, "backward: ", who..., " has shape ",
                   gradient.sizes(), ", expected ", expected.sizes);
  TENDRIL_CHECK_AS(DTypeError, gradient.dtype() == expected.dtype, "backward: ", who..., " is ", gradient.dtype(),
                   ", expected ", expected.dtype);
  TENDRIL_CHECK(gradient.device() == expected.device, "backward: ", who..., " is on ", gradient.device(), ", expected ",
                expected.device);
}

[[gnu::noinline]] void run_hooks(NodeHooks& hooks, const Node& node, std::span<Tensor> output_grads) {
  hooks.before(output_grads);
  for (std::size_t i = 0; i < output_grads.size(); ++i) {
    if (!output_grads[i].defined()) continue;
    check_like(output_grads[i], node.outputs()[i], "gradient ", i, " that a hook of ", node.name(), " left");
  }
}

GraphTask::Options sorted(GraphTask::Options options) {
  if (options.wanted.size() > 1) std::sort(options.wanted.begin(), options.wanted.end(), EdgeOrder());
  return options;
}

std::size_t slot_of(const Node& leaf) noexcept {
  return (reinterpret_cast<uintptr_t>(&leaf) * 0x9E3779B97F4A7C15u) >> 40;
}

}  // namespace

// ---- preparing

GraphTask::GraphTask(std::span<const Edge> entries, GradientSink& sink, Options options)
    : sink_(sink), options_(sorted(std::move(options))), id_(next_run.fetch_add(1, std::memory_order_relaxed)) {
  try {
    claimed_.reserve(16);
    ready_.reserve(8);
    for (const Edge& target : options_.wanted) {
      TENDRIL_CHECK_AS(AutogradError, target, "GraphTask: a wanted edge is empty");
      if (target.node->is_leaf()) {
        leaf(*target.node).wanted = true;
      } else {
        claim(*target.node);
        target.node->captured_ = true;
      }
    }
    entries_.reserve(entries.size());
    for (const Edge& entry : entries) {
      TENDRIL_CHECK_AS(AutogradError, entry, "GraphTask: an entry is empty");
      visit(*entry.node);
      entries_.push_back({entry});
    }
    // task 3.1: count that each useful node or leaf also waits for the gradients of its entries, which are yet to come
    for (const Entry& entry : entries_) {
      Node& node = *entry.edge.node;
      if (!useful(node)) continue;
      ++(node.is_leaf() ? leaf(node).waiting : node.waiting_);
    }
    // end of task
  } catch (...) {
    abandon();
    throw;
  }
  for (const Node* node : claimed_) remaining_ += node->waiting_ > 0;
  for (const Leaf& one : leaves_) remaining_ += one.waiting > 0;
  finished_ = remaining_ == 0;
}

GraphTask::~GraphTask() { abandon(); }

inline void GraphTask::claim(Node& node) {
  if (node.run_.load(std::memory_order_relaxed) == id_) return;
  uint64_t nobody = 0;
  TENDRIL_CHECK_AS(AutogradError, node.run_.compare_exchange_strong(nobody, id_, std::memory_order_acquire),
                   "backward: ", node.name(),
                   " is part of another backward run that is still going on; a graph can be run by one at a time");
  node.waiting_ = 0;
  node.needed_ = 0;
  node.captured_ = false;
  node.visited_ = false;
  node.reached_ = false;
  claimed_.push_back(&node);
}

// Gives the nodes that have not run back to whoever comes next.
void GraphTask::abandon() noexcept {
  if (num_run_ == claimed_.size()) return;
  for (Node* node : claimed_) {
    if (node->run_.load(std::memory_order_relaxed) != id_) continue;
    for (uint32_t i = 0; i < node->num_outputs_; ++i) node->pending_[i] = Tensor();
    node->run_.store(0, std::memory_order_release);
  }
  claimed_.clear();
  num_run_ = 0;
}

inline bool GraphTask::useful(Node& node) noexcept {
  if (node.is_leaf_) {
    if (options_.wanted.empty()) return true;
    const Leaf* found = find_leaf(node);
    return found && found->wanted;
  }
  return node.needed_ != 0 || node.captured_ || node.always_run_;
}

// Depth first, on a stack of our own. An edge is looked at again when all that lies behind it is known: only then can
// be said whether it leads to anything wanted.
void GraphTask::visit(Node& start) {
  if (start.is_leaf_) {
    leaf(start);
    return;
  }
  Vector<Frame> stack;
  stack.reserve(16);
  const auto enter = [&](Node& node) {
    claim(node);
    if (node.visited_) return false;
    node.visited_ = true;
    stack.push_back({&node, 0});
    return true;
  };
  // task 1.3: count in waiting_ the gradients of each useful node and leaf, mark useful edges in needed_; no recursion
  enter(start);
  while (!stack.empty()) {
    Frame& frame = stack.back();
    Node& node = *frame.node;
    if (frame.next_edge == node.num_edges_) {
      stack.pop_back();
      continue;
    }
    Node* target = node.edges_[frame.next_edge].node.get();
    if (target && !target->is_leaf_ && enter(*target)) continue;
    if (target && useful(*target)) {
      ++(target->is_leaf_ ? leaf(*target).waiting : target->waiting_);
      node.needed_ |= uint64_t{1} << std::min(frame.next_edge, 63u);
    }
    ++frame.next_edge;
  }
  // end of task
}

// ---- leaves: found by address, so that they need no cache of their own, which runs would fight over

GraphTask::Leaf* GraphTask::find_leaf(const Node& node) noexcept {
  if (leaf_index_.empty()) return nullptr;
  const std::size_t mask = leaf_index_.size() - 1;
  for (std::size_t slot = slot_of(node) & mask;; slot = (slot + 1) & mask) {
    const uint32_t position = leaf_index_[slot];
    if (position == 0) return nullptr;
    if (leaves_[position - 1].target.node.get() == &node) return &leaves_[position - 1];
  }
}

GraphTask::Leaf& GraphTask::leaf(Node& node) {
  if (Leaf* found = find_leaf(node)) return *found;
  leaves_.push_back({{Ref<Node>(&node), 0}});
  if (leaf_index_.size() < 2 * leaves_.size()) {
    leaf_index_.assign(std::max<std::size_t>(8, 2 * leaf_index_.size()), 0);
    for (std::size_t i = 0; i < leaves_.size(); ++i) insert_leaf(i);
  } else {
    insert_leaf(leaves_.size() - 1);
  }
  return leaves_.back();
}

void GraphTask::insert_leaf(std::size_t position) noexcept {
  const std::size_t mask = leaf_index_.size() - 1;
  std::size_t slot = slot_of(*leaves_[position].target.node) & mask;
  while (leaf_index_[slot] != 0) slot = (slot + 1) & mask;
  leaf_index_[slot] = static_cast<uint32_t>(position + 1);
}

// ---- running

void GraphTask::add_root(const Edge& entry, Tensor gradient) {
  TENDRIL_CHECK_AS(AutogradError, entry, "GraphTask: a root is empty");
  check_gradient(entry, gradient);
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& candidate) { return !candidate.fed && candidate.edge == entry; });
  TENDRIL_CHECK_AS(AutogradError, found != entries_.end(), "GraphTask: a root that was not declared, or fed before");
  arrive_locked(static_cast<std::size_t>(found - entries_.begin()), std::move(gradient), false);
}

void GraphTask::add_root(std::size_t entry, Tensor gradient) {
  TENDRIL_CHECK_AS(AutogradError, entry < entries_.size(), "GraphTask: there is no root ", entry);
  check_gradient(entries_[entry].edge, gradient);
  const std::lock_guard lock(mutex_);
  arrive_locked(entry, std::move(gradient), false);
}

void GraphTask::drop_root(std::size_t entry) {
  TENDRIL_CHECK_AS(AutogradError, entry < entries_.size(), "GraphTask: there is no root ", entry);
  const std::lock_guard lock(mutex_);
  arrive_locked(entry, {}, true);
}

void GraphTask::check_gradient(const Edge& root, const Tensor& gradient) {
  if (!gradient.defined()) return;
  check_like(gradient, root.node->outputs()[root.input_nr], "the gradient of a root");
}

void GraphTask::arrive_locked(std::size_t entry, Tensor&& gradient, bool dropped) {
  TENDRIL_CHECK_AS(AutogradError, !entries_[entry].fed, "GraphTask: a root that was fed or dropped before");
  entries_[entry].fed = true;
  inbox_.push_back({static_cast<uint32_t>(entry), std::move(gradient), dropped});
}

bool GraphTask::run() {
  std::unique_lock lock(mutex_);
  TENDRIL_CHECK_AS(AutogradError, !failed_, "GraphTask: run after an error");
  if (running_) return false;
  running_ = true;
  const SetGrad mode(options_.create_graph);
  const detail::AutocastOff as_forward;  // dtypes are those of forward, whoever runs this
  try {
    while (!inbox_.empty()) {
      auto inbox = std::exchange(inbox_, {});
      lock.unlock();
      for (Arrival& arrival : inbox) {
        const Edge& edge = entries_[arrival.entry].edge;
        if (!useful(*edge.node)) continue;
        if (arrival.dropped) {
          drop(edge);
        } else {
          deliver(edge, std::move(arrival.gradient));
        }
      }
      while (!ready_.empty()) {
        std::pop_heap(ready_.begin(), ready_.end());
        Node* node = ready_.back().node;
        ready_.pop_back();
        if (node->reached_) {
          run_node(*node);
        } else {
          pass_by(*node);
        }
      }
      lock.lock();
    }
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    failed_ = true;
    running_ = false;
    abandon();
    throw;
  }
  running_ = false;
  finished_ = remaining_ == 0;
  if (finished_) abandon();
  return finished_;
}

bool GraphTask::finished() const {
  std::lock_guard lock(mutex_);
  return finished_;
}

void GraphTask::run_node(Node& node) {
  const std::span<Tensor> output_grads(node.pending_, node.num_outputs_);
  if (input_grads_.size() < node.num_edges_) input_grads_.resize(node.num_edges_);
  const std::span<Tensor> input_grads(input_grads_.data(), node.num_edges_);
  bool runs = any_defined(output_grads) || node.always_run_;
  if (runs && node.hooks_) [[unlikely]] {
    run_hooks(*node.hooks_, node, output_grads);
    runs = node.always_run_ || any_defined(output_grads);
  }
  if (runs) {
    if (node.captured_) capture(node, output_grads);
    if (node.needed_ != 0 || node.always_run_) {
      node.apply(output_grads, input_grads);
      if (detail::anomaly_detection) [[unlikely]]
        detail::check_for_nan(node, input_grads);
      if (node.hooks_) [[unlikely]]
        node.hooks_->after(input_grads, output_grads);
    }
  }
  for (Tensor& gradient : output_grads) gradient = {};  // first: what is held nowhere else may be overwritten below
  if (!options_.retain_graph && node.num_saved_ > 0) node.release_saved();
  if (options_.retain_graph) {
    for (const SavedTensor& saved : node.saved_tensors()) saved.ran();
  }
  node.run_.store(0, std::memory_order_release);
  ++num_run_;
  --remaining_;

  for (uint32_t i = 0; i < node.num_edges_; ++i) {
    const Edge& edge = node.edges_[i];
    if (edge && useful(*edge.node)) {
      if (input_grads[i].defined()) fit(input_grads[i], edge, node, i);
      deliver(edge, std::move(input_grads[i]));
    }
    input_grads[i] = {};
  }
}

void GraphTask::deliver(const Edge& edge, Tensor&& gradient) {
  Node& node = *edge.node;
  if (node.is_leaf_) {
    Leaf& leaf = *find_leaf(node);
    add_up(leaf.sum, std::move(gradient));
    if (--leaf.waiting == 0) finish_leaf(leaf);
    return;
  }
  add_up(node.pending_[edge.input_nr], std::move(gradient));
  node.reached_ = true;
  if (--node.waiting_ == 0) make_ready(node);
}

/// As `deliver`, but nothing will come this way.
void GraphTask::drop(const Edge& edge) {
  Node& node = *edge.node;
  if (node.is_leaf_) {
    Leaf& leaf = *find_leaf(node);
    if (--leaf.waiting == 0) finish_leaf(leaf);
  } else if (--node.waiting_ == 0) {
    make_ready(node);
  }
}

/// Instead of `run_node`, for a node whose every way from an entry was dropped.
void GraphTask::pass_by(Node& node) {
  node.run_.store(0, std::memory_order_release);
  ++num_run_;
  --remaining_;
  for (uint32_t i = 0; i < node.num_edges_; ++i) {
    const Edge& edge = node.edges_[i];
    if (edge && useful(*edge.node)) drop(edge);
  }
}

void GraphTask::make_ready(Node& node) {
  ready_.push_back({node.sequence_, &node});
  std::push_heap(ready_.begin(), ready_.end());
}

void GraphTask::finish_leaf(Leaf& leaf) {
  --remaining_;
  if (NodeHooks* hooks = leaf.target.node->hooks_; hooks && leaf.sum.defined()) [[unlikely]]
    run_hooks(*hooks, *leaf.target.node, {&leaf.sum, 1});
  if (!leaf.sum.defined()) return;
  sink_.accumulate(leaf.target, std::move(leaf.sum));
}

void GraphTask::capture(Node& node, std::span<const Tensor> output_grads) {
  for (uint32_t i = 0; i < node.num_outputs_; ++i) {
    const Edge target{Ref<Node>(&node), i};
    if (!output_grads[i].defined()) continue;
    if (!std::binary_search(options_.wanted.begin(), options_.wanted.end(), target, EdgeOrder())) continue;
    sink_.accumulate(target, output_grads[i]);
  }
}

}  // namespace tendril::autograd
