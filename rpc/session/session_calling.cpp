// Calls made: sending, replies, deadlines, cancellation.
#include <algorithm>
#include <new>
#include <sstream>

#include "tendril/rpc/call/function.h"
#include "tendril/rpc/device/transfer.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/session/session.h"
#include "tendril/rpc/system/thread_state.h"
#include "tendril/rpc/threads/trace.h"
#include "tendril/rpc/transport/flow_control.h"
#include "tendril/rpc/wire/error_message.h"

namespace tendril::rpc::detail {

namespace {

Clock::time_point deadline_of(const CallOptions& options, const CallContext& context, std::chrono::microseconds usual,
                              Clock::time_point now) {
  if (!options.timeout && context.deadline != Clock::time_point::max()) return context.deadline;
  const std::chrono::microseconds timeout = options.timeout.value_or(usual);
  return timeout.count() == 0 ? Clock::time_point::max() : deadline_after(timeout, now);
}

/// The error of a call that has been taken out, and so must fail with some error even if there is no memory for this
/// one.
template <class MakeError>
std::exception_ptr error_from(MakeError make) noexcept {
  try {
    return std::make_exception_ptr(make());
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

/// A reply whose references await their owners' confirmation. Its call stays pending meanwhile.
class ParkedReply final : public ParkedMessage {
 public:
  ParkedReply(Message&& reply, std::shared_ptr<Session> session)
      : ParkedMessage(std::move(reply)), call_id_(message.call_id), session_(std::move(session)) {}
  void resume(Message&& confirmed) noexcept override { session_->complete(std::move(confirmed), Clock::now()); }
  void refuse(std::exception_ptr error) noexcept override {
    if (auto call = session_->made_.take(call_id_)) session_->fail(std::move(*call), error);
  }

 private:
  const uint64_t call_id_;
  const std::shared_ptr<Session> session_;
};

void Session::call(Message&& request, PendingCallRef call, const CallOptions& options) {
  Counters::add(agent_->counters.made);
  const CallContext& context = CallContext::current();
  CallMade pending{.open = OpenCall(agent_->counters)};
  pending.call = std::move(call);
  pending.function = request.function;
  pending.started = Clock::now();
  pending.deadline =
      deadline_of(options, context, std::chrono::microseconds(agent_->rpc_timeout_us.load(std::memory_order_relaxed)),
                  pending.started);
  const std::stop_token stop = options.stop.stop_possible() ? options.stop : std::stop_token(context.stop);
  if (pending.deadline <= pending.started) {
    return fail(std::move(pending), std::make_exception_ptr(TimeoutError(
                                        call_of(request.function) + ": the deadline had passed before it was sent")));
  }
  if (stop.stop_requested()) {
    return fail(std::move(pending),
                std::make_exception_ptr(CancelledError(call_of(request.function) + ": cancelled before it was sent")));
  }

  request.kind = MessageKind::request;
  request.autograd_context = context.autograd_context;
  request.trace_id = context.trace_id;
  request.span_id = context.span_id;
  request.depth = context.depth;
  TraceSend traced;
  if (Trace* const trace = agent_->trace.get()) {
    pending.span = trace->begin_call(context, request);
    traced.begin(*trace, {.kind = TraceSpan::Kind::send,
                          .peer = peer_.id,
                          .function = request.function,
                          .trace_id = request.trace_id,
                          .span_id = pending.span,
                          .parent = context.span_id,
                          .start_ns = trace_ns(pending.started)});
  }
  if (context.extension) request.extension = *context.extension;
  if (pending.deadline != Clock::time_point::max()) {
    const auto left = std::chrono::duration_cast<std::chrono::microseconds>(pending.deadline - pending.started);
    request.timeout_us = static_cast<uint64_t>(std::max<int64_t>(left.count(), 1));
  }
  std::optional<Staging> staging;
  try {
    routes_.place(request);  // first, so that no hook records a request that cannot be sent
    for (const auto& hook : agent_->hooks) hook->before_send(peer_, request);
    if (!is_self() && needs_staging(request)) staging.emplace(request, stamp_of(context.origin), lender());
  } catch (...) {
    return fail(std::move(pending), std::current_exception());
  }

  if (!is_self() && !request.tensors.empty()) pending.tensors = request.sent_tensors = std::make_shared<SentTensors>();
  const Clock::time_point deadline = pending.deadline, sent_at = pending.started;
  const uint64_t call_id = made_.enter(std::move(pending));
  if (call_id == 0) {  // `pending` is unchanged
    // NOLINTNEXTLINE(bugprone-use-after-move)
    return fail(std::move(pending), std::make_exception_ptr(PeerLostError(
                                        call_of(request.function) + ": it is not connected any more", false)));
  }
  try {
    if (stop.stop_possible()) {
      made_.watch(call_id, std::make_unique<CancelCallback>(stop, CancelCall{weak_from_this(), call_id}));
    }
    const auto ping = agent_->options.ping_interval;
    agent_->arm(!is_self() && ping.count() > 0 ? std::min(deadline, sent_at + ping) : deadline);
    if (staging && must_not_wait() && !staging->done()) {
      return post(*agent_->loop,
                  [self = shared_from_this(), call_id, request = std::move(request), staging = std::move(*staging),
                   deadline]() mutable { self->send_request(call_id, std::move(request), &staging, deadline); });
    }
  } catch (...) {
    if (auto entered = made_.take(call_id)) fail(std::move(*entered), std::current_exception());
    return;
  }
  send_request(call_id, std::move(request), staging ? &*staging : nullptr, deadline);
}

void Session::send_request(uint64_t call_id, Message&& request, Staging* staging, Clock::time_point deadline) {
  request.call_id = call_id;
  const uint64_t function = request.function;
  bool forked = false, counted = false, sent = false;
  std::exception_ptr error;
  const bool refers = !is_self() && !request.references.empty() && agent_->listener;
  std::optional<ListenerScope> told;
  bool cancelled = false;
  if (refers && !made_.begin_leaving(call_id, cancelled)) return;
  try {
    if (staging) staging->wait();
    if (is_self()) {
      try {
        request_received(looped_back(std::move(request)), Clock::now());
      } catch (...) {
        served_.take(call_id);  // it may have been admitted, and will not be answered
        throw;
      }
      sent = true;
    } else {
      if (refers && told.emplace(*this)) {
        agent_->listener->on_send(peer_, request);
        forked = true;
      }
      if (forked == refers) {
        counted = true;
        Counters::add(requests_sent_);  // before it leaves, so that no request is in flight uncounted
        sent = link_->send(std::move(request));
      }
      if (!sent) {
        error = std::make_exception_ptr(
            PeerLostError(call_of(function) + ": the connection was closed before it was sent", false));
      }
    }
  } catch (...) {
    error = std::current_exception();
  }
  if (refers) made_.end_leaving(call_id);
  if (sent) {
    told.reset();
    if (cancelled) send_cancel(call_id, false);
    if (link_ && link_->waits_for_room(call_id)) {
      if (made_.contains(call_id)) {
        link_->wait_for_room(call_id, deadline);
      } else if (link_->withdraw(call_id)) {  // the call ended before its request was queued
        requests_sent_.fetch_sub(1, std::memory_order_relaxed);
      }
    }
    return;
  }
  if (counted) requests_sent_.fetch_sub(1, std::memory_order_relaxed);
  if (forked) agent_->listener->message_not_sent(peer_, MessageKind::request, call_id);
  told.reset();  // before continuations run
  if (auto pending = made_.take(call_id)) fail(std::move(*pending), error);
}

std::string Session::call_of(uint64_t function) const {
  return "call of " + name_of_function(function) + " on " + name_of(peer_);
}

void Session::fail_as_lost(CallMade pending, const std::exception_ptr& error) noexcept {
  std::exception_ptr mine = error;
  try {
    std::rethrow_exception(error);
  } catch (const PeerLostError& lost) {
    try {
      mine = std::make_exception_ptr(
          PeerLostError("call of " + name_of_function(pending.function) + ": " + lost.what(), lost.may_have_run()));
    } catch (...) {  // no memory: the error does not name the call
    }
  } catch (...) {  // the error of a shutdown
  }
  fail(std::move(pending), mine);
}

void Session::fail(CallMade pending, const std::exception_ptr& error) noexcept {
  pending.stop.reset();
  if (pending.span != 0) trace_end(pending, Clock::now(), true);
  Counters::add(agent_->counters.failed);
  pending.call->fail(error);
}

void Session::trace_end(const CallMade& pending, Clock::time_point end, bool failed) const noexcept {
  agent_->trace->record({.kind = TraceSpan::Kind::call,
                         .failed = failed,
                         .peer = peer_.id,
                         .function = pending.function,
                         .span_id = pending.span,
                         .start_ns = trace_ns(pending.started),
                         .end_ns = trace_ns(end)});
}

void CancelCall::operator()() const noexcept {
  if (const auto alive = session.lock()) alive->cancel(call_id);
}

void Session::cancel(uint64_t call_id) {
  auto pending = made_.take(call_id, true);
  if (!pending) return;
  Counters::add(agent_->counters.cancelled);
  if (pending->tensors) link_->call_ended(pending->tensors);
  const bool leaving = pending->leaving != nullptr;
  const auto error =
      error_from([&] { return CancelledError(call_of(pending->function) + " was cancelled by its caller"); });
  fail(std::move(*pending), error);
  send_cancel(call_id, leaving);
}

/// Called when a call has ended without a reply: withdraws its request, or sends a cancel to the peer.
void Session::send_cancel(uint64_t call_id, bool leaving) noexcept {
  if (is_self()) return served_.cancel(call_id);
  if (leaving) return;
  if (link_->withdraw(call_id)) {
    requests_sent_.fetch_sub(1, std::memory_order_relaxed);
  } else {
    Message cancel;
    cancel.kind = MessageKind::cancel;
    cancel.call_id = call_id;
    say(std::move(cancel));
  }
  if (const ListenerScope told(*this); told && agent_->listener) {
    agent_->listener->call_cancelled(peer_, call_id);
    agent_->arm_listener_timer();
  }
}

void Session::reply_received(Message&& reply, Clock::time_point now) {
  if (!reply.forks.empty() && agent_->listener) {
    if (made_.contains(reply.call_id)) {
      agent_->listener->message_arrived(peer_, std::make_unique<ParkedReply>(std::move(reply), shared_from_this()));
    } else {
      Counters::add(agent_->counters.late_replies);
    }
    agent_->arm_listener_timer();
    return;
  }
  complete(std::move(reply), now);
}

void Session::complete(Message&& reply, Clock::time_point now) noexcept {
  auto pending = made_.take(reply.call_id);
  if (!pending) {
    Counters::add(agent_->counters.late_replies);
    return;
  }
  if (reply.kind == MessageKind::error) {
    const ServedFunction* const called = served_functions().find(pending->function);  // holds every called function
    std::function<std::string()> unserved;
    if (called) unserved = [called] { return describe_unserved(*called); };
    return fail(std::move(*pending), read_error(reply, peer_.name, unserved));
  }
  pending->stop.reset();
  try {
    if (!is_self()) place_on_devices(reply);
    agent_->note_load(request_cost(reply.payload.size()));
    for (const auto& hook : agent_->hooks) hook->after_reply(peer_, reply);
  } catch (...) {
    return fail(std::move(*pending), std::current_exception());
  }
  const std::chrono::nanoseconds took = now - pending->started;
  if (pending->span != 0) trace_end(*pending, now, false);
  Counters::add(agent_->counters.latency[static_cast<std::size_t>(LatencyHistogram::bucket_of(took))]);
  Counters::add(agent_->counters.latency_ns, static_cast<uint64_t>(took.count()));
  Counters::add(agent_->counters.completed);
  pending->call->complete(std::move(reply));
}

bool Session::must_not_wait() noexcept { return ThreadState::current().io_callbacks > 0; }

void Session::fail_overdue(CallsMade::Overdue&& overdue) {
  // Computed before the first call fails, because a handler that waited for it then continues.
  std::string held_back;
  try {
    if (!overdue.calls.empty()) held_back = agent_->loop->held_back();
  } catch (const std::bad_alloc&) {  // the errors lack it
  }
  for (auto& [call_id, pending] : overdue.calls) {
    Counters::add(agent_->counters.timed_out);
    if (pending.tensors) link_->call_ended(pending.tensors);
    const auto error = error_from([&] {
      std::ostringstream text;
      text << call_of(pending.function) << " timed out after "
           << std::chrono::duration<double>(pending.deadline - pending.started).count()
           << " s; it may still be running there" << held_back
           << ". Pass {.timeout = ...} to allow more time, or {.timeout = 0s} to wait as long as the worker lives";
      return TimeoutError(text.str());
    });
    const bool leaving = pending.leaving != nullptr;
    fail(std::move(pending), error);
    send_cancel(call_id, leaving);
  }
}

void Session::list_calls(Clock::time_point now, std::vector<CallInFlight>& out) const {
  made_.for_each([&](uint64_t call_id, const CallMade& call) {
    out.push_back({.call_id = call_id, .peer = peer_, .function = call.function, .age = now - call.started});
  });
}

void Session::not_sent_again(Link&, uint64_t call_id, std::exception_ptr why) {
  const IoCallbackScope io_callback;
  requests_sent_.fetch_sub(1, std::memory_order_relaxed);
  if (auto pending = made_.take(call_id)) fail_as_lost(std::move(*pending), why);
}

}  // namespace tendril::rpc::detail
