#include "tendril/autograd/function.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "tendril/autograd/grad_mode.h"
#include "tendril/tensor/raw.h"

namespace tendril::autograd {

namespace detail {

std::string demangled(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                    std::free);
  return status == 0 ? name.get() : type.name();
}

}  // namespace detail

std::vector<Tensor> FunctionContext::saved_tensors() const {
  TENDRIL_CHECK_AS(AutogradError, node_, "saved_tensors: only to be asked in backward");
  std::vector<Tensor> tensors;
  tensors.reserve(node_->saved_.size());
  for (const SavedTensor& saved : node_->saved_) tensors.push_back(saved.unpack(*node_));
  return tensors;
}

void FunctionContext::mark_dirty(const std::vector<Tensor>& inputs) {
  for (const Tensor& input : inputs) {
    TENDRIL_CHECK(input.defined(), "mark_dirty: a tensor is undefined");
    const SetGrad as_outside(recorded_);
    check_inplace(input, recorded_);
    dirty_.push_back(input);
  }
}

bool FunctionContext::needs_input_grad(int i) const {
  TENDRIL_CHECK_AS(AutogradError, node_, "needs_input_grad: only to be asked in backward");
  return node_->needs_grad(i);
}

FunctionNode::FunctionNode(std::string name, std::size_t arguments)
    : Node({nullptr, nullptr, nullptr, nullptr, 0, 0, 0}), name_(std::move(name)), edges_(arguments) {
  set_parts({edges_.data(), nullptr, nullptr, nullptr, static_cast<uint32_t>(arguments), 0, 0});
}

void FunctionNode::finish(FunctionContext& ctx, std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                          bool recorded) {
  const auto among = [](const std::vector<Tensor>& tensors, const Tensor& one) {
    return std::any_of(tensors.begin(), tensors.end(), [&](const Tensor& other) { return other.is_same(one); });
  };
  const std::vector<Tensor> to_save = std::exchange(ctx.to_save_, {});
  const std::vector<Tensor> non_differentiable = std::exchange(ctx.non_differentiable_, {});
  const std::vector<Tensor> dirty = std::exchange(ctx.dirty_, {});
  const std::vector<Tensor> given = outputs;
  for (const Tensor& output : given)
    TENDRIL_CHECK_AS(AutogradError, output.defined(), name_, ": an output is undefined");
  for (const Tensor& tensor : to_save)
    TENDRIL_CHECK(tensor.defined(), name_, ": save_for_backward: a tensor is undefined");
  for (const Tensor& tensor : dirty) {
    TENDRIL_CHECK_AS(AutogradError, among(inputs, tensor), name_, ": mark_dirty: a tensor is not an input");
    TENDRIL_CHECK_AS(AutogradError, among(outputs, tensor), name_,
                     ": an input that was marked as dirty is not among the outputs: all that forward changes in place "
                     "must be returned");
    TENDRIL_CHECK_AS(AutogradError, !among(non_differentiable, tensor), name_,
                     ": an input is marked both as dirty and as non-differentiable");
  }
  // An input handed through is an output of its own, with a history of its own.
  for (Tensor& output : outputs) {
    if (among(inputs, output) && !among(dirty, output)) output = detail::alias(output);
  }
  if (!recorded) {
    for (const Tensor& tensor : dirty) tensor.impl()->storage->bump_version();
    return;
  }

  ctx.node_ = this;
  outputs_.resize(outputs.size());
  pending_.resize(outputs.size());
  saved_ = std::vector<SavedTensor>(to_save.size());
  set_parts({edges_.data(), outputs_.data(), pending_.data(), saved_.data(), static_cast<uint32_t>(edges_.size()),
             static_cast<uint32_t>(outputs.size()), static_cast<uint32_t>(to_save.size())});
  std::vector<Tensor> written = outputs;  // whose history is this node: that of a view that was written is another
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    set_output(static_cast<int>(i), outputs[i]);
    if (!is_floating(outputs[i].dtype())) {
      if (among(dirty, given[i])) given[i].impl()->storage->bump_version();
    } else if (among(dirty, given[i])) {
      const EnableGrad recording;
      const Tensor result = detail::alias(outputs[i]);
      set_history(result, Ref<Node>(this), static_cast<uint32_t>(i));
      rebase_history(outputs[i], result);
      written[i] = result;
    } else if (!among(non_differentiable, given[i])) {
      set_history(outputs[i], Ref<Node>(this), static_cast<uint32_t>(i));
    }
  }
  for (std::size_t i = 0; i < to_save.size(); ++i) {
    const auto output =
        std::find_if(outputs.begin(), outputs.end(), [&](const Tensor& one) { return one.is_same(to_save[i]); });
    if (output != outputs.end() && to_save[i].impl()->history) {
      saved_[i].save_output(written[static_cast<std::size_t>(output - outputs.begin())]);
    } else {
      saved_[i].save(to_save[i]);
    }
  }
}

void FunctionNode::apply(std::span<Tensor> output_grads, std::span<Tensor> input_grads) {
  std::vector<Tensor> grads(output_grads.begin(), output_grads.end());
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined()) grads[i] = raw::zeros(outputs_[i].sizes, outputs_[i].dtype, outputs_[i].device);
  }
  const Autocast as_forward(autocast_);
  std::vector<Tensor> results = backward(grads);
  TENDRIL_CHECK_AS(AutogradError, results.size() == input_grads.size(), "function ", name_,
                   " returned an incorrect number of gradients (expected ", input_grads.size(), ", got ",
                   results.size(), ")");
  std::move(results.begin(), results.end(), input_grads.begin());
}

}  // namespace tendril::autograd
