#include "tendril/rpc/agent.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tendril/rpc/call/function.h"
#include "tendril/rpc/connect/listener.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/session/agents.h"
#include "tendril/rpc/session/connect.h"
#include "tendril/rpc/system/system_failure.h"
#include "tendril/rpc/threads/trace.h"

namespace tendril::rpc {

Agent::Agent(AgentOptions options, const FunctionTable& functions)
    : impl_(detail::with_system_failures([&] { return std::make_shared<Impl>(std::move(options), functions); })) {
  detail::with_system_failures([&] { impl_->start(); });
}

Agent::Agent(Impl& impl) noexcept : impl_(std::shared_ptr<void>(), &impl), owner_(false) {}

Agent::~Agent() {
  if (owner_) impl_->shutdown(Clock::time_point::max());
}

std::shared_ptr<Agent> Agent::share() const { return {impl_->shared_from_this(), &impl_->handle}; }

const AgentOptions& Agent::options() const noexcept { return impl_->options; }
const WorkerInfo& Agent::self() const noexcept { return impl_->self; }
uint64_t Agent::incarnation() const noexcept { return impl_->incarnation; }
uint64_t Agent::generation() const noexcept { return impl_->generation.load(std::memory_order_relaxed); }
uint64_t Agent::epoch() const noexcept { return impl_->epoch.load(std::memory_order_relaxed); }
Executor& Agent::executor() const noexcept { return *impl_->loop; }
void Agent::shutdown(Clock::time_point deadline) { impl_->shutdown(deadline); }

Agent::Endpoint Agent::listen(ListenOptions options) { return impl_->listen(options); }

void Agent::stop_listening() {
  if (const auto listener = impl_->listening()) listener->close();
}

void Agent::connect(const WorkerInfo& peer, const Endpoint& endpoint, Clock::time_point deadline) {
  detail::connect(*impl_, peer, endpoint, deadline);
}

void Agent::add_peer(const WorkerInfo& peer, uint64_t incarnation, std::shared_ptr<Link> link,
                     const DeviceReport& devices) {
  impl_->add_peer(peer, incarnation, std::move(link), devices);
}

DeviceReport Agent::devices_for(const std::string& peer) const { return impl_->devices_for(peer); }

std::vector<WorkerInfo> Agent::peers() const {
  std::vector<WorkerInfo> peers;
  for (const auto& session : impl_->sessions()) {
    if (!session->is_self()) peers.push_back(session->peer());
  }
  return peers;
}

bool Agent::is_connected(WorkerId peer) const noexcept { return impl_->has_session(peer); }

bool Agent::wait_connected(WorkerId peer, Clock::time_point deadline) { return impl_->wait_connected(peer, deadline); }

void Agent::set_listener(std::shared_ptr<AgentListener> listener) {
  impl_->listener = std::move(listener);
  detail::register_agent(share());
}
const std::shared_ptr<AgentListener>& Agent::listener() const noexcept { return impl_->listener; }
WorkerInfo Agent::worker(std::string_view name) const { return impl_->worker(name); }
WorkerInfo Agent::worker(WorkerId rank) const { return impl_->worker(rank); }
std::shared_ptr<detail::Trace> detail::trace_of(const Agent& agent) noexcept { return agent.impl().trace; }
void Agent::set_trace(std::shared_ptr<detail::Trace> trace) {
  impl_->trace = trace;
  impl_->loop->set_leading_callback([trace = std::move(trace)](Clock::time_point since, Clock::time_point until) {
    trace->record({.kind = detail::TraceSpan::Kind::lead,
                   .start_ns = detail::trace_ns(since),
                   .end_ns = detail::trace_ns(until)});
  });
}
void Agent::add_hook(std::shared_ptr<MessageHook> hook) { impl_->hooks.push_back(std::move(hook)); }

void Agent::attach_part(std::type_index type, std::shared_ptr<void> part) {
  const bool is_first = impl_->parts.emplace(type, std::move(part)).second;
  TENDRIL_CHECK_AS(UsageError, is_first, "Agent::attach: the agent already has an object of this type");
}

std::shared_ptr<void> Agent::find_part(std::type_index type) const noexcept {
  const auto found = impl_->parts.find(type);
  return found == impl_->parts.end() ? nullptr : found->second;
}

void Agent::call(WorkerId to, Message&& request, PendingCallRef call, const CallOptions& options) {
  const auto session = impl_->session(to);
  const uint64_t function = request.function;
  if (session) return session->call(std::move(request), std::move(call), options);
  detail::Counters::add(impl_->counters.made);
  detail::Counters::add(impl_->counters.failed);
  call->fail(
      std::make_exception_ptr(PeerLostError("call of " + name_of_function(function) + " on " + impl_->name_of(to) +
                                                ": it is not connected to worker '" + self().name + "'",
                                            false)));
}

bool Agent::send_control(WorkerId to, Bytes payload) {
  const auto session = impl_->open_session(to);
  return session && session->send_control(std::move(payload));
}

RequestStatus Agent::withdraw_request(WorkerId from, uint64_t call_id) {
  const auto session = impl_->open_session(from);
  return session ? session->withdraw(call_id) : RequestStatus::answered;
}

void Agent::set_rpc_timeout(std::chrono::microseconds timeout) {
  TENDRIL_CHECK_AS(UsageError, timeout.count() >= 0, "set_rpc_timeout: must not be negative, got ", timeout.count(),
                   " us");
  impl_->rpc_timeout_us.store(timeout.count(), std::memory_order_relaxed);
}
std::chrono::microseconds Agent::rpc_timeout() const noexcept {
  return std::chrono::microseconds(impl_->rpc_timeout_us.load(std::memory_order_relaxed));
}

Metrics Agent::metrics() const {
  const detail::Counters& counters = impl_->counters;
  const auto read = [](const detail::Counters::Count& count) { return count.load(std::memory_order_relaxed); };
  Metrics metrics;
  metrics.calls_made = read(counters.made);
  metrics.calls_completed = read(counters.completed);
  metrics.calls_failed = read(counters.failed);
  metrics.calls_timed_out = read(counters.timed_out);
  metrics.calls_cancelled = read(counters.cancelled);
  metrics.errors_unread = impl_->loop->unread_errors();
  metrics.open_calls = read(counters.open);
  metrics.calls_served = read(counters.served);
  metrics.calls_dropped = read(counters.dropped);
  metrics.late_replies = read(counters.late_replies);
  metrics.tensors_lent = read(counters.tensors_lent);
  metrics.tensors_borrowed = read(counters.tensors_borrowed);
  metrics.requests_sent = read(counters.requests_sent);
  metrics.requests_received = read(counters.requests_received);
  metrics.bytes_sent = read(counters.bytes_sent);
  metrics.bytes_received = read(counters.bytes_received);
  metrics.latency.sum_ns = read(counters.latency_ns);
  for (std::size_t i = 0; i < counters.latency.size(); ++i) metrics.latency.counts[i] = read(counters.latency[i]);
  for (const auto& session : impl_->sessions()) {
    metrics.pending_calls += session->pending();
    metrics.unanswered_calls += session->unanswered();
    metrics.tensors_out += session->lent();
    metrics.requests_sent += session->requests_sent();
    metrics.requests_received += session->requests_received();
    if (!session->link()) continue;
    const Link::Gauges gauges = session->link()->gauges();
    metrics.bytes_sent += gauges.bytes_sent;
    metrics.bytes_received += gauges.bytes_received;
    metrics.queued_bytes += gauges.queued_bytes;
  }
  const detail::Loop::Gauges pool = impl_->loop->gauges();
  metrics.queued_jobs = pool.queued_jobs;
  metrics.active_handlers = pool.active;
  metrics.blocked_handlers = pool.blocked;
  metrics.threads = pool.threads;
  return metrics;
}

Traffic Agent::traffic() const {
  Traffic traffic;
  std::vector<bool> connected(static_cast<std::size_t>(options().world_size));
  for (const auto& session : impl_->sessions()) {
    // A session that has never had a connection counts as not connected: it may have ended on the other side unnoticed.
    connected[static_cast<std::size_t>(session->peer().id)] = !session->link() || session->link()->gauges().begun;
    traffic.requests_sent += session->requests_sent();
    traffic.requests_received += session->requests_received();
  }
  for (WorkerId rank = 0; rank < options().world_size; ++rank) {
    if (!connected[static_cast<std::size_t>(rank)]) traffic.not_connected.push_back(rank);
  }
  return traffic;
}

std::vector<CallInFlight> Agent::calls_in_flight() const {
  std::vector<CallInFlight> calls;
  const Clock::time_point now = Clock::now();
  for (const auto& session : impl_->sessions()) session->list_calls(now, calls);
  for (CallInFlight& call : calls) call.function_name = name_of_function(call.function);
  std::sort(calls.begin(), calls.end(), [](const auto& a, const auto& b) { return a.age > b.age; });
  return calls;
}

/// Reads the sessions before the queue, and the queue before the threads, so that a call that moves from one to the
/// next meanwhile is seen at least once.
std::vector<CallReceived> Agent::calls_received() const {
  using State = CallReceived::State;
  std::vector<CallReceived> calls;
  const Clock::time_point now = Clock::now();
  for (const auto& session : impl_->sessions()) session->list_received(now, calls);
  std::map<std::pair<WorkerId, uint64_t>, CallReceived*> by_id;
  for (CallReceived& call : calls) by_id[{call.caller.id, call.call_id}] = &call;
  const auto mark = [&](const CallOrigin& origin, State state) {
    if (origin.agent != incarnation()) return;
    if (const auto found = by_id.find({origin.caller, origin.call_id}); found != by_id.end())
      found->second->state = state;
  };
  for (const CallOrigin& origin : impl_->loop->queued()) mark(origin, State::queued);
  for (const detail::Loop::Running& running : impl_->loop->running()) mark(running.origin, State::running);
  for (CallReceived& call : calls) {
    const ServedFunction* const served = impl_->functions.find(call.function);
    call.function_name = served ? served->name : name_of_function(call.function);
  }
  std::sort(calls.begin(), calls.end(), [](const auto& a, const auto& b) { return a.age > b.age; });
  return calls;
}

std::vector<Connection> Agent::connections() const {
  std::vector<Connection> connections;
  const Clock::time_point now = Clock::now();
  for (const auto& session : impl_->sessions()) {
    Connection& one = connections.emplace_back();
    one.peer = session->peer();
    one.transport = "self";
    one.requests_sent = session->requests_sent();
    one.requests_received = session->requests_received();
    one.pending_calls = session->pending();
    one.unanswered_calls = session->unanswered();
    if (!session->link()) continue;
    const Link::Gauges gauges = session->link()->gauges();
    if (!gauges.begun) {
      connections.pop_back();
      continue;
    }
    one.transport = session->link()->transport();
    one.bytes_sent = gauges.bytes_sent;
    one.bytes_received = gauges.bytes_received;
    one.queued_bytes = gauges.queued_bytes;
    one.silent = std::max<std::chrono::nanoseconds>(now - std::min(gauges.last_received, now), {});
  }
  return connections;
}

/// Calls start jobs and jobs make calls, so neither can be checked alone. If the pool is found empty twice and no job
/// began in between, no job ran in between, and so no job can have made a call after the check for open calls.
bool Agent::is_idle() const {
  const detail::Loop::Gauges before = impl_->loop->gauges();
  if (before.queued_jobs + before.active + before.blocked > 0) return false;
  if (impl_->counters.open.load(std::memory_order_acquire) > 0) return false;
  for (const auto& session : impl_->sessions()) {
    if (session->pending() + session->unanswered() + session->lent() > 0) return false;
  }
  const detail::Loop::Gauges after = impl_->loop->gauges();
  return after.queued_jobs + after.active + after.blocked == 0 && after.jobs_begun == before.jobs_begun;
}

bool Agent::has_shut_down() const {
  const std::lock_guard lock(impl_->mutex_);
  return impl_->shut_down_;
}

std::vector<HandlerRunning> Agent::handlers_running() const { return impl_->name(impl_->loop->running()); }

}  // namespace tendril::rpc
