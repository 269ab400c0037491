#pragma once

#include <atomic>
#include <cstdint>

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::autograd {

class Node;

/// A tensor kept by a node for its backward formula. Remembers the version of the elements when they were saved and
/// refuses to hand them out once an in-place operation has changed them. Under SavedTensorHooks (saved_hooks.h) it
/// keeps what these make of the tensor.
///
/// Thread-safety: as its node, but for `forget`, which may run while another thread's backward frees what was saved.
class SavedTensor {
 public:
  SavedTensor() = default;
  SavedTensor(const SavedTensor&) = delete;
  SavedTensor& operator=(const SavedTensor&) = delete;
  ~SavedTensor() {
    if (is_packed_) [[unlikely]]
      drop_packed();
    Ref<TensorImpl>::adopt(kept()).reset();
  }

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

  /// The owner has run, and keeps this for another run.
  void ran() const {
    if (is_packed_) [[unlikely]]
      tell_hooks();
  }

  bool defined() const noexcept { return kept() != nullptr; }
  void reset() noexcept {
    if (is_packed_) [[unlikely]]
      drop_packed();
    keep({});
  }
  /// For pictures of the graph: null if nothing is kept, or a hook has it.
  const TensorImpl* peek() const noexcept { return is_packed_ ? nullptr : kept(); }

 private:
  struct Packed;
  Packed& packed() const noexcept { return *reinterpret_cast<Packed*>(kept()); }
  void pack(const Tensor& tensor, Ref<History> producer);
  Tensor unpack_packed(const Node& owner) const;
  void drop_packed() noexcept;
  void tell_hooks() const;

  TensorImpl* kept() const noexcept { return impl_.load(std::memory_order_relaxed); }
  void keep(Ref<TensorImpl> impl) noexcept {
    if (!kept()) [[likely]] {
      impl_.store(impl.take(), std::memory_order_relaxed);
      return;
    }
    // Exchanged, so that this and `forget` on another thread cannot both release the kept tensor.
    Ref<TensorImpl>::adopt(impl_.exchange(impl.take(), std::memory_order_acq_rel)).reset();
  }

  std::atomic<TensorImpl*> impl_ = nullptr;  // owned; a Packed if is_packed_
  uint32_t version_ = 0;
  uint16_t output_number_ = 0;
  bool is_output_ = false;
  bool is_packed_ = false;
};

}  // namespace tendril::autograd

TENDRIL_API_END
