#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "tendril/dist/autograd/ids.h"
#include "tendril/dist/autograd/pass_protocol.h"
#include "tendril/rpc/wire/message.h"
#include "tendril/tensor/tensor.h"

/// What workers say to each other about contexts and passes: requests of functions that every agent with a Container
/// serves. Layouts are in docs/distributed_autograd.md. Reading throws rpc::MessageError.
namespace tendril::dist::autograd::detail {

/// Which pass, and how it goes about it.
struct PassHeader {
  ContextId context = 0;
  PassId pass = 0;
  bool retain_graph = false;
  bool fast = false;
  bool resolved = false;  ///< all marks are set
};

struct GradientMessage {
  PassHeader header;
  MessageId message = 0;
  std::vector<Tensor> gradients;  ///< one for each output of the send node; undefined: zero
};

struct MarkMessage {
  PassHeader header;
  std::vector<MessageId> messages;
};

struct ReleaseMessage {
  ContextId context = 0;
  uint64_t oldest_alive = 0;  ///< of the contexts of its maker, by number: what is older has been released
};

/// The answer to a gradient, a mark or a resolve.
struct Answer {
  std::vector<WorkerReport> reports;
  std::exception_ptr error;  ///< null: none
};

/// Each gradient goes to the device in its place of `to`.
rpc::Message write_gradient(const PassHeader& header, MessageId message, std::span<Tensor> gradients,
                            const std::vector<Device>& to);
rpc::Message write_mark(const PassHeader& header, const std::vector<MessageId>& messages);
rpc::Message write_resolve(const PassHeader& header);
rpc::Message write_over(const PassHeader& header);
rpc::Message write_release(const ReleaseMessage& release);

GradientMessage read_gradient(rpc::Message& request);
MarkMessage read_mark(rpc::Message& request);
PassHeader read_resolve(rpc::Message& request);
PassHeader read_over(rpc::Message& request);
ReleaseMessage read_release(rpc::Message& request);

/// The answer to an over or a release. `incomplete`: a worker that should have heard of it cannot be reached from here,
/// so whoever began must tell everybody.
rpc::Message write_heard(bool incomplete);
bool read_heard(rpc::Message& reply);

rpc::Message write_answer(const std::vector<WorkerReport>& reports);
/// `self` is the worker that reports it. An error that came from another worker keeps that one's name.
rpc::Message write_error(const std::exception_ptr& error, const std::string& self);
Answer read_answer(rpc::Message& reply);

}  // namespace tendril::dist::autograd::detail
