#include "tendril/autograd/saved.h"

#include <memory>

#include "tendril/autograd/history.h"
#include "tendril/autograd/saved_hooks.h"

namespace tendril::autograd {

// A saved view is kept without its base: the base's history may come to lead to this node, which would make a cycle.
// As the elements have not changed when it is unpacked, its history is still right then.
void SavedTensor::save(const Tensor& input) {
  Node* producer = grad_fn(input);  // brings a view's history up to date
  version_ = input.version();
  if (detail::saved_tensor_hooks) [[unlikely]] {
    return pack(input, Ref<History>(producer));
  }
  if (!input.impl()->view_base) {
    keep(input.impl_ref());
    std::atomic<bool>& noted = input.impl()->was_saved;  // often noted before, also by threads that share a parameter
    if (!noted.load(std::memory_order_relaxed)) noted.store(true, std::memory_order_relaxed);
    return;
  }
  Tensor view = detail::alias(input);
  set_history(view, Ref<Node>(producer), input.impl()->output_number);
  keep(std::move(view).impl_ref());
}

void SavedTensor::forget(const TensorImpl& changed) {
  TensorImpl* before = kept();
  if (before != &changed) return;  // the caller owns `changed`, so that it lives
  Ref<TensorImpl> alias = detail::alias(Tensor(Ref(before))).impl_ref();
  if (impl_.compare_exchange_strong(before, alias.get(), std::memory_order_acq_rel)) {
    (void)alias.take();  // this owns it now
    Ref<TensorImpl>::adopt(before).reset();
  }
}

void SavedTensor::save_output(const Tensor& output) {
  version_ = output.version();
  output_number_ = static_cast<uint16_t>(output.impl()->output_number);
  is_output_ = true;
  if (detail::saved_tensor_hooks) [[unlikely]]
    return pack(output, nullptr);
  keep(detail::alias(output).impl_ref());
}

// ---- what hooks have made of a tensor

struct SavedTensor::Packed {
  std::shared_ptr<const detail::SavedTensorFunctions> hooks;
  std::any value;
  Ref<History> producer;  // of an input: its history, which comes back with the elements
  uint32_t producer_output = 0;
  Dims sizes;
  DType dtype;
  Device device;
  Ref<Storage> handed_through;  // null unless `value` is a tensor that shares the elements
};

void SavedTensor::pack(const Tensor& tensor, Ref<History> producer) {
  const NoGrad no_grad;
  const Tensor elements = detail::alias(tensor);
  auto made = std::make_unique<Packed>();
  made->hooks = detail::saved_tensor_hooks->functions_;
  made->value = made->hooks->pack(elements);
  TENDRIL_CHECK_AS(AutogradError, elements.version() == version_,
                   "a saved-tensor hook changed in place the tensor that it was to pack: ", elements.dtype(), " ",
                   elements.sizes());
  made->producer = std::move(producer);
  made->producer_output = tensor.impl()->output_number;
  made->sizes = tensor.sizes();
  made->dtype = tensor.dtype();
  made->device = tensor.device();
  if (const auto* held = std::any_cast<Tensor>(&made->value); held && held->defined()) {
    if (held->storage() == tensor.storage()) made->handed_through = tensor.storage();
  }
  reset();
  impl_.store(reinterpret_cast<TensorImpl*>(made.release()), std::memory_order_relaxed);
  is_packed_ = true;
}

void SavedTensor::drop_packed() noexcept {
  is_packed_ = false;
  delete reinterpret_cast<Packed*>(impl_.exchange(nullptr, std::memory_order_relaxed));
}

void SavedTensor::tell_hooks() const {
  if (packed().hooks->ran) packed().hooks->ran(packed().value);
}

Tensor SavedTensor::unpack_packed(const Node& owner) const {
  const Packed& kept = packed();
  TENDRIL_CHECK_AS(
      AutogradError, !kept.handed_through || kept.handed_through->version() == version_,
      "one of the variables needed for gradient computation has been modified by an inplace operation: ", kept.dtype,
      " ", kept.sizes, " is at version ", kept.handed_through->version(), "; expected version ", version_,
      " instead. It was saved by ", owner.name(), ", and handed through by a saved-tensor hook.");
  Tensor elements;
  {
    const NoGrad no_grad;
    elements = kept.hooks->unpack(kept.value);
  }
  TENDRIL_CHECK_AS(AutogradError, elements.defined(), "a saved-tensor hook unpacked an undefined tensor for ",
                   owner.name());
  TENDRIL_CHECK_AS(AutogradError,
                   elements.sizes() == kept.sizes && elements.dtype() == kept.dtype && elements.device() == kept.device,
                   "a saved-tensor hook unpacked ", elements.dtype(), " ", elements.sizes(), " on ", elements.device(),
                   " for ", owner.name(), ", expected ", kept.dtype, " ", kept.sizes, " on ", kept.device);
  Tensor tensor = detail::alias(elements);
  if (is_output_) {
    if (grad_enabled()) set_history(tensor, Ref<Node>(const_cast<Node*>(&owner)), output_number_);
  } else if (kept.producer) {
    set_history(tensor, Ref<Node>(static_cast<Node*>(kept.producer.get())), kept.producer_output);
  }
  return tensor;
}

namespace {

[[noreturn]] [[gnu::cold]] void throw_modified(const Node& owner, const TensorImpl& impl, const char* producer,
                                               uint32_t output_number, uint32_t expected) {
  std::ostringstream what;
  what << impl.dtype << " " << impl.sizes;
  if (producer) what << ", which is output " << output_number << " of " << producer << ",";
  tendril::detail::raise<AutogradError>(
      "one of the variables needed for gradient computation has been modified by an inplace operation: ", what.str(),
      " is at version ", impl.storage->version(), "; expected version ", expected, " instead. It was saved by ",
      owner.name(), ".");
}

}  // namespace

Tensor SavedTensor::unpack(const Node& owner) const {
  if (!defined()) [[unlikely]] {
    TENDRIL_CHECK_AS(AutogradError, !owner.released(),
                     "Trying to backward through the graph a second time (or directly access saved tensors after they "
                     "have already been freed). Saved intermediate values of the graph are freed when you call "
                     "backward() or autograd::grad(). Specify retain_graph = true if you need to backward through the "
                     "graph a second time or if you need to access saved tensors after calling backward. (",
                     owner.name(), ")");
    return {};
  }
  if (is_packed_) [[unlikely]]
    return unpack_packed(owner);
  TensorImpl& impl = *kept();
  if (impl.storage->version() != version_) [[unlikely]] {
    const auto* producer = is_output_ ? &owner : static_cast<const Node*>(impl.history.get());
    throw_modified(owner, impl, producer && !producer->is_leaf() ? producer->name() : nullptr,
                   is_output_ ? output_number_ : impl.output_number, version_);
  }
  Tensor tensor{Ref(&impl)};
  if (!is_output_ || !grad_enabled()) return tensor;

  tensor = detail::alias(tensor);
  set_history(tensor, Ref<Node>(const_cast<Node*>(&owner)), output_number_);
  return tensor;
}

}  // namespace tendril::autograd
