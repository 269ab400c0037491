#include "tendril/rpc/status.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/reference/rref_context.h"
#include "tendril/rpc/session/agents.h"
#include "tendril/tensor/detail/classic_numbers.h"

namespace tendril::rpc {
namespace {

constexpr std::size_t kMostLines = 100;  // of a list

std::string age_text(std::chrono::nanoseconds age) {
  const tendril::detail::ClassicNumbers numbers;
  char text[32];
  std::snprintf(text, sizeof text, "%10.3f s  ", std::chrono::duration<double>(age).count());
  return text;
}

std::string microseconds_text(std::chrono::nanoseconds time) {
  const tendril::detail::ClassicNumbers numbers;
  char text[32];
  std::snprintf(text, sizeof text, "%.1f us", static_cast<double>(time.count()) / 1e3);
  return text;
}

template <class T, class Line>
void list(std::ostream& out, const char* title, const std::vector<T>& entries, Line line) {
  out << title << ": " << entries.size() << '\n';
  for (std::size_t i = 0; i < std::min(entries.size(), kMostLines); ++i) line(entries[i]);
  if (entries.size() > kMostLines) out << "  and " << entries.size() - kMostLines << " more\n";
}

void describe_connection(std::ostream& out, const Connection& one) {
  out << "  " << name_of(one.peer) << ": " << one.transport << ", " << one.pending_calls << " calls to it pending, "
      << one.unanswered_calls << " from it unanswered";
  if (one.transport != "self") {
    out << "; sent " << one.bytes_sent << " bytes and " << one.requests_sent << " requests, received "
        << one.bytes_received << " bytes and " << one.requests_received << " requests; " << one.queued_bytes
        << " bytes queued; silent for " << std::chrono::duration<double>(one.silent).count() << " s";
  }
  out << '\n';
}

void describe_reference(std::ostream& out, const LiveReference& one) {
  out << age_text(one.age) << one.id;
  if (!one.type.empty()) out << " (" << one.type << ')';
  out << " of " << name_of(one.owner) << ", ";
  if (one.user.id >= 0) {
    out << "user " << name_of(one.user);
  } else {
    out << "no user";
  }
  out << ": " << to_string(one.state) << '\n';
}

void describe_counters(std::ostream& out, const Agent& agent, const Metrics& m) {
  const AgentOptions& options = agent.options();
  out << "pool: " << m.threads << " threads of at most " << options.max_threads << ", " << m.active_handlers << " of "
      << options.num_worker_threads << " slots in use, " << m.blocked_handlers << " handlers waiting, " << m.queued_jobs
      << " jobs queued\n";
  out << "calls made: " << m.calls_made << ", completed " << m.calls_completed << ", failed " << m.calls_failed
      << " (timed out " << m.calls_timed_out << ", cancelled " << m.calls_cancelled << "), late replies "
      << m.late_replies << ", unread errors " << m.errors_unread << '\n';
  out << "calls served: " << m.calls_served << ", dropped " << m.calls_dropped << '\n';
  if (m.tensors_lent + m.tensors_borrowed > 0) {
    out << "tensors on devices: lent " << m.tensors_lent << ", not released " << m.tensors_out << ", borrowed "
        << m.tensors_borrowed << '\n';
  }
  const uint64_t timed = m.latency.total();
  out << "latency of calls made: " << timed << " timed";
  if (timed > 0) {
    out << ", mean " << microseconds_text(std::chrono::nanoseconds(m.latency.sum_ns / timed)) << ", p50 "
        << microseconds_text(m.latency.quantile(0.5)) << ", p99 " << microseconds_text(m.latency.quantile(0.99));
  }
  out << '\n';
}

}  // namespace

std::string status(const Agent& agent) {
  std::ostringstream out;
  const AgentOptions& options = agent.options();
  out << "== " << name_of(agent.self()) << " of " << options.world_size << ", process " << ::getpid()
      << (agent.has_shut_down() ? ", shut down" : "") << '\n';
  list(out, "connections", agent.connections(), [&](const Connection& one) { describe_connection(out, one); });
  std::string missing;
  for (WorkerId rank = 0; rank < options.world_size; ++rank)
    if (!agent.is_connected(rank)) missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  if (!missing.empty()) out << "not connected: rank " << missing << '\n';
  list(out, "calls made and pending", agent.calls_in_flight(), [&](const CallInFlight& one) {
    out << age_text(one.age) << '#' << one.call_id << ' ' << one.function_name << " on " << name_of(one.peer) << '\n';
  });
  list(out, "calls received and unanswered", agent.calls_received(), [&](const CallReceived& one) {
    out << age_text(one.age) << '#' << one.call_id << ' ' << one.function_name << " for " << name_of(one.caller) << ": "
        << to_string(one.state) << '\n';
  });
  std::vector<HandlerRunning> handlers = agent.handlers_running();
  std::sort(handlers.begin(), handlers.end(), [](const auto& a, const auto& b) { return a.age > b.age; });
  list(out, "threads in use", handlers, [&](const HandlerRunning& one) {
    out << age_text(one.age) << one.function;
    if (one.caller.id >= 0) out << " for " << name_of(one.caller);
    out << '\n';
  });
  if (const auto references = std::dynamic_pointer_cast<RRefContext>(agent.listener())) {
    list(out, "references", references->table().list(),
         [&](const LiveReference& one) { describe_reference(out, one); });
  }
  describe_counters(out, agent, agent.metrics());
  return out.str();
}

std::string status() {
  std::string text;
  for (const auto& agent : detail::live_agents()) text += status(*agent);
  return text.empty() ? "== no worker in process " + std::to_string(::getpid()) + "\n" : text;
}

}  // namespace tendril::rpc
