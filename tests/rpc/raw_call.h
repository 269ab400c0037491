#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/future.h"

/// Calls that carry bytes, for tests of the layers below typed calls.
namespace rpc_test {

using namespace tendril::rpc;
using namespace std::chrono_literals;

/// A function table to which tests add functions before they make agents.
class Functions final : public FunctionTable {
 public:
  explicit Functions(void (*fill)(Functions&)) { fill(*this); }
  void add(uint64_t id, std::string name, void (*invoke)(InboundCall&)) {
    ServedFunction& function = functions_[id];
    function.name = std::move(name);
    function.invoke = invoke;
  }
  const ServedFunction* find(uint64_t id) const noexcept override {
    const auto found = functions_.find(id);
    return found == functions_.end() ? nullptr : &found->second;
  }

 private:
  std::map<uint64_t, ServedFunction> functions_;
};

/// The future of a call's undecoded reply.
class RawCall final : public FutureState<Message>, public PendingCall {
 public:
  using FutureState<Message>::FutureState;
  void complete(Message&& reply) noexcept override { try_set_value(std::move(reply)); }
  void fail(std::exception_ptr error) noexcept override { try_set_error(std::move(error)); }
};

inline Future<Message> call(Agent& agent, WorkerId to, Message request, const CallOptions& options = {}) {
  tendril::Ref<RawCall> state(new RawCall(&agent.executor()));
  agent.call(to, std::move(request), state, options);
  return Future<Message>(std::move(state));
}

inline Message request(uint64_t function, std::string_view text = "") {
  Message message;
  message.function = function;
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  message.payload.assign(bytes, bytes + text.size());
  return message;
}

inline std::string text(const Message& message) {
  return {reinterpret_cast<const char*>(message.payload.data()), message.payload.size()};
}

inline Message reply(std::string_view content) { return request(0, content); }

}  // namespace rpc_test
