#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "tendril/autograd/node.h"
#include "tendril/dist/autograd/ids.h"
#include "tendril/rpc/threads/mutex.h"
#include "tendril/rpc/worker.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Where a graph leaves one worker and goes on on another: a recorded message is a SendNode where it was sent and a
/// RecvNode where it came, joined by the message's id. Both have one output for each tensor of the message that
/// required a gradient, in the message's order.
namespace tendril::dist::autograd {

namespace detail {

/// How much one worker holds; outlives its agent as long as nodes do.
struct Census {
  std::atomic<int64_t> contexts{0}, send_nodes{0}, recv_nodes{0}, passes{0};

  /// Steps of optimizers on this worker, one at a time; under Hogwild backwards beside each other, but for steps.
  rpc::detail::SharedMutex parameters;
  std::atomic<bool> hogwild{false};
};

/// The parts of a node whose number of tensors is known at run time, in one vector each.
struct NodeParts {
  explicit NodeParts(const std::vector<Tensor>& tensors);
  std::vector<tendril::autograd::OutputInfo> outputs;
  std::vector<Tensor> pending;
};

}  // namespace detail

/// Passes the gradients of the tensors that were sent on to where they came from. Its context holds it.
class SendNode final : public tendril::autograd::Node {
 public:
  /// `sent`: those of the message's tensors that require a gradient.
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

/// Sends the gradients of the tensors that came to where they came from, undefined ones too: a backward runs it exactly
/// once, for the other side waits for one answer. The tensors hold it. Outside dist::autograd::backward it throws.
class RecvNode final : public tendril::autograd::Node {
 public:
  /// `origins`: the devices that the tensors were on where they were sent from; their gradients go back there.
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
