#include "tendril/rpc/detail/drain.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <thread>

#include "tendril/rpc/error.h"

namespace tendril::rpc::detail {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

struct Counts {
  uint64_t sent = 0, received = 0;
  friend bool operator==(const Counts&, const Counts&) = default;
};

bool is_idle(const Metrics& metrics) {
  return metrics.pending_calls + metrics.queued_jobs + metrics.active_handlers + metrics.unanswered_calls == 0;
}

std::string describe(const Agent& agent) {
  const Metrics metrics = agent.metrics();
  std::string text = "still busy: ";
  text += std::to_string(metrics.active_handlers) + " handlers running, " + std::to_string(metrics.unanswered_calls) +
          " received calls not answered, " + std::to_string(metrics.pending_calls) + " calls pending";
  const auto calls = agent.calls_in_flight();
  for (std::size_t i = 0; i < std::min<std::size_t>(calls.size(), 4); ++i)
    text += (i == 0 ? " (to '" : ", '") + calls[i].peer.name + "'" +
            (i + 1 == std::min<std::size_t>(calls.size(), 4) ? ")" : "");
  return text;
}

Counts wait_until_idle(const Agent& agent, RendezvousClient& client, Clock::time_point deadline) {
  auto pause = std::chrono::microseconds(50);
  for (;;) {
    const Metrics metrics = agent.metrics();
    if (is_idle(metrics)) return {metrics.requests_sent, metrics.requests_received};
    client.check();  // a worker that dies ends the wait
    if (Clock::now() >= deadline) throw TimeoutError(describe(agent));
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(10'000));
  }
}

Counts parse(const std::string& text) {
  Counts counts;
  const char* end = text.data() + text.size();
  auto result = std::from_chars(text.data(), end, counts.sent);
  if (result.ec == std::errc() && result.ptr < end) result = std::from_chars(result.ptr + 1, end, counts.received);
  if (result.ec != std::errc() || result.ptr != end) throw MessageError("rendezvous: a malformed count of calls");
  return counts;
}

}  // namespace

void drain(const Agent& agent, RendezvousClient& client, Clock::time_point deadline) {
  std::vector<std::string> previous;
  for (;;) {
    const Counts mine = wait_until_idle(agent, client, deadline);
    milliseconds left = 0ms;
    // Later than the deadline: a worker that is busy then says itself with what.
    if (deadline != Clock::time_point::max())
      left = std::max(0ms, std::chrono::ceil<milliseconds>(deadline - Clock::now())) + 1s;
    auto all = client.gather("calls finished", std::to_string(mine.sent) + " " + std::to_string(mine.received), left);
    Counts sum;
    for (const std::string& text : all) {
      const Counts counts = parse(text);
      sum.sent += counts.sent;
      sum.received += counts.received;
    }
    // All workers see the same numbers, so all stop in the same round.
    if (sum.sent == sum.received && all == previous) return;
    previous = std::move(all);
  }
}

}  // namespace tendril::rpc::detail
