#include "tendril/autograd/history.h"

#include "tendril/autograd/detail/window.h"
#include "tendril/autograd/hooks.h"
#include "tendril/tensor/raw.h"

namespace tendril::autograd {

namespace detail {

Tensor alias(const Tensor& tensor) {
  const TensorImpl& from = *tensor.impl();
  Ref<TensorImpl> to = TensorImpl::make(from.storage);
  to->offset = from.offset;
  to->numel = from.numel;
  to->sizes = from.sizes;
  to->strides = from.strides;
  to->dtype = from.dtype;
  to->contiguous = from.contiguous;
  return Tensor(std::move(to));
}

void renew_leaf(const Tensor& leaf, Tensor gradient) {
  TensorImpl& impl = *leaf.impl();
  Ref<History>& place = impl.history ? impl.history : impl.frozen;
  if (!place) return;
  auto* node = new AccumulateGrad(leaf);
  const Ref<Node> owner(node);
  if (const NodeHooks* hooks = static_cast<Node&>(*place).hooks()) node->make_hooks() = *hooks;
  node->set_grad(std::move(gradient));
  node->set_frozen(!impl.history);
  place = owner;
}

}  // namespace detail

void Node::derive(TensorImpl& view) {
  const EnableGrad recording;  // the history belongs to the view, however it is looked at
  const Ref<Node> before(static_cast<Node*>(view.history.get()));
  const auto* retained = before && before->hooks() ? before->hooks()->find_retained(view.output_number) : nullptr;
  record_window(Tensor(Ref<TensorImpl>(&view)), Tensor(view.view_base), window_of_view(view), "AsStridedBackward");
  // A copy: the parts of a split, which share a node, may be looked at by several threads.
  auto* node = static_cast<Node*>(view.history.get());
  if (retained && node) node->make_hooks().retained.push_back({view.output_number, retained->grad});
}

void mark_view(const Tensor& view, const Tensor& base) {
  const TensorImpl& from = *base.impl();
  TensorImpl& to = *view.impl();
  to.view_base = from.view_base ? from.view_base : base.impl_ref();
  to.view_version.store(to.storage->version(), std::memory_order_relaxed);
  to.multi_output_view = from.multi_output_view;
  to.no_grad_view = from.no_grad_view || !grad_enabled();
}

void check_inplace(const Tensor& target, bool recorded) {
  const TensorImpl& impl = *target.impl();
  TENDRIL_CHECK(!is_expanded(target),
                "unsupported operation: more than one element of the written-to tensor refers to a single memory "
                "location. Please clone() the tensor before performing the operation.");
  if (!grad_enabled() || !recorded) return;
  const Node* node = grad_fn(target);
  if (impl.view_base) {
    TENDRIL_CHECK_AS(AutogradError, !impl.multi_output_view, "Output ", impl.output_number, " of ",
                     node ? node->name() : "a multi-view function",
                     " is a view and is being modified inplace. This view is the output of a function that returns "
                     "multiple views. Such functions do not allow the output views to be modified inplace. You should "
                     "replace the inplace operation by an out-of-place one.");
    TENDRIL_CHECK_AS(AutogradError, !impl.no_grad_view,
                     "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given "
                     "that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by "
                     "moving both the view and the inplace either both inside the no_grad block (if you don't want the "
                     "inplace to be tracked) or both outside (if you want the inplace to be tracked).");
    const auto* base = static_cast<const Node*>(impl.view_base->history.get());
    TENDRIL_CHECK_AS(
        AutogradError, !base || !base->is_leaf(),
        "a view of a leaf Variable that requires grad is being used in an in-place operation. To change it without "
        "recording, as an optimizer does, open a NoGrad first.");
  }
  TENDRIL_CHECK_AS(AutogradError, !node || !node->is_leaf(),
                   "a leaf Variable that requires grad is being used in an in-place operation. To change it without "
                   "recording, as an optimizer does, open a NoGrad first.");
}

namespace {

/// retain_grad() speaks of the tensor, whatever node makes it.
void move_retained(Node* from, uint32_t from_output, Node* to, uint32_t to_output) {
  if (!from || !from->hooks()) return;
  auto* entry = from->hooks()->find_retained(from_output);
  if (!entry) return;
  if (to) to->make_hooks().retained.push_back({to_output, std::move(entry->grad)});
  from->hooks()->retained.erase(from->hooks()->retained.begin() + (entry - from->hooks()->retained.data()));
}

}  // namespace

void rebase_history(const Tensor& target, const Tensor& result) {
  TensorImpl& impl = *target.impl();
  Ref<Node> before(static_cast<Node*>(impl.history.get()));
  const uint32_t output_before = impl.output_number;
  if (impl.view_base) {
    const Tensor base(impl.view_base);
    const Tensor written = detail::alias(base);
    record_copy_slices(written, base, result, window_of_view(impl));
    impl.storage->bump_version();
    Ref<Node> base_before(static_cast<Node*>(base.impl()->history.get()));
    const uint32_t base_output_before = base.impl()->output_number;
    set_history(base, Ref<Node>(static_cast<Node*>(written.impl()->history.get())));
    base.impl()->frozen.reset();  // a leaf no more
    // Owners: this view, and `base` here.
    Node::forget_changed(*base.impl(), 2, static_cast<Node*>(result.impl()->history.get()), before.get());
    move_retained(base_before.get(), base_output_before, static_cast<Node*>(base.impl()->history.get()), 0);
    impl.current_history();  // what it retains goes along
  } else {
    impl.storage->bump_version();
    Node::forget_changed(impl, 1, static_cast<Node*>(result.impl()->history.get()), before.get());
    set_history(target, Ref<Node>(static_cast<Node*>(result.impl()->history.get())), result.impl()->output_number);
    impl.frozen.reset();
    move_retained(before.get(), output_before, static_cast<Node*>(impl.history.get()), impl.output_number);
  }
}

}  // namespace tendril::autograd

namespace tendril {

using autograd::AccumulateGrad;
using autograd::Node;

namespace {

/// Of a leaf that requires a gradient, or did; else null.
AccumulateGrad* leaf_of(const Tensor& tensor) {
  if (Node* node = autograd::grad_fn(tensor)) return node->is_leaf() ? static_cast<AccumulateGrad*>(node) : nullptr;
  return static_cast<AccumulateGrad*>(tensor.impl()->frozen.get());
}

/// The leaf requires no gradient from here on. What it has got, and its hooks, are kept. An alias of it, which a
/// checkpoint or a hook of saved tensors has made, only leaves its history.
void freeze(TensorImpl& leaf) {
  auto& node = static_cast<AccumulateGrad&>(*leaf.history);
  if (!node.is_of(leaf)) return leaf.history.reset();
  node.set_frozen(true);
  leaf.frozen = std::move(leaf.history);
}

}  // namespace

bool Tensor::requires_grad() const { return autograd::requires_grad(*this); }

bool Tensor::is_leaf() const {
  detail::check_defined(*this, "is_leaf");
  const Node* node = autograd::grad_fn(*this);
  return !node || node->is_leaf();
}

const Tensor& Tensor::requires_grad_(bool value) const {
  detail::check_defined(*this, "requires_grad_");
  const Node* node = autograd::grad_fn(*this);
  if (value == (node != nullptr)) return *this;
  TENDRIL_CHECK_AS(AutogradError, !node || node->is_leaf(),
                   "you can only change requires_grad flags of leaf variables. If you want to use a computed variable "
                   "in a subgraph that doesn't require differentiation use var_no_grad = var.detach().");
  if (!value) {
    freeze(*impl_);
    return *this;
  }
  TENDRIL_CHECK_AS(DTypeError, is_floating(dtype()), "only Tensors of floating point dtype can require gradients, got ",
                   dtype());
  impl_->view_base.reset();  // a leaf of its own, which later changes of the base's history do not touch
  if (impl_->frozen) {
    leaf_of(*this)->set_frozen(false);
    impl_->history = std::move(impl_->frozen);
  } else {
    autograd::set_history(*this, Ref<Node>(new AccumulateGrad(*this)));
  }
  return *this;
}

Tensor Tensor::grad() const {
  detail::check_defined(*this, "grad");
  if (const AccumulateGrad* leaf = leaf_of(*this)) return leaf->grad();
  Node* node = autograd::grad_fn(*this);
  if (!node) return {};
  const auto* entry = node->hooks() ? node->hooks()->find_retained(impl_->output_number) : nullptr;
  return entry ? entry->grad : Tensor();
}

void Tensor::set_grad(const Tensor& g) const {
  detail::check_defined(*this, "set_grad");
  AccumulateGrad* leaf = leaf_of(*this);
  TENDRIL_CHECK_AS(AutogradError, leaf || !g.defined(),
                   "set_grad: only a leaf that requires a gradient, or did, can be given one");
  if (g.defined()) {
    TENDRIL_CHECK_AS(AutogradError, !g.is_same(*this), "can't assign Variable as its own grad");
    TENDRIL_CHECK_AS(ShapeError, g.sizes() == sizes(), "assigned grad has data of a different size: got ", g.sizes(),
                     ", expected ", sizes());
    TENDRIL_CHECK_AS(DTypeError, g.dtype() == dtype(), "assigned grad has data of a different type: got ", g.dtype(),
                     ", expected ", dtype());
    TENDRIL_CHECK(g.device() == device(), "assigned grad has data located on a different device: got ", g.device(),
                  ", expected ", device());
  }
  if (leaf) leaf->set_grad(g);
}

void Tensor::zero_grad() const {
  detail::check_defined(*this, "zero_grad");
  if (AccumulateGrad* leaf = leaf_of(*this)) {
    leaf->set_grad({});
  } else if (Node* node = autograd::grad_fn(*this); node && node->hooks()) {
    if (auto* entry = node->hooks()->find_retained(impl_->output_number)) entry->grad = {};
  }
}

Tensor Tensor::detach() const {
  detail::check_defined(*this, "detach");
  return autograd::detail::alias(*this);
}

const Tensor& Tensor::detach_() const {
  detail::check_defined(*this, "detach_");
  TENDRIL_CHECK_AS(AutogradError, !impl_->view_base || !requires_grad(),
                   "Can't detach views in-place. Use detach() instead.");
  if (requires_grad() && is_leaf()) {
    freeze(*impl_);
  } else {
    impl_->history.reset();
  }
  impl_->output_number = 0;
  return *this;
}

void Tensor::retain_grad() const {
  detail::check_defined(*this, "retain_grad");
  Node* node = autograd::grad_fn(*this);
  TENDRIL_CHECK_AS(AutogradError, node, "can't retain_grad on Tensor that has requires_grad=False");
  if (node->is_leaf()) return;
  autograd::NodeHooks& hooks = node->make_hooks();
  if (!hooks.find_retained(impl_->output_number)) hooks.retained.push_back({impl_->output_number, {}});
}

}  // namespace tendril
