#include "tendril/autograd/saved.h"

#include "tendril/autograd/history.h"

namespace tendril::autograd {

// A saved view is kept without its base: the base's history may come to lead to this node, which would make a cycle.
// As the elements have not changed when it is unpacked, its history is still right then.
void SavedTensor::save(const Tensor& input) {
  Node* producer = grad_fn(input);  // brings a view's history up to date
  version_ = input.version();
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
  if (kept() == &changed) keep(detail::alias(Tensor(Ref(kept()))).impl_ref());
}

void SavedTensor::save_output(const Tensor& output) {
  keep(detail::alias(output).impl_ref());
  version_ = output.version();
  output_number_ = static_cast<uint16_t>(output.impl()->output_number);
  is_output_ = true;
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
