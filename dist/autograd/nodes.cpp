#include "tendril/dist/autograd/nodes.h"

#include "tendril/autograd/history.h"
#include "tendril/dist/autograd/detail/pass.h"

namespace tendril::dist::autograd {

using tendril::autograd::gradient_edge;

namespace detail {

NodeParts::NodeParts(const std::vector<Tensor>& tensors) : pending(tensors.size()) {
  outputs.reserve(tensors.size());
  for (const Tensor& tensor : tensors) outputs.push_back({tensor.sizes(), tensor.dtype(), tensor.device()});
}

}  // namespace detail

SendNode::SendNode(MessageId message, rpc::WorkerId to, const std::vector<Tensor>& sent,
                   std::shared_ptr<detail::Census> census)
    : Node(Parts{}), message_(message), to_(to), census_(std::move(census)), parts_(sent) {
  edges_.reserve(sent.size());
  for (const Tensor& tensor : sent) edges_.push_back(gradient_edge(tensor));
  const auto count = static_cast<uint32_t>(sent.size());
  set_parts({edges_.data(), parts_.outputs.data(), parts_.pending.data(), nullptr, count, count, 0});
  census_->send_nodes.fetch_add(1, std::memory_order_relaxed);
}

SendNode::~SendNode() { census_->send_nodes.fetch_sub(1, std::memory_order_relaxed); }

void SendNode::apply(std::span<Tensor> output_grads, std::span<Tensor> input_grads) {
  for (std::size_t i = 0; i < output_grads.size(); ++i) input_grads[i] = std::move(output_grads[i]);
}

RecvNode::RecvNode(ContextId context, MessageId message, rpc::WorkerId from, const std::vector<Tensor>& received,
                   std::vector<Device> origins, std::shared_ptr<detail::Census> census)
    : Node(Parts{}),
      context_(context),
      message_(message),
      from_(from),
      origins_(std::move(origins)),
      census_(std::move(census)),
      parts_(received) {
  const auto count = static_cast<uint32_t>(received.size());
  set_parts({nullptr, parts_.outputs.data(), parts_.pending.data(), nullptr, 0, count, 0});
  set_always_run();
  for (uint32_t i = 0; i < count; ++i) tendril::autograd::set_history(received[i], Ref<Node>(this), i);
  census_->recv_nodes.fetch_add(1, std::memory_order_relaxed);
}

RecvNode::~RecvNode() { census_->recv_nodes.fetch_sub(1, std::memory_order_relaxed); }

void RecvNode::apply(std::span<Tensor> output_grads, std::span<Tensor>) {
  detail::Pass* const pass = detail::Pass::running();
  TENDRIL_CHECK_AS(AutogradError, pass != nullptr, "backward: the graph continues on rank ", from_,
                   ", from which a tensor was received: call dist::autograd::backward(context, {root}) instead");
  pass->send(*this, output_grads);
}

}  // namespace tendril::dist::autograd
