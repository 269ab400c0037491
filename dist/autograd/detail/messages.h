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

/// The messages between workers about contexts and passes: requests to functions that every agent with a Container
/// serves. Their layouts are in docs/distributed_autograd.md. The `read_` functions throw rpc::MessageError if a
/// message is malformed.
namespace tendril::dist::autograd::detail {

/// Identifies a pass, and holds its options and state.
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
  std::vector<Tensor> gradients;  ///< one per output of the send node; undefined means zero
};

struct MarkMessage {
  PassHeader header;
  std::vector<MessageId> messages;
};

struct ReleaseMessage {
  ContextId context = 0;
  uint64_t oldest_alive = 0;  ///< count of the maker's oldest living context: all older ones have been released
};

/// The answer to a gradient, a mark or a resolve.
struct Answer {
  std::vector<WorkerReport> reports;
  std::exception_ptr error;  ///< null on success
};

/// `to[i]` is the device to which gradient i is sent.
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

/// The answer to an over or a release. `incomplete`: a worker to which the message must be forwarded cannot be reached,
/// so the worker that started it must send it to all workers.
rpc::Message write_acknowledgement(bool incomplete);
bool read_acknowledgement(rpc::Message& reply);

rpc::Message write_answer(const std::vector<WorkerReport>& reports);
/// `self` is the name of the worker that reports the error. A RemoteError keeps the name of the worker that it names.
rpc::Message write_error(const std::exception_ptr& error, const std::string& self);
Answer read_answer(rpc::Message& reply);

}  // namespace tendril::dist::autograd::detail
