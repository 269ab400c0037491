// Calls served: from the received request to the reply.
#include <algorithm>
#include <unordered_set>

#include "tendril/rpc/call/function.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/observe/trace.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/session/flow_control.h"
#include "tendril/rpc/session/session.h"
#include "tendril/rpc/threads/thread_state.h"
#include "tendril/rpc/wire/error_message.h"

namespace tendril::rpc::detail {

namespace {

/// A function that has not taken longer than this lately is short: nobody is woken to lead while it runs (docs/rpc.md,
/// rule 4).
constexpr uint32_t kShortNs = 20'000;
/// One that took longer is forgiven after a few hundred short runs: one call in a hundred that sleeps is enough.
constexpr uint32_t kForgottenIn = 32;
constexpr int64_t kLongestNs = 10'000'000;

/// What is remembered of cancels that came before their requests: these are on their way, and no peer has many of them.
/// Some never come. Numbers are given in order, so a cancel this far behind a request that came is forgotten.
constexpr std::size_t kMostOvertaken = 1024;

/// The handler that this thread runs, and when it answered; what it does after that, writing the reply above all, is
/// not its own time: the peer that the reply wakes may be given the processor at once. A handler may answer other calls
/// than its own (it completes their futures), and others may run within it (functions that run on the reading thread).
struct Timed {
  const InboundState* call = nullptr;
  Clock::time_point answered = Clock::time_point::max();
};
thread_local Timed timed;

TraceSpan span_of(const InboundState& call, TraceSpan::Kind kind) noexcept {
  return {.kind = kind,
          .peer = call.session->peer().id,
          .function = call.request.function,
          .trace_id = call.context.trace_id,
          .span_id = call.context.span_id};
}

void note_answer(const InboundState* call) noexcept {
  if (timed.call == call) {
    timed.answered = std::min(timed.answered, Clock::now());
  } else if (Trace* const trace = call->agent->trace.get()) {
    TraceSpan span = span_of(*call, TraceSpan::Kind::deferred);
    span.start_ns = trace_ns(call->begun);
    span.end_ns = trace_ns(Clock::now());
    trace->record(span);
  }
}

void note_duration(const ServedFunction& function, std::chrono::nanoseconds took) noexcept {
  const uint32_t before = function.slowest_ns.load(std::memory_order_relaxed);
  const auto sample = static_cast<uint32_t>(std::clamp<int64_t>(took.count(), 1, kLongestNs));
  const uint32_t updated = std::max(sample, before - before / kForgottenIn);
  if (updated != before) function.slowest_ns.store(updated, std::memory_order_relaxed);
}

/// What the peer has paid for it; a worker's requests to itself come without bytes, and cost nothing.
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
    if (confirmed.timeout_us > 0) {  // its deadline is counted from when it came
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

void Session::request_received(Message&& request) {
  const Clock::time_point now = Clock::now();
  // Before it is counted as received: a shutdown that sees it arrive must see that it is not answered yet.
  bool admitted = false;
  {
    const std::lock_guard lock(mutex_);
    admitted = !ended_ && filter_.admit(request.call_id);
    if (admitted) {
      Serving& entry = serving_[request.call_id];
      entry.function = request.function;
      entry.received = now;
      std::erase_if(overtaken_, [&](uint64_t cancelled) {
        if (cancelled == request.call_id) entry.stop.request_stop();
        return cancelled == request.call_id || cancelled + kMostOvertaken < request.call_id;
      });
    }
  }
  // Also one that came too late, overtaken by the news that its caller has given it up: it is not on its way any more.
  if (!is_self()) Counters::add(requests_received_);
  if (!admitted) return started(cost_of(request));
  if (!request.forks.empty() && agent_->listener) {
    agent_->listener->message_arrived(peer_, std::make_unique<ParkedRequest>(std::move(request), shared_from_this()));
    agent_->listener_told();
  } else {
    dispatch(std::move(request), now);
  }
}

void Session::dispatch(Message&& request, Clock::time_point now) {
  const uint64_t call_id = request.call_id;
  const ServedFunction* const function = agent_->functions.find(request.function);
  if (!function) {
    started(cost_of(request));
    return refuse(call_id, std::make_exception_ptr(UnknownFunctionError(describe_unserved(request.function))));
  }
  agent_->note_load(cost_of(request));
  std::stop_token stop;
  {
    const std::lock_guard lock(mutex_);
    const auto found = serving_.find(call_id);
    if (found == serving_.end()) return;  // the session has ended
    found->second.dispatched = true;
    stop = found->second.stop.get_token();
  }
  auto state = std::make_unique<InboundState>(shared_from_this(), std::move(request), function, std::move(stop), now);
  state->cost = cost_of(state->request);
  if (function->on_reader) {
    const IoCallbackScope io_callback;  // also where this agent calls itself
    InboundState* const raw = state.get();
    raw->run(std::move(state));
    return;
  }
  agent_->loop->post(std::move(state));
}

bool Session::hold_back(std::unique_ptr<Job>& request) noexcept try {
  if (!link_ || !link_->congested()) return false;
  const std::shared_ptr<Session> self = shared_from_this();  // the request may be gone as soon as it is held
  {
    const std::lock_guard lock(mutex_);
    // `uncongested` takes the lock after the congestion has ended: one of the two sees what the other did.
    if (ended_ || !link_->congested()) return false;
    held_.push_back(std::move(request));
  }
  // A peer that does not take its replies must at least be alive.
  if (agent_->options.ping_interval.count() > 0) agent_->arm(Clock::now() + agent_->options.ping_interval);
  return true;
} catch (...) {
  return request == nullptr;  // no memory to hold it back: it starts
}

void Session::uncongested(Link&) {
  std::vector<std::unique_ptr<Job>> held;
  {
    const std::lock_guard lock(mutex_);
    held.swap(held_);
  }
  for (auto& request : held) agent_->loop->post(std::move(request));
}

void Session::refuse(uint64_t call_id, const std::exception_ptr& error) noexcept try {
  Message message = error_message(error, link_ ? link_->peer_limits().max_payload_bytes : UINT64_MAX);
  message.call_id = call_id;
  answer(std::move(message));
} catch (...) {  // not even the error could be sent (no memory): the caller hears of it as a lost connection
  end(std::make_exception_ptr(PeerLostError(name_of(peer_) + ": a call could not be answered", true)));
}

void Session::answer(Message&& reply) {
  const uint64_t call_id = reply.call_id;
  const MessageKind kind = reply.kind;
  if (is_self()) reply = looped_back(std::move(reply));
  // Before it is sent: who has the reply may look at this worker's counters.
  std::unordered_map<uint64_t, Serving>::node_type entry;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    entry = serving_.extract(call_id);
    if (entry.empty()) return;
  }
  Counters::add(agent_->counters.served);
  if (is_self()) return complete(std::move(reply));
  bool forked = false;
  bool sent = false;
  try {
    if (!reply.references.empty() && agent_->listener) {
      agent_->listener->on_send(peer_, reply);
      forked = true;
    }
    sent = link_->send(std::move(reply));
  } catch (...) {
    if (forked) agent_->listener->message_not_sent(peer_, kind, call_id);
    agent_->counters.served.fetch_sub(1, std::memory_order_relaxed);  // it still has to be answered
    const std::lock_guard lock(mutex_);
    if (!ended_) serving_.insert(std::move(entry));
    throw;
  }
  if (!sent && forked) agent_->listener->message_not_sent(peer_, kind, call_id);
}

void Session::drop(uint64_t call_id) {
  Counters::add(agent_->counters.dropped);
  const std::lock_guard lock(mutex_);
  serving_.erase(call_id);
}

void Session::cancel_received(uint64_t call_id) {
  std::optional<std::stop_source> source;
  {
    const std::lock_guard lock(mutex_);
    const auto found = serving_.find(call_id);
    if (found == serving_.end()) {
      if (filter_.seen(call_id)) return;  // it has been answered
      if (overtaken_.size() == kMostOvertaken) overtaken_.erase(overtaken_.begin());
      overtaken_.push_back(call_id);
      return;
    }
    source = found->second.stop;
  }
  source->request_stop();
}

RequestStatus Session::withdraw(uint64_t call_id) {
  const std::lock_guard lock(mutex_);
  if (!filter_.withdraw(call_id)) return RequestStatus::unseen;
  return serving_.contains(call_id) ? RequestStatus::serving : RequestStatus::answered;
}

std::size_t Session::unanswered() const {
  const std::lock_guard lock(mutex_);
  return serving_.size();
}

void Session::list_received(Clock::time_point now, std::vector<CallReceived>& out) const {
  using State = CallReceived::State;
  const std::lock_guard lock(mutex_);
  std::unordered_set<uint64_t> held;
  for (const auto& request : held_) held.insert(request->origin().call_id);
  for (const auto& [call_id, request] : serving_) {
    const State state = !request.dispatched      ? State::waiting_for_references
                        : held.contains(call_id) ? State::held_back
                                                 : State::suspended;
    out.push_back({.call_id = call_id,
                   .caller = peer_,
                   .function = request.function,
                   .state = state,
                   .age = std::max<std::chrono::nanoseconds>(now - request.received, {})});
  }
}

InboundState::InboundState(std::shared_ptr<Session> s, Message&& r, const ServedFunction* f, std::stop_token stop,
                           Clock::time_point now)
    : session(std::move(s)), agent(session->agent_), request(std::move(r)), call_id(request.call_id), function(f) {
  using Microseconds = std::chrono::duration<uint64_t, std::micro>;  // any number may have come
  if (request.timeout_us > 0) context.deadline = deadline_after(Microseconds(request.timeout_us), now);
  context.stop = std::move(stop);
  context.autograd_context = request.autograd_context;
  context.trace_id = request.trace_id;
  context.span_id = request.span_id;
  context.depth = static_cast<uint8_t>(std::min<int>(request.depth + 1, Job::kContinuation - 1));
  context.origin = {agent->incarnation, &function->name, session->peer().id, call_id};
  if (!request.extension.empty()) context.extension = std::make_shared<const Bytes>(request.extension);
}

bool InboundState::is_short() const noexcept {
  const uint32_t slowest = function->slowest_ns.load(std::memory_order_relaxed);
  return slowest > 0 && slowest < kShortNs;
}

int InboundState::level() const noexcept { return std::min<int>(request.depth, Job::kContinuation - 1); }

void InboundState::run(std::unique_ptr<Job> self) noexcept {
  if (!function->on_reader && session->hold_back(self)) return;
  (void)self.release();
  std::unique_ptr<InboundState> owned(this);
  if (!function->may_park) begin();
  const Clock::time_point start = Clock::now();
  if (context.stop.stop_requested() || context.deadline <= start) {
    return session->drop(call_id);
  }
  const ServedFunction& served = *function;
  const std::shared_ptr<Trace> trace = agent->trace;  // `this` may be gone when the function returns
  TraceSpan span;
  if (trace) {
    begun = start;
    span = span_of(*this, TraceSpan::Kind::handler);
    span.start_ns = trace_ns(start);
  }
  const CallContextScope scope(context);
  const Timed outer = std::exchange(timed, {.call = this});
  InboundCall call(std::move(owned));
  try {
    if (!session->is_self()) land(call.request());
    for (const auto& hook : agent->hooks) hook->after_receive(session->peer(), call.request());
    served.invoke(call);
  } catch (...) {
    call.fail(std::current_exception());
  }
  const Clock::time_point end = Clock::now();
  note_duration(served, std::min(std::exchange(timed, outer).answered, end) - start);
  if (trace) {
    span.end_ns = trace_ns(end);
    trace->record(span);
  }
}

}  // namespace tendril::rpc::detail

namespace tendril::rpc {

InboundCall::InboundCall(std::unique_ptr<detail::InboundState> state) noexcept : state_(std::move(state)) {}
InboundCall::InboundCall(InboundCall&&) noexcept = default;

InboundCall& InboundCall::operator=(InboundCall&& other) noexcept {
  if (this != &other) {
    InboundCall old(std::move(*this));  // answers, if nobody did
    state_ = std::move(other.state_);
  }
  return *this;
}

InboundCall::~InboundCall() {
  if (state_) fail(std::make_exception_ptr(UsageError("the function returned without an answer")));
}

Agent& InboundCall::agent() const noexcept { return state_->agent->handle; }
const WorkerInfo& InboundCall::from() const noexcept { return state_->session->peer(); }
Message& InboundCall::request() noexcept { return state_->request; }
const CallContext& InboundCall::context() const noexcept { return state_->context; }
void InboundCall::begin() noexcept { state_->begin(); }
int InboundCall::level() const noexcept { return state_->level(); }

void InboundCall::reply(Message&& result) {
  if (!state_) throw UsageError("InboundCall::reply: the call was answered already");
  detail::note_answer(state_.get());
  result.kind = MessageKind::reply;
  result.call_id = state_->call_id;
  result.autograd_context = state_->context.autograd_context;
  result.trace_id = state_->context.trace_id;
  result.span_id = state_->context.span_id;
  try {
    state_->session->place(result);
    if (!state_->agent->hooks.empty()) {
      const CallContextScope scope(state_->context);
      for (const auto& hook : state_->agent->hooks) hook->before_reply(state_->session->peer(), result);
    }
    if (state_->session->is_self() || !detail::needs_staging(result)) return send(std::move(result), nullptr);
    detail::Staging staging(result);
    if (staging.done() || detail::ThreadState::current().io_callbacks == 0) return send(std::move(result), &staging);
    // This thread drives I/O: it must not wait for a device.
    const Ref<detail::Loop> loop = state_->agent->loop;
    post(*loop, [call = std::move(*this), result = std::move(result), staging = std::move(staging)]() mutable {
      call.send(std::move(result), &staging);
    });
  } catch (...) {
    fail(std::current_exception());
  }
}

void InboundCall::send(Message&& result, detail::Staging* staging) try {
  if (staging) staging->wait();
  state_->session->answer(std::move(result));
  state_.reset();
} catch (...) {
  fail(std::current_exception());
}

void InboundCall::fail(std::exception_ptr error) noexcept {
  const std::unique_ptr<detail::InboundState> state = std::move(state_);
  if (!state) return;
  detail::note_answer(state.get());
  state->session->refuse(state->call_id, error);
}

}  // namespace tendril::rpc
