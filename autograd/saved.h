#pragma once

#include <atomic>
#include <cstdint>

#include "tendril/tensor/tensor.h"

namespace tendril::autograd {

class Node;

/// A tensor kept by a node for its backward formula. Remembers the version of the elements when they were saved and
/// refuses to hand them out once an in-place operation has changed them.
///
/// Thread-safety: as its node, but for `forget`, which may run while another thread's backward frees what was saved.
class SavedTensor {
 public:
  SavedTensor() = default;
  SavedTensor(const SavedTensor&) = delete;
  SavedTensor& operator=(const SavedTensor&) = delete;
  ~SavedTensor() { Ref<TensorImpl>::adopt(kept()).reset(); }

  /// Keeps an input of the forward operation, with its history.
  void save(const Tensor& input);
  /// Keeps the operation's own result. The node must not own a tensor that owns the node, so the history is left out
  /// and put back on unpacking.
  void save_output(const Tensor& output);

  /// The tensor, as it was. `owner` is the node that this member belongs to.
  /// Throws AutogradError if the elements were changed, or if the graph was freed by an earlier backward.
  Tensor unpack(const Node& owner) const;

  /// If this is `changed`, which the caller alone uses, keeps its elements without its history.
  void forget(const TensorImpl& changed);

  bool defined() const noexcept { return kept() != nullptr; }
  void reset() noexcept { keep({}); }

 private:
  TensorImpl* kept() const noexcept { return impl_.load(std::memory_order_relaxed); }
  void keep(Ref<TensorImpl> impl) noexcept {
    TensorImpl* const before = kept();
    impl_.store(impl.take(), std::memory_order_relaxed);
    if (before) [[unlikely]]
      Ref<TensorImpl>::adopt(before).reset();
  }

  std::atomic<TensorImpl*> impl_ = nullptr;  // owned
  uint32_t version_ = 0;
  uint16_t output_number_ = 0;
  bool is_output_ = false;
};

}  // namespace tendril::autograd
