#include "tendril/rpc/launch/drain.h"

#include <algorithm>
#include <locale>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "tendril/rpc/error.h"

namespace tendril::rpc::detail {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

/// Where shutdown has no deadline: how long idle workers wait for requests that were sent and have not arrived.
constexpr auto kArrivalTime = 60s;

std::string describe(const Agent& agent) {
  const Metrics metrics = agent.metrics();
  std::string text = "still busy: ";
  text += std::to_string(metrics.active_handlers + metrics.blocked_handlers) + " handlers running";
  const auto running = agent.handlers_running();
  if (!running.empty()) text += " (" + rpc::describe(running) + ")";
  text += ", " + std::to_string(metrics.queued_jobs) + " jobs queued, " + std::to_string(metrics.unanswered_calls) +
          " received calls not answered, " + std::to_string(metrics.pending_calls) + " calls pending";
  const auto calls = agent.calls_in_flight();
  for (std::size_t i = 0; i < std::min<std::size_t>(calls.size(), 4); ++i)
    text += (i == 0 ? " (to '" : ", '") + calls[i].peer.name + "'" +
            (i + 1 == std::min<std::size_t>(calls.size(), 4) ? ")" : "");
  if (metrics.tensors_out > 0) text += ", " + std::to_string(metrics.tensors_out) + " tensors not given back by others";
  if (metrics.open_calls > metrics.pending_calls)
    text += ", " + std::to_string(metrics.open_calls - metrics.pending_calls) + " calls whose outcome is being told";
  return text;
}

Traffic wait_until_idle(const Agent& agent, Gathering& group, Clock::time_point deadline) {
  auto pause = std::chrono::microseconds(50);
  for (;;) {
    Traffic traffic = agent.traffic();  // first: a request that it counts as received is seen below until answered
    if (agent.is_idle()) return traffic;
    group.check();  // a worker that dies ends the wait
    if (Clock::now() >= deadline) throw TimeoutError(describe(agent));
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(10'000));
  }
}

std::string write(const Traffic& traffic) {
  std::ostringstream text;
  text.imbue(std::locale::classic());  // whatever the program's locale puts between digits
  text << traffic.requests_sent << ' ' << traffic.requests_received;
  for (const WorkerId rank : traffic.not_connected) text << ' ' << rank;
  return text.str();
}

Traffic parse(const std::string& text) {
  Traffic traffic;
  std::istringstream in(text);
  in.imbue(std::locale::classic());
  in >> traffic.requests_sent >> traffic.requests_received;
  if (!in) throw MessageError("rendezvous: a malformed count of calls");
  for (WorkerId rank; in >> rank;) traffic.not_connected.push_back(rank);
  if (!in.eof()) throw MessageError("rendezvous: a malformed count of calls");
  return traffic;
}

/// What all workers said in one round, by rank.
class Round {
 public:
  explicit Round(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      workers_.push_back(text.empty() ? Traffic() : parse(text));
      missing_.push_back(text.empty());
      sent_ += workers_.back().requests_sent;
      received_ += workers_.back().requests_received;
      for (const WorkerId other : workers_.back().not_connected)
        apart_.emplace(static_cast<WorkerId>(workers_.size()) - 1, other);
    }
  }

  /// Nothing is on its way: the counts of an ended connection have gone at both its ends, and the others agree.
  bool settled() const { return sent_ == received_ && !one_sided(); }

  std::string describe(const std::vector<std::string>& names) const {
    std::ostringstream text;
    text << "of " << sent_ << " requests that were sent over open connections " << received_ << " have arrived";
    for (std::size_t rank = 0; rank < std::min<std::size_t>(workers_.size(), 8); ++rank)
      text << (rank == 0 ? " (" : "; ") << '\'' << names[rank] << "' has sent " << workers_[rank].requests_sent
           << " and received " << workers_[rank].requests_received;
    text << (workers_.size() > 8 ? "; ...)" : ")");
    if (const auto pair = one_sided())
      text << ", and '" << names[static_cast<std::size_t>(pair->first)] << "' has lost its connection to '"
           << names[static_cast<std::size_t>(pair->second)] << "', which has not noticed";
    return text.str();
  }

 private:
  std::optional<std::pair<WorkerId, WorkerId>> one_sided() const {
    for (const auto& [from, to] : apart_)
      if (!apart_.contains({to, from}) && to >= 0 && to < static_cast<WorkerId>(workers_.size()) &&
          !missing_[static_cast<std::size_t>(to)])
        return std::pair(from, to);
    return std::nullopt;
  }

  std::vector<Traffic> workers_;
  std::vector<bool> missing_;  // whose loss is accepted
  uint64_t sent_ = 0, received_ = 0;
  std::set<std::pair<WorkerId, WorkerId>> apart_;  // who has no connection to whom
};

}  // namespace

void drain(const Agent& agent, Gathering& group, Clock::time_point deadline) {
  std::vector<std::string> previous;
  Clock::time_point until = deadline;
  auto pause = std::chrono::microseconds(50);
  for (;;) {
    const Traffic mine = wait_until_idle(agent, group, deadline);
    milliseconds left = 0ms;
    // Later than the deadline: a worker that is busy then says itself with what.
    if (deadline != Clock::time_point::max())
      left = std::max(0ms, std::chrono::ceil<milliseconds>(deadline - Clock::now())) + 1s;
    auto all = group.gather(phases::kCallsFinished, write(mine), left);
    const Round round(all);
    // All workers see the same numbers, so all stop in the same round.
    if (round.settled() && all == previous) return;
    const Clock::time_point now = Clock::now();
    if (all != previous) {
      if (deadline == Clock::time_point::max()) until = now + kArrivalTime;
      pause = std::chrono::microseconds(50);
      previous = std::move(all);
    }
    // What has settled in one round is confirmed in the next, also past the deadline; work that goes on would be
    // noticed.
    if (now >= until && !round.settled())
      throw TimeoutError("all workers are idle, but " + round.describe(group.names()));
    if (now >= until + 1s) throw TimeoutError("calls go on past the deadline: " + round.describe(group.names()));
    if (round.settled()) continue;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(10'000));
  }
}

}  // namespace tendril::rpc::detail
