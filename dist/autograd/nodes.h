#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "tendril/autograd/node.h"
#include "tendril/dist/autograd/ids.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/worker.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// The nodes that connect the graphs of two workers. A recorded message has a SendNode on its sender and a RecvNode on
/// its receiver, joined by the message's id. Both have one output for each tensor of the message that requires a
/// gradient, in the message's order.
namespace tendril::dist::autograd {

namespace detail {

/// Counts of one worker's objects, and the lock on its parameters. Kept alive by nodes, so it may outlive the agent.
struct Census {
  std::atomic<int64_t> contexts{0}, send_nodes{0}, recv_nodes{0}, passes{0};

  /// Held exclusively by an optimizer on this worker while it steps or its state is accessed, and shared by
  /// ReadParameters. With Hogwild, backwards hold it shared, too.
  rpc::detail::SharedMutex parameters;
  std::atomic<bool> hogwild{false};
};

/// Storage for the parts of a node whose number of tensors is known only at run time.
struct NodeParts {
  explicit NodeParts(const std::vector<Tensor>& tensors);
  std::vector<tendril::autograd::OutputInfo> outputs;
  std::vector<Tensor> pending;
};

}  // namespace detail

/// Passes the gradients of sent tensors on to the nodes that produced the tensors. Owned by its context.
class SendNode final : public tendril::autograd::Node {
 public:
  /// `sent`: the message's tensors that require a gradient.
  SendNode(MessageId message, rpc::WorkerId to, const std::vector<Tensor>& sent,
           std::shared_ptr<detail::Census> census);
  ~SendNode() override;

  const char* name() const noexcept override { return "SendBackward"; }
  void apply(std::span<Tensor> output_grads, std::span<Tensor> input_grads) override;
  MessageId message() const noexcept { return message_; }
  rpc::WorkerId to() const noexcept { return to_; }

 private:
  void destroy_now() noexcept override { delete this; }

  const MessageId message_;
  const rpc::WorkerId to_;
  const std::shared_ptr<detail::Census> census_;
  std::vector<tendril::autograd::Edge> edges_;
  detail::NodeParts parts_;
};

/// Sends the gradients of received tensors, including undefined ones, to the worker that sent the tensors. A backward
/// runs it exactly once, because the SendNode waits for one gradient message. Owned by the tensors. `apply` throws
/// AutogradError outside dist::autograd::backward.
class RecvNode final : public tendril::autograd::Node {
 public:
  /// `origins`: the devices of the tensors on the sender. The gradients are sent to these devices.
  RecvNode(ContextId context, MessageId message, rpc::WorkerId from, const std::vector<Tensor>& received,
           std::vector<Device> origins, std::shared_ptr<detail::Census> census);
  ~RecvNode() override;

  const char* name() const noexcept override { return "RecvBackward"; }
  void apply(std::span<Tensor> output_grads, std::span<Tensor> input_grads) override;
  ContextId context() const noexcept { return context_; }
  MessageId message() const noexcept { return message_; }
  rpc::WorkerId from() const noexcept { return from_; }
  const std::vector<Device>& origins() const noexcept { return origins_; }

 private:
  void destroy_now() noexcept override { delete this; }

  const ContextId context_;
  const MessageId message_;
  const rpc::WorkerId from_;
  const std::vector<Device> origins_;
  const std::shared_ptr<detail::Census> census_;
  detail::NodeParts parts_;
};

}  // namespace tendril::dist::autograd

TENDRIL_API_END
