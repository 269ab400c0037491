// Calls served: from the received request to the reply.
#include <algorithm>

#include "tendril/rpc/call/function.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/session/inbound_state.h"
#include "tendril/rpc/session/session.h"
#include "tendril/rpc/system/thread_state.h"
#include "tendril/rpc/transport/flow_control.h"
#include "tendril/rpc/wire/error_message.h"

namespace tendril::rpc::detail {

namespace {

/// Returns the credit that the peer has used for the request. A worker's requests to itself have no frame and cost
/// nothing.
uint64_t cost_of(const Message& request) noexcept {
  return request.frame_bytes > 0 ? request_cost(request.frame_bytes) : 0;
}

}  // namespace

/// A request whose references await their owners' confirmation.
class ParkedRequest final : public ParkedMessage {
 public:
  ParkedRequest(Message&& request, std::shared_ptr<Session> session)
      : ParkedMessage(std::move(request)),
        call_id_(message.call_id),
        cost_(cost_of(message)),
        session_(std::move(session)) {}
  ~ParkedRequest() override { session_->started(cost_); }
  void resume(Message&& confirmed) noexcept override {
    cost_ = 0;
    if (confirmed.timeout_us > 0) {  // its deadline counts from its arrival
      confirmed.timeout_us -= std::min(parked_us(), confirmed.timeout_us - 1);
    }
    session_->dispatch(std::move(confirmed), Clock::now());
  }
  void refuse(std::exception_ptr error) noexcept override {
    if (message.timeout_us > 0 && parked_us() >= message.timeout_us) return session_->drop(call_id_);
    session_->refuse(call_id_, error);
  }

 private:
  uint64_t parked_us() const noexcept {
    const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - arrived_);
    return static_cast<uint64_t>(std::max<int64_t>(waited.count(), 0));
  }

  const uint64_t call_id_;
  uint64_t cost_;
  const std::shared_ptr<Session> session_;
  const Clock::time_point arrived_ = Clock::now();
};

void Session::request_received(Message&& request, Clock::time_point now) {
  // Before the request is counted as received: a shutdown that sees its arrival must see that it is unanswered.
  const bool parks = !request.forks.empty() && agent_->listener;
  std::optional<LazyStopToken> stop =
      served_.admit(request.call_id, {.function = request.function, .received = now, .dispatched = !parks});
  // Also a request that was overtaken by its withdrawal, because it is no longer in flight.
  if (!is_self()) Counters::add(requests_received_);
  if (!stop) return started(cost_of(request));
  if (parks) {
    agent_->listener->message_arrived(peer_, std::make_unique<ParkedRequest>(std::move(request), shared_from_this()));
    agent_->arm_listener_timer();
  } else {
    start(std::move(request), *std::move(stop), now);
  }
}

void Session::dispatch(Message&& request, Clock::time_point now) {
  LazyStopToken stop = served_.dispatch(request.call_id);
  start(std::move(request), std::move(stop), now);
}

/// Starts a request whose references are confirmed. If `stop` has no state, the session has ended.
void Session::start(Message&& request, LazyStopToken stop, Clock::time_point now) {
  const uint64_t call_id = request.call_id;
  const ServedFunction* const function = agent_->functions.find(request.function);
  if (!function) {
    started(cost_of(request));
    return refuse(call_id, std::make_exception_ptr(UnknownFunctionError(describe_unserved(request.function))));
  }
  agent_->note_load(cost_of(request));
  if (!stop.stop_possible()) return;
  auto state = std::make_unique<InboundState>(shared_from_this(), std::move(request), function, std::move(stop), now);
  state->cost = cost_of(state->request);
  if (function->on_reader) {
    const IoCallbackScope io_callback;  // also if this agent calls itself
    InboundState* const raw = state.get();
    raw->run(std::move(state));
    return;
  }
  agent_->loop->post(std::move(state));
}

bool Session::hold_back(std::unique_ptr<Job>& request) noexcept try {
  if (!link_ || !link_->congested()) return false;
  const std::shared_ptr<Session> self = shared_from_this();  // the request may be destroyed once it is held
  if (!served_.hold(request, [&] { return link_->congested(); })) return false;
  // A peer that does not read its replies must at least answer pings.
  if (agent_->options.ping_interval.count() > 0) agent_->arm(Clock::now() + agent_->options.ping_interval);
  return true;
} catch (...) {
  return request == nullptr;  // no memory to hold it back: it starts
}

void Session::uncongested(Link&) {
  for (auto& request : served_.take_held()) agent_->loop->post(std::move(request));
}

void Session::refuse(uint64_t call_id, const std::exception_ptr& error) noexcept try {
  Message message = error_message(error, link_ ? link_->peer_limits().max_payload_bytes : UINT64_MAX);
  message.call_id = call_id;
  answer(std::move(message));
} catch (...) {  // not even the error could be sent (no memory): the caller sees a lost connection
  end(std::make_exception_ptr(PeerLostError(name_of(peer_) + ": a call could not be answered", true)),
      {.may_return = true});
}

void Session::answer(Message&& reply) {
  const uint64_t call_id = reply.call_id;
  const MessageKind kind = reply.kind;
  if (is_self()) reply = looped_back(std::move(reply));
  // Before the reply is sent, because its receiver may look at this worker's counters.
  std::optional<CallServed> entry = served_.take(call_id);
  if (!entry) return;
  Counters::add(agent_->counters.served);
  if (is_self()) return complete(std::move(reply), Clock::now());
  bool forked = false;
  bool sent = false;
  std::optional<ListenerScope> told;
  try {
    if (!reply.references.empty() && agent_->listener) {
      if (!told.emplace(*this)) return;  // the session is over, and with it the call
      agent_->listener->on_send(peer_, reply);
      forked = true;
    }
    sent = link_->send(std::move(reply));
  } catch (...) {
    if (forked) agent_->listener->message_not_sent(peer_, kind, call_id);
    agent_->counters.served.fetch_sub(1, std::memory_order_relaxed);  // it still has to be answered
    served_.put_back(call_id, std::move(*entry));
    throw;
  }
  if (!sent && forked) agent_->listener->message_not_sent(peer_, kind, call_id);
}

void Session::drop(uint64_t call_id) {
  Counters::add(agent_->counters.dropped);
  served_.take(call_id);
}

void Session::list_received(Clock::time_point now, std::vector<CallReceived>& out) const {
  using State = CallReceived::State;
  served_.for_each([&](uint64_t call_id, const CallServed& call, bool held) {
    const State state = !call.dispatched ? State::waiting_for_references : held ? State::held_back : State::suspended;
    out.push_back({.call_id = call_id,
                   .caller = peer_,
                   .function = call.function,
                   .state = state,
                   .age = std::max<std::chrono::nanoseconds>(now - call.received, {})});
  });
}

}  // namespace tendril::rpc::detail
