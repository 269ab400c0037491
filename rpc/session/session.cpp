// Calls made: the pending table, replies, deadlines, cancellation, loss.
#include "tendril/rpc/session/session.h"

#include <algorithm>

#include "tendril/rpc/call/function.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/observe/log.h"
#include "tendril/rpc/observe/trace.h"
#include "tendril/rpc/reference/control.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/threads/thread_state.h"
#include "tendril/rpc/wire/error_message.h"

namespace tendril::rpc::detail {

namespace {

std::string seconds(Clock::duration time) {
  std::ostringstream text;
  text << std::chrono::duration<double>(time).count() << " s";
  return text.str();
}

Clock::time_point deadline_of(const CallOptions& options, const CallContext& context, std::chrono::microseconds usual,
                              Clock::time_point now) {
  if (!options.timeout && context.deadline != Clock::time_point::max()) return context.deadline;
  const std::chrono::microseconds timeout = options.timeout.value_or(usual);
  return timeout.count() == 0 ? Clock::time_point::max() : deadline_after(timeout, now);
}

}  // namespace

/// A reply whose references await their owners' confirmation. Its call stays pending meanwhile.
class ParkedReply final : public ParkedMessage {
 public:
  ParkedReply(Message&& reply, std::shared_ptr<Session> session)
      : ParkedMessage(std::move(reply)), call_id_(message.call_id), session_(std::move(session)) {}
  void resume(Message&& confirmed) noexcept override { session_->complete(std::move(confirmed)); }
  void refuse(std::exception_ptr error) noexcept override {
    if (auto pending = session_->take(call_id_)) session_->fail(std::move(*pending), error);
  }

 private:
  const uint64_t call_id_;
  const std::shared_ptr<Session> session_;
};

Session::Session(std::shared_ptr<Agent::Impl> agent, WorkerInfo peer, uint64_t incarnation, std::shared_ptr<Link> link,
                 DeviceRoutes routes, Reach reach)
    : agent_(std::move(agent)),
      peer_(std::move(peer)),
      incarnation_(incarnation),
      link_(std::move(link)),
      routes_(std::move(routes)),
      reach_(std::move(reach)) {}

void Session::GiveUp::operator()() const noexcept {
  if (const auto alive = session.lock()) {
    alive->give_up(call_id, std::make_exception_ptr(
                                CancelledError("call to " + name_of(alive->peer_) + " was cancelled by its caller")));
  }
}

void Session::call(Message&& request, PendingCallRef call, const CallOptions& options) {
  Counters::add(agent_->counters.made);
  const CallContext& context = CallContext::current();
  Pending pending{.open = OpenCall(agent_->counters)};
  pending.call = std::move(call);
  pending.function = request.function;
  pending.started = Clock::now();
  pending.deadline =
      deadline_of(options, context, std::chrono::microseconds(agent_->rpc_timeout_us.load(std::memory_order_relaxed)),
                  pending.started);
  const std::stop_token stop = options.stop.stop_possible() ? options.stop : context.stop;
  if (pending.deadline <= pending.started) {
    return fail(std::move(pending), std::make_exception_ptr(TimeoutError(
                                        "call to " + name_of(peer_) + ": the deadline had passed before it was sent")));
  }
  if (stop.stop_requested()) {
    return fail(std::move(pending), std::make_exception_ptr(CancelledError("call to " + name_of(peer_) +
                                                                           ": cancelled before it was sent")));
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
    routes_.place(request);  // before a hook records what cannot be sent
    for (const auto& hook : agent_->hooks) hook->before_send(peer_, request);
    if (!is_self() && needs_staging(request)) staging.emplace(request);
  } catch (...) {
    return fail(std::move(pending), std::current_exception());
  }

  const Clock::time_point deadline = pending.deadline, sent_at = pending.started;
  uint64_t call_id = 0;
  {
    std::unique_lock lock(mutex_);
    if (ended_) {
      lock.unlock();
      return fail(std::move(pending), std::make_exception_ptr(PeerLostError(
                                          "call to " + name_of(peer_) + ": it is not connected any more", false)));
    }
    call_id = ++last_call_id_;
    pending_.emplace(call_id, std::move(pending));
  }
  if (stop.stop_possible()) {
    auto callback = std::make_unique<StopCallback>(stop, GiveUp{weak_from_this(), call_id});
    const std::lock_guard lock(mutex_);
    if (const auto found = pending_.find(call_id); found != pending_.end()) found->second.stop.swap(callback);
  }
  const auto ping = agent_->options.ping_interval;
  agent_->arm(!is_self() && ping.count() > 0 ? std::min(deadline, sent_at + ping) : deadline);
  if (staging && must_not_wait() && !staging->done()) {
    return post(*agent_->loop,
                [self = shared_from_this(), call_id, request = std::move(request), staging = std::move(*staging),
                 deadline]() mutable { self->send_request(call_id, std::move(request), &staging, deadline); });
  }
  send_request(call_id, std::move(request), staging ? &*staging : nullptr, deadline);
}

/// Before the references of a request are registered. False: the call has ended, and with it all that is known of it.
bool Session::begin_leaving(uint64_t call_id) {
  const std::lock_guard lock(mutex_);
  const auto found = pending_.find(call_id);
  if (found == pending_.end()) return false;
  found->second.leaving = true;
  return true;
}

/// True: the call was cancelled meanwhile, and the peer is still to be told.
bool Session::end_leaving(uint64_t call_id) {
  const std::lock_guard lock(mutex_);
  if (const auto found = pending_.find(call_id); found != pending_.end()) found->second.leaving = false;
  return std::erase(ended_leaving_, call_id) > 0;
}

void Session::send_request(uint64_t call_id, Message&& request, Staging* staging, Clock::time_point deadline) {
  request.call_id = call_id;
  bool forked = false, counted = false, sent = false;
  std::exception_ptr error;
  const bool refers = !is_self() && !request.references.empty() && agent_->listener;
  if (refers && !begin_leaving(call_id)) return;
  try {
    if (staging) staging->wait();
    if (is_self()) {
      request_received(looped_back(std::move(request)));
      sent = true;
    } else {
      if (refers) {
        agent_->listener->on_send(peer_, request);
        forked = true;
      }
      counted = true;
      Counters::add(requests_sent_);  // before it leaves: once cancelled it must not be on its way unseen
      sent = link_->send(std::move(request));
      if (!sent) {
        error = std::make_exception_ptr(
            PeerLostError("call to " + name_of(peer_) + ": the connection was closed before it was sent", false));
      }
    }
  } catch (...) {
    error = std::current_exception();
  }
  const bool cancelled = refers && end_leaving(call_id);
  if (sent) {
    if (cancelled) say_cancelled(call_id, false);
    if (link_ && link_->waits_for_room(call_id)) {
      if (is_pending(call_id)) {
        link_->wait_for_room(call_id, deadline);
      } else if (link_->withdraw(call_id)) {  // cancelled before it got there
        requests_sent_.fetch_sub(1, std::memory_order_relaxed);
      }
    }
    return;
  }
  if (counted) requests_sent_.fetch_sub(1, std::memory_order_relaxed);
  if (forked) agent_->listener->message_not_sent(peer_, MessageKind::request, call_id);
  if (auto pending = take(call_id)) fail(std::move(*pending), error);
}

bool Session::is_pending(uint64_t call_id) const {
  const std::lock_guard lock(mutex_);
  return pending_.contains(call_id);
}

std::optional<Session::Pending> Session::take(uint64_t call_id, bool cancelled) {
  const std::lock_guard lock(mutex_);
  const auto found = pending_.find(call_id);
  if (found == pending_.end()) return std::nullopt;
  std::optional<Pending> pending(std::move(found->second));
  pending_.erase(found);
  if (cancelled && pending->leaving) ended_leaving_.push_back(call_id);
  return pending;
}

void Session::fail(Pending pending, const std::exception_ptr& error) noexcept {
  pending.stop.reset();
  if (pending.span != 0) trace_end(pending, Clock::now(), true);
  Counters::add(agent_->counters.failed);
  pending.call->fail(error);
}

void Session::trace_end(const Pending& pending, Clock::time_point end, bool failed) const noexcept {
  agent_->trace->record({.kind = TraceSpan::Kind::call,
                         .failed = failed,
                         .peer = peer_.id,
                         .function = pending.function,
                         .span_id = pending.span,
                         .start_ns = trace_ns(pending.started),
                         .end_ns = trace_ns(end)});
}

void Session::give_up(uint64_t call_id, const std::exception_ptr& error) {
  auto pending = take(call_id, true);
  if (!pending) return;
  Counters::add(agent_->counters.cancelled);
  const bool leaving = pending->leaving;
  fail(std::move(*pending), error);
  say_cancelled(call_id, leaving);
}

/// A call has ended without its reply: takes its request back, or tells the peer.
void Session::say_cancelled(uint64_t call_id, bool leaving) noexcept {
  if (is_self()) return cancel_received(call_id);
  if (leaving) return;
  if (link_->withdraw(call_id)) {
    requests_sent_.fetch_sub(1, std::memory_order_relaxed);
  } else {
    Message cancel;
    cancel.kind = MessageKind::cancel;
    cancel.call_id = call_id;
    say(std::move(cancel));
  }
  if (agent_->listener) {
    agent_->listener->call_cancelled(peer_, call_id);
    agent_->listener_told();
  }
}

/// Sends what is not refused and not counted. Whoever cannot even do that has no use for the connection.
bool Session::say(Message&& message) noexcept try { return link_->send(std::move(message)); } catch (...) {
  link_->close();
  return false;
}

void Session::reply_received(Message&& reply) {
  if (!reply.forks.empty() && agent_->listener) {
    if (is_pending(reply.call_id)) {
      agent_->listener->message_arrived(peer_, std::make_unique<ParkedReply>(std::move(reply), shared_from_this()));
    } else {
      Counters::add(agent_->counters.late_replies);
    }
    agent_->listener_told();
    return;
  }
  complete(std::move(reply));
}

void Session::complete(Message&& reply) noexcept {
  auto pending = take(reply.call_id);
  if (!pending) {
    Counters::add(agent_->counters.late_replies);
    return;
  }
  if (reply.kind == MessageKind::error) {
    const ServedFunction* const called = served_functions().find(pending->function);  // all that is called is there
    return fail(std::move(*pending), read_error(reply, peer_.name, called));
  }
  pending->stop.reset();
  try {
    if (!is_self()) land(reply);
    agent_->note_load(reply.payload.size());
    for (const auto& hook : agent_->hooks) hook->after_reply(peer_, reply);
  } catch (...) {
    return fail(std::move(*pending), std::current_exception());
  }
  const Clock::time_point now = Clock::now();
  const std::chrono::nanoseconds took = now - pending->started;
  if (pending->span != 0) trace_end(*pending, now, false);
  Counters::add(agent_->counters.latency[static_cast<std::size_t>(LatencyHistogram::bucket_of(took))]);
  Counters::add(agent_->counters.latency_ns, static_cast<uint64_t>(took.count()));
  Counters::add(agent_->counters.completed);
  pending->call->complete(std::move(reply));
}

bool Session::must_not_wait() noexcept { return ThreadState::current().io_callbacks > 0; }

Clock::time_point Session::sweep(Clock::time_point now) {
  Clock::time_point next = Clock::time_point::max();
  std::vector<std::pair<uint64_t, Pending>> overdue;
  bool waiting = false;
  {
    const std::lock_guard lock(mutex_);
    for (auto at = pending_.begin(); at != pending_.end();) {
      if (at->second.deadline <= now) {
        if (at->second.leaving) ended_leaving_.push_back(at->first);
        overdue.emplace_back(at->first, std::move(at->second));
        at = pending_.erase(at);
      } else {
        next = std::min(next, at->second.deadline);
        ++at;
      }
    }
    waiting = !pending_.empty() && !ended_;
  }
  waiting = waiting || (link_ && link_->gauges().queued_bytes > 0);
  // Before the first of them fails, and the handler that waited for it goes on.
  const std::string held_back = overdue.empty() ? "" : agent_->loop->held_back();
  // A message that is parked here may wait for an owner that owes no reply.
  if (!waiting && !is_self() && agent_->listener) waiting = agent_->listener->awaits(peer_);
  for (auto& [call_id, pending] : overdue) {
    Counters::add(agent_->counters.timed_out);
    const std::string text = "call of " + name_of_function(pending.function) + " on " + name_of(peer_) +
                             " timed out after " + seconds(pending.deadline - pending.started) +
                             "; it may still be running there" + held_back +
                             ". A call that may take longer says so: "
                             "{.timeout = ...}, or {.timeout = 0s} for as long as the worker lives";
    const bool leaving = pending.leaving;
    fail(std::move(pending), std::make_exception_ptr(TimeoutError(text)));
    say_cancelled(call_id, leaving);
  }
  if (waiting && !is_self() && ping(now)) next = std::min(next, now + agent_->options.ping_interval);
  return next;
}

/// A peer that owes a reply, or does not take what is sent to it, is asked for a sign of life. Lost after unanswered
/// pings, not after mere silence: this process may have been the one that stood still. True: come again.
bool Session::ping(Clock::time_point now) {
  const auto interval = agent_->options.ping_interval;
  if (interval.count() == 0) return false;
  const Link::Gauges gauges = link_->gauges();
  if (!gauges.connected) return true;  // the link knows how long it waits
  const Clock::time_point heard = std::min(gauges.last_received, now);
  const auto silent = now - heard;
  // Whatever came since the last ping answers it, also if that was a whole interval ago.
  if (heard > last_ping_) unanswered_pings_ = 0;
  if (silent < interval) return true;
  if (now - last_ping_ < interval) return true;
  const auto limit = agent_->options.liveness_timeout;
  if (limit.count() > 0 && (unanswered_pings_ + 1) * interval > limit) {
    end(std::make_exception_ptr(
        PeerLostError(name_of(peer_) + " has given no sign of life for " + seconds(silent), true)));
    return false;
  }
  ++unanswered_pings_;
  last_ping_ = now;
  Message message;
  message.kind = MessageKind::ping;
  return say(std::move(message));
}

void Session::list_calls(Clock::time_point now, std::vector<CallInFlight>& out) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [call_id, pending] : pending_) {
    out.push_back({.call_id = call_id, .peer = peer_, .function = pending.function, .age = now - pending.started});
  }
}

bool Session::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

std::size_t Session::pending() const {
  const std::lock_guard lock(mutex_);
  return pending_.size();
}

bool Session::send_control(Bytes payload) {
  if (is_self()) {
    if (agent_->listener) agent_->listener->control_received(peer_, std::move(payload));
    return true;
  }
  agent_->listener_told();  // it may have to send it again
  bool sent = true;
  for (Bytes& part : split_control(std::move(payload), link_->peer_limits().max_payload_bytes)) {
    Message message;
    message.kind = MessageKind::control;
    message.payload = std::move(part);
    sent = say(std::move(message)) && sent;
  }
  return sent;
}

void Session::end(const std::exception_ptr& error) {
  std::unordered_map<uint64_t, Pending> pending;
  std::unordered_map<uint64_t, Serving> serving;
  std::vector<std::unique_ptr<Job>> held;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = true;
    pending.swap(pending_);
    serving.swap(serving_);
    held.swap(held_);
  }
  if (link_) link_->close();
  agent_->session_ended(shared_from_this());
  for (auto& [call_id, request] : serving) request.stop.request_stop();
  for (auto& request : held) agent_->loop->post(std::move(request));  // they see that nobody waits for them
  for (auto& [call_id, call] : pending) fail(std::move(call), error);
  if (is_self()) return;
  if (logs(LogLevel::info)) {
    const std::string& self = agent_->self.name;
    log(LogLevel::info, self, "rpc: worker '" + self + "' has lost " + name_of(peer_) + ": " + text_of(error));
  }
  for (const auto& hook : agent_->hooks) hook->peer_lost(peer_, error);
  if (agent_->listener) {
    agent_->listener->peer_lost(peer_, error);
    agent_->listener_told();
  }
}

void Session::closed(Link&, std::exception_ptr reason) {
  const IoCallbackScope io_callback;
  bool goodbye = false;
  {
    const std::lock_guard lock(mutex_);
    goodbye = said_goodbye_;
  }
  end(std::make_exception_ptr(
      PeerLostError(name_of(peer_) + ": " + (goodbye ? "it has shut down" : text_of(reason)), true)));
}

void Session::disconnected(Link&) {
  const IoCallbackScope io_callback;
  agent_->reconnect(shared_from_this());
}

void Session::not_sent_again(Link&, uint64_t call_id, std::exception_ptr why) {
  const IoCallbackScope io_callback;
  requests_sent_.fetch_sub(1, std::memory_order_relaxed);
  if (auto pending = take(call_id)) fail(std::move(*pending), why);
}

void Session::received(Link&, Message&& message) {
  const IoCallbackScope io_callback;  // also where a link without a loop delivers
  switch (message.kind) {
    case MessageKind::request:
      return request_received(std::move(message));
    case MessageKind::reply:
    case MessageKind::error:
      return reply_received(std::move(message));
    case MessageKind::cancel:
      return cancel_received(message.call_id);
    case MessageKind::control:
      if (agent_->listener) {
        agent_->listener->control_received(peer_, std::move(message.payload));
        agent_->listener_told();
      }
      return;
    case MessageKind::ping: {
      Message pong;
      pong.kind = MessageKind::pong;
      say(std::move(pong));
      return;
    }
    case MessageKind::pong:
      return;  // that it came is what counts
    case MessageKind::credit:
    case MessageKind::acknowledge:
      return;  // the link's
    case MessageKind::goodbye: {
      const std::lock_guard lock(mutex_);
      said_goodbye_ = true;
      return;
    }
  }
}

}  // namespace tendril::rpc::detail
