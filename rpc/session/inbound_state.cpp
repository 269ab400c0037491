// A request on its way from the queue to its answer.
#include "tendril/rpc/session/inbound_state.h"

#include <algorithm>

#include "tendril/rpc/call/function.h"
#include "tendril/rpc/device/transfer.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/session/session.h"
#include "tendril/rpc/system/thread_state.h"
#include "tendril/rpc/threads/trace.h"
#include "tendril/tensor/detail/switched_variable.h"

namespace tendril::rpc::detail {

namespace {

/// The handler that this thread runs, and when it answered its call. Its run time ends there: writing the reply does
/// not count, because the peer that the reply wakes may get the processor at once. A handler may also answer other
/// calls (by completing their futures), and other handlers may run within it (functions that run on the reading
/// thread).
struct Timed {
  const InboundState* call = nullptr;
  Clock::time_point answered = Clock::time_point::max();
};
thread_local Timed timed;
const auto timed_switched = tendril::detail::of_each_thread([]() -> auto& { return timed; });

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

}  // namespace

InboundState::InboundState(std::shared_ptr<Session> s, Message&& r, const ServedFunction* f, LazyStopToken stop,
                           Clock::time_point now)
    : session(std::move(s)),
      agent(session->agent_.get()),
      request(std::move(r)),
      call_id(request.call_id),
      function(f) {
  using Microseconds = std::chrono::duration<uint64_t, std::micro>;  // the peer may send any number
  if (request.timeout_us > 0) context.deadline = deadline_after(Microseconds(request.timeout_us), now);
  context.stop = std::move(stop);
  context.autograd_context = request.autograd_context;
  context.trace_id = request.trace_id;
  context.span_id = request.span_id;
  context.depth = static_cast<uint8_t>(std::min<int>(request.depth + 1, Job::kContinuation - 1));
  context.origin = {agent->incarnation, &function->name, session->peer().id, call_id};
  if (!request.extension.empty()) context.extension = std::make_shared<const Bytes>(request.extension);
}

InboundState::~InboundState() {
  begin();
  cuda::end_index_work(stamp_of(context.origin));
}

std::chrono::nanoseconds InboundState::likely_time() const noexcept { return function->run_time.average(); }

int InboundState::level() const noexcept { return std::min<int>(request.depth, Job::kContinuation - 1); }

void InboundState::run(std::unique_ptr<Job> self) noexcept {
  if (!function->on_reader && session->hold_back(self)) return;
  (void)self.release();
  std::unique_ptr<InboundState> owned(this);
  if (!function->may_park) begin();
  // Not when its job was taken: the thread may have written messages of other calls since. If they counted, a short
  // handler would seem long. Replies of long handlers are sent one by one, which takes even longer.
  const Clock::time_point start = Clock::now();
  if (context.stop.stop_requested() || context.deadline <= start) {
    return session->drop(call_id);
  }
  const ServedFunction& served = *function;
  const std::shared_ptr<Trace> trace = agent->trace;  // `this` may be destroyed when the function returns
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
    if (!session->is_self()) place_on_devices(call.request());
    for (const auto& hook : agent->hooks) hook->after_receive(session->peer(), call.request());
    served.invoke(call);
  } catch (...) {
    call.fail(std::current_exception());
  }
  const Clock::time_point answered = std::exchange(timed, outer).answered;
  const bool looks = trace || answered == Clock::time_point::max();  // reading the clock is not free
  const Clock::time_point end = looks ? Clock::now() : answered;
  served.run_time.note(std::min(answered, end) - start);
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
    InboundCall old(std::move(*this));  // its destructor replies with an error if the call is unanswered
    state_ = std::move(other.state_);
  }
  return *this;
}

InboundCall::~InboundCall() {
  if (state_) fail(std::make_exception_ptr(UsageError("the function returned without replying")));
}

Agent& InboundCall::agent() const noexcept { return state_->agent->handle; }
const WorkerInfo& InboundCall::from() const noexcept { return state_->session->peer(); }
Message& InboundCall::request() noexcept { return state_->request; }
const CallContext& InboundCall::context() const noexcept { return state_->context; }
void InboundCall::begin() noexcept { state_->begin(); }
int InboundCall::level() const noexcept { return state_->level(); }

void InboundCall::reply(Message&& result) {
  if (!state_) throw UsageError("InboundCall::reply: the call has already been answered");
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
    const cuda::CallStamp stamp = detail::stamp_of(state_->context.origin);
    const bool staged = !state_->session->is_self() && detail::needs_staging(result);
    if (!staged && !cuda::has_index_work(stamp)) return send(std::move(result), nullptr);
    detail::Staging staging =
        staged ? detail::Staging(result, stamp, state_->session->lender()) : detail::Staging(stamp);
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
