// Prometheus' text format, version 0.0.4: for each metric, a HELP line and a TYPE line, then its samples.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <locale>
#include <map>
#include <sstream>
#include <utility>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/reference/rref_context.h"
#include "tendril/rpc/session/agents.h"
#include "tendril/rpc/status.h"
#include "tendril/tensor/detail/classic_numbers.h"

namespace tendril::rpc {
namespace {

using Labels = std::vector<std::pair<const char*, std::string>>;

std::string escaped_label(const std::string& value) {
  std::string text;
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text;
}

std::string number_text(double value) {
  const tendril::detail::ClassicNumbers numbers;
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

double seconds_of(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e9; }

/// The values of one agent, read once for all metrics.
struct Snapshot {
  explicit Snapshot(const Agent& agent)
      : worker({{"worker", agent.self().name}, {"rank", std::to_string(agent.self().id)}}),
        world_size(agent.options().world_size),
        slots(agent.options().num_worker_threads),
        metrics(agent.metrics()),
        connections(agent.connections()),
        made(agent.calls_in_flight()),
        received(agent.calls_received()) {
    if (const auto references = std::dynamic_pointer_cast<RRefContext>(agent.listener()))
      rrefs = references->counters();
  }

  Labels worker;
  int world_size, slots;
  Metrics metrics;
  std::vector<Connection> connections;
  std::vector<CallInFlight> made;
  std::vector<CallReceived> received;
  RRefCounters rrefs;
};

class Text {
 public:
  explicit Text(const std::vector<Snapshot>& agents) : agents_(agents) { out_.imbue(std::locale::classic()); }

  void begin(const std::string& name, const char* type, const char* help) {
    name_ = "tendril_rpc_" + name;
    out_ << "# HELP " << name_ << ' ' << help << "\n# TYPE " << name_ << ' ' << type << '\n';
  }
  template <class Value>
  void sample(const Labels& worker, const Labels& more, Value value, const char* suffix = "") {
    out_ << name_ << suffix << '{';
    const char* comma = "";
    for (const Labels* labels : {&worker, &more}) {
      for (const auto& [name, text] : *labels) {
        out_ << comma << name << "=\"" << escaped_label(text) << '"';
        comma = ",";
      }
    }
    out_ << "} ";
    if constexpr (std::is_floating_point_v<Value>) {
      out_ << number_text(value);
    } else {
      out_ << value;
    }
    out_ << '\n';
  }
  /// Writes one sample per agent.
  template <class Read>
  void each(const std::string& name, const char* type, const char* help, Read read) {
    begin(name, type, help);
    for (const Snapshot& agent : agents_) sample(agent.worker, {}, read(agent));
  }
  /// Writes one sample per connection, except an agent's connection with itself.
  template <class Read>
  void each_peer(const std::string& name, const char* type, const char* help, Read read) {
    begin(name, type, help);
    for (const Snapshot& agent : agents_) {
      for (const Connection& one : agent.connections) {
        if (one.transport == "self") continue;
        sample(agent.worker, {{"peer", one.peer.name}, {"transport", one.transport}}, read(one));
      }
    }
  }

  void latency(const Snapshot& agent) {
    const LatencyHistogram& histogram = agent.metrics.latency;
    constexpr int kFirst = 10, kLast = 35;  // 1 us (2^10 ns) to 34 s (2^35 ns)
    uint64_t below = 0;
    int bucket = 0;
    for (int power = kFirst; power <= kLast; ++power) {
      for (; bucket < 4 * power; ++bucket) below += histogram.counts[static_cast<std::size_t>(bucket)];
      sample(agent.worker, {{"le", number_text(std::ldexp(1e-9, power))}}, below, "_bucket");
    }
    const uint64_t all = histogram.total();
    sample(agent.worker, {{"le", "+Inf"}}, all, "_bucket");
    sample(agent.worker, {}, static_cast<double>(histogram.sum_ns) / 1e9, "_sum");
    sample(agent.worker, {}, all, "_count");
  }

  std::string take() { return std::move(out_).str(); }

 private:
  const std::vector<Snapshot>& agents_;
  std::string name_;
  std::ostringstream out_;
};

void write_counters(Text& text, const std::vector<Snapshot>& agents) {
  const auto counter = [&](const char* name, const char* help, uint64_t Metrics::*field) {
    text.each(name, "counter", help, [field](const Snapshot& agent) { return agent.metrics.*field; });
  };
  counter("calls_made_total", "Calls made, to other workers and to this one.", &Metrics::calls_made);
  counter("calls_completed_total", "Calls made that ended with a result.", &Metrics::calls_completed);
  counter("calls_failed_total", "Calls made that ended with any error.", &Metrics::calls_failed);
  counter("calls_timed_out_total", "Failed calls that reached their deadlines.", &Metrics::calls_timed_out);
  counter("calls_cancelled_total", "Failed calls that their caller cancelled.", &Metrics::calls_cancelled);
  counter("errors_unread_total", "Errors of calls whose futures were destroyed unread.", &Metrics::errors_unread);
  counter("late_replies_total", "Replies to calls that had ended already.", &Metrics::late_replies);
  counter("calls_served_total", "Requests answered.", &Metrics::calls_served);
  counter("calls_dropped_total", "Requests not started: cancelled, or past their deadline while queued.",
          &Metrics::calls_dropped);
  counter("requests_sent_total", "Requests sent to other workers.", &Metrics::requests_sent);
  counter("requests_received_total", "Requests received from other workers.", &Metrics::requests_received);
  counter("bytes_sent_total", "Bytes sent to other workers.", &Metrics::bytes_sent);
  counter("bytes_received_total", "Bytes received from other workers.", &Metrics::bytes_received);
  counter("tensors_lent_total", "Device tensors sent as handles of their memory.", &Metrics::tensors_lent);
  counter("tensors_borrowed_total", "Device tensors received as handles of their memory.", &Metrics::tensors_borrowed);
  text.begin("call_latency_seconds", "histogram", "Time from a call to its result.");
  for (const Snapshot& agent : agents) text.latency(agent);
}

void write_gauges(Text& text) {
  const auto gauge = [&](const char* name, const char* help, uint64_t Metrics::*field) {
    text.each(name, "gauge", help, [field](const Snapshot& agent) { return agent.metrics.*field; });
  };
  gauge("tensors_out", "Lent tensors that have not been released.", &Metrics::tensors_out);
  gauge("pending_calls", "Calls made that have not ended.", &Metrics::pending_calls);
  gauge("unanswered_calls", "Requests received that have not been answered.", &Metrics::unanswered_calls);
  gauge("queued_jobs", "Handlers that wait for a slot.", &Metrics::queued_jobs);
  gauge("active_handlers", "Handlers that hold a slot.", &Metrics::active_handlers);
  gauge("blocked_handlers", "Handlers that are blocked and hold no slot.", &Metrics::blocked_handlers);
  gauge("threads", "Threads of the pool.", &Metrics::threads);
  gauge("queued_bytes", "Bytes queued to be sent.", &Metrics::queued_bytes);
  text.each("slots", "gauge", "Handlers that may run at once.", [](const Snapshot& agent) { return agent.slots; });
  text.each("world_size", "gauge", "Workers of the group.", [](const Snapshot& agent) { return agent.world_size; });
  text.each("peers", "gauge", "Other workers that are connected.",
            [](const Snapshot& agent) { return std::max<std::size_t>(agent.connections.size(), 1) - 1; });
  text.each("oldest_pending_call_seconds", "gauge", "Age of the oldest call made that has not ended, or 0.",
            [](const Snapshot& agent) { return agent.made.empty() ? 0.0 : seconds_of(agent.made.front().age); });
  text.each(
      "oldest_unanswered_call_seconds", "gauge", "Age of the oldest request without an answer, or 0.",
      [](const Snapshot& agent) { return agent.received.empty() ? 0.0 : seconds_of(agent.received.front().age); });
  const auto rref = [&](const char* name, const char* help, std::size_t RRefCounters::*field) {
    text.each(name, "gauge", help, [field](const Snapshot& agent) { return agent.rrefs.*field; });
  };
  rref("owner_rrefs", "Objects of this worker that other workers refer to.", &RRefCounters::owner_rrefs);
  rref("forks", "References of other workers to objects of this one.", &RRefCounters::forks);
  rref("user_rrefs", "References of this worker to objects of other workers.", &RRefCounters::users);
  rref("pending_user_rrefs", "References of this worker that their owners have not confirmed.",
       &RRefCounters::pending_users);
}

void write_functions(Text& text, const std::vector<Snapshot>& agents) {
  text.begin("calls_in_flight", "gauge", "Calls made that have not ended, by function.");
  for (const Snapshot& agent : agents) {
    std::map<std::string, uint64_t> count;
    for (const CallInFlight& call : agent.made) ++count[call.function_name];
    for (const auto& [function, calls] : count) text.sample(agent.worker, {{"function", function}}, calls);
  }
  text.begin("calls_received", "gauge", "Requests that have not been answered, by function and state.");
  for (const Snapshot& agent : agents) {
    std::map<std::pair<std::string, std::string>, uint64_t> count;
    for (const CallReceived& call : agent.received) ++count[{call.function_name, to_string(call.state)}];
    for (const auto& [key, calls] : count)
      text.sample(agent.worker, {{"function", key.first}, {"state", key.second}}, calls);
  }
}

std::string text_of_snapshots(const std::vector<Snapshot>& snapshots) {
  Text text(snapshots);
  write_counters(text, snapshots);
  write_gauges(text);
  const auto peer = [&](const char* name, const char* type, const char* help, uint64_t Connection::*field) {
    text.each_peer(name, type, help, [field](const Connection& one) { return one.*field; });
  };
  peer("peer_bytes_sent_total", "counter", "Bytes sent over the current connection.", &Connection::bytes_sent);
  peer("peer_bytes_received_total", "counter", "Bytes received over the current connection.",
       &Connection::bytes_received);
  peer("peer_queued_bytes", "gauge", "Bytes queued to be sent to the peer.", &Connection::queued_bytes);
  peer("peer_pending_calls", "gauge", "Calls to the peer that have not ended.", &Connection::pending_calls);
  text.each_peer("peer_silent_seconds", "gauge", "Time since the last byte from the peer.",
                 [](const Connection& one) { return seconds_of(one.silent); });
  write_functions(text, snapshots);
  return text.take();
}

}  // namespace

std::string prometheus_text(const Agent& agent) { return text_of_snapshots({Snapshot(agent)}); }

std::string prometheus_text() {
  std::vector<Snapshot> snapshots;
  for (const auto& agent : detail::live_agents()) snapshots.emplace_back(*agent);
  return text_of_snapshots(snapshots);
}

}  // namespace tendril::rpc
