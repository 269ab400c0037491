#pragma once

#include <mutex>

#include "tendril/autograd/node.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::autograd {

/// The history of a leaf: a tensor that the user made and that requires a gradient. Edges to it end the graph. It
/// holds the leaf's `.grad`; it does not hold the leaf, so gradients of a leaf that is gone are dropped with it.
///
/// Thread-safety: runs of several threads may accumulate into one leaf; `grad` may be read meanwhile.
class AccumulateGrad final : public Node {
 public:
  explicit AccumulateGrad(const Tensor& leaf) noexcept
      : Node({nullptr, &info_, nullptr, nullptr, 0, 1, 0}, true), leaf_(leaf.impl()) {
    set_output(0, leaf);
  }

  const char* name() const noexcept override { return "AccumulateGrad"; }
  /// Accumulates into `.grad`; the engine calls a run's sink instead.
  void apply(std::span<Tensor> output_grads, std::span<Tensor>) override { accumulate(std::move(output_grads[0])); }

  /// `.grad += gradient`. A first gradient that nobody else holds is taken without a copy. Recorded if recording is on
  /// (create_graph), else in place, so that whoever holds `.grad` sees the sum.
  void accumulate(Tensor gradient);

  Tensor grad() const;
  void set_grad(Tensor gradient);
  /// Whether runs through graphs that were recorded before add nothing.
  void set_frozen(bool frozen);
  /// Whether it was made for this one, and not for another that it is an alias of.
  bool is_of(const TensorImpl& tensor) const noexcept { return leaf_ == &tensor; }

  static void* operator new(std::size_t bytes) { return memory::allocate(bytes); }
  static void operator delete(void* block, std::size_t bytes) noexcept { memory::release(block, bytes); }

 private:
  void destroy_now() noexcept override { delete this; }

  OutputInfo info_;
  const TensorImpl* const leaf_;  // to be compared only: it may be gone
  mutable std::mutex mutex_;
  Tensor grad_;
  bool frozen_ = false;  // the leaf requires no gradient at the moment
};

/// Whether elements share memory, as an expanded tensor's do: none may be written in place.
inline bool is_expanded(const Tensor& tensor) noexcept {
  const TensorImpl& impl = *tensor.impl();
  for (int d = 0; d < impl.sizes.size(); ++d) {
    if (impl.sizes[d] > 1 && impl.strides[d] == 0) return true;
  }
  return false;
}

/// Whether the tensor's elements are held by this tensor alone, so that they may be taken or overwritten unseen.
inline bool uniquely_owned(const Tensor& tensor) noexcept {
  const TensorImpl& impl = *tensor.impl();
  return impl.use_count() == 1 && impl.storage->use_count() == 1 && impl.storage->owns_memory() &&
         (impl.contiguous || tensor.suggest_memory_format() == MemoryFormat::channels_last);
}

/// Whether a node may overwrite its gradient: it alone refers to it, and shows it to no hook afterwards. Not on a
/// device, where another stream may still be copying what nobody refers to any more.
inline bool is_nobody_elses(const Tensor& gradient, const Node& node) noexcept {
  return gradient.device().is_cpu() && uniquely_owned(gradient) && !node.hooks();
}

}  // namespace tendril::autograd

TENDRIL_API_END
