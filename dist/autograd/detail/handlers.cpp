#include "tendril/dist/autograd/detail/handlers.h"

#include <memory>
#include <string>

#include "tendril/dist/autograd/container.h"
#include "tendril/dist/autograd/detail/context_state.h"
#include "tendril/dist/autograd/detail/messages.h"
#include "tendril/dist/autograd/detail/pass.h"
#include "tendril/rpc/call/inbound_call.h"
#include "tendril/rpc/error.h"

namespace tendril::dist::autograd {

/// Handles requests at the container of the agent that received them.
struct Handlers {
  /// Returns the pass of a message; begins it if this is its first message here. If the previous pass has failed but
  /// not ended yet, moves from `call`, returns null, and passes the call to `again` when that pass has ended.
  static std::shared_ptr<detail::Pass> pass_of(rpc::InboundCall& call, const detail::PassHeader& header,
                                               const std::function<void(rpc::InboundCall)>& again) {
    const auto container = Container::of(call.agent());
    const rpc::WorkerId root = worker_of(header.pass);
    TENDRIL_CHECK_AS(rpc::MessageError, root >= 0 && root < container->world_size_,
                     "backward: received a message of a pass of rank ", root, ", which is not in this group");
    const auto context = container->require(header.context, "backward");
    auto pass = context->find_or_begin_pass(header, call.context().deadline, container->transmitter_);
    if (pass->id() == header.pass) return pass;
    // A root begins a pass only after the previous one is over, so that one has failed and its end has not arrived yet.
    TENDRIL_CHECK_AS(AutogradError, worker_of(pass->id()) == root && pass->id() < header.pass,
                     "backward: another backward of this context is running, begun by rank ", worker_of(pass->id()));
    auto kept = std::make_shared<rpc::InboundCall>(std::move(call));
    pass->fail(
        std::make_exception_ptr(AutogradError("backward: cancelled by its root, which has begun another backward")));
    pass->abandon();
    pass->when_ended([kept, again] { again(std::move(*kept)); });
    return nullptr;
  }

  /// Calls `f(pass, call, message)`, or answers with the error.
  template <class Read, class F>
  static void with_pass(rpc::InboundCall call, std::shared_ptr<Read> message, F f) {
    const std::string self = call.agent().self().name;
    try {
      const detail::PassHeader& header = header_of(*message);
      const auto again = [message, f](rpc::InboundCall later) { with_pass(std::move(later), message, f); };
      if (const auto pass = pass_of(call, header, again)) f(*pass, std::move(call), *message);
    } catch (...) {
      if (!call.answered()) call.reply(detail::write_error(std::current_exception(), self));
    }
  }
  static const detail::PassHeader& header_of(const detail::PassHeader& header) { return header; }
  template <class Message>
  static const detail::PassHeader& header_of(const Message& message) {
    return message.header;
  }

  static void over(rpc::InboundCall call) {
    const detail::PassHeader header = detail::read_over(call.request());
    const auto context = Container::of(call.agent())->find(header.context);
    const auto pass = context ? context->pass() : nullptr;
    if (pass && pass->id() == header.pass) return pass->over(std::move(call));
    if (context) context->note_failed(header.pass);  // later messages of the pass are refused
    call.reply(detail::write_acknowledgement(false));
  }

  static void release(rpc::InboundCall call) {
    const detail::ReleaseMessage message = detail::read_release(call.request());
    const auto container = Container::of(call.agent());
    const rpc::WorkerId from = call.from().id;
    auto kept = std::make_shared<rpc::InboundCall>(std::move(call));
    // Answered after the workers to which this one forwards the release, so that the maker learns of lost workers.
    container->release_here(message.context, message.oldest_alive, from,
                            [kept](bool incomplete) { kept->reply(detail::write_acknowledgement(incomplete)); });
  }
};

namespace detail {

namespace {

template <class Request>
const rpc::detail::FunctionEntry& entry() {
  static rpc::detail::FunctionEntry* const instance = [] {
    auto* made = new rpc::detail::FunctionEntry(typeid(Request), typeid(void()), &Request::invoke);
    made->served.on_reader = Request::kOnReader;
    return made;
  }();
  return *instance;
}

}  // namespace

// The id of each request is derived from the name of its type.

struct ContextGradient {
  static constexpr bool kOnReader = true;
  static void invoke(rpc::InboundCall& call) {
    auto message = std::make_shared<GradientMessage>(read_gradient(call.request()));
    Handlers::with_pass(std::move(call), std::move(message), [](Pass& pass, rpc::InboundCall c, GradientMessage& m) {
      pass.gradient(std::move(c), std::move(m));
    });
  }
};

struct ContextMark {
  static constexpr bool kOnReader = false;  // walks the graph
  static void invoke(rpc::InboundCall& call) {
    auto message = std::make_shared<MarkMessage>(read_mark(call.request()));
    Handlers::with_pass(std::move(call), std::move(message),
                        [](Pass& pass, rpc::InboundCall c, MarkMessage& m) { pass.mark(std::move(c), m.messages); });
  }
};

struct ContextResolve {
  static constexpr bool kOnReader = true;
  static void invoke(rpc::InboundCall& call) {
    auto header = std::make_shared<PassHeader>(read_resolve(call.request()));
    Handlers::with_pass(std::move(call), std::move(header),
                        [](Pass& pass, rpc::InboundCall c, PassHeader&) { pass.resolve(std::move(c)); });
  }
};

struct ContextOver {
  static constexpr bool kOnReader = false;  // frees a graph
  static void invoke(rpc::InboundCall& call) { Handlers::over(std::move(call)); }
};

struct ContextRelease {
  static constexpr bool kOnReader = false;  // frees a graph
  static void invoke(rpc::InboundCall& call) { Handlers::release(std::move(call)); }
};

rpc::FunctionId function_of(RequestKind kind) {
  switch (kind) {
    case RequestKind::gradient:
      return entry<ContextGradient>().id;
    case RequestKind::mark:
      return entry<ContextMark>().id;
    case RequestKind::resolve:
      return entry<ContextResolve>().id;
    case RequestKind::over:
      return entry<ContextOver>().id;
    case RequestKind::release:
      return entry<ContextRelease>().id;
  }
  return 0;
}

void serve_requests() {
  rpc::detail::register_function(entry<ContextGradient>());
  rpc::detail::register_function(entry<ContextMark>());
  rpc::detail::register_function(entry<ContextResolve>());
  rpc::detail::register_function(entry<ContextOver>());
  rpc::detail::register_function(entry<ContextRelease>());
}

}  // namespace detail
}  // namespace tendril::dist::autograd
