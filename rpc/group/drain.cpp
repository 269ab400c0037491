#include "tendril/rpc/group/drain.h"

#include <algorithm>
#include <locale>
#include <sstream>
#include <string>

#include "tendril/rpc/error.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/system/thread.h"

namespace tendril::rpc::detail {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

/// If shutdown has no deadline: how long idle workers wait for requests that were sent and have not arrived.
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
  if (metrics.tensors_out > 0)
    text += ", " + std::to_string(metrics.tensors_out) + " tensors not released by other workers";
  if (metrics.open_calls > metrics.pending_calls)
    text += ", " + std::to_string(metrics.open_calls - metrics.pending_calls) + " calls delivering their results";
  return text;
}

Traffic wait_until_idle(const Agent& agent, Gathering& group, Clock::time_point deadline) {
  auto pause = std::chrono::microseconds(50);
  for (;;) {
    Traffic traffic = agent.traffic();  // first: is_idle() sees each request counted here until it is answered
    if (agent.is_idle()) return traffic;
    group.check();  // a worker that dies ends the wait
    if (Clock::now() >= deadline) throw TimeoutError(describe(agent));
    sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(10'000));
  }
}

/// Writes the numbers of requests sent and received, then the connected ranks after a '+' or the others after a '-',
/// whichever list is shorter, as ranks and ranges such as 3-17. Every worker receives the text of every worker, so it
/// must be short.
std::string write(const Traffic& traffic, WorkerId world_size) {
  std::ostringstream text;
  text.imbue(std::locale::classic());  // no separators between digits, whatever the program's locale
  text << traffic.requests_sent << ' ' << traffic.requests_received;
  const std::vector<WorkerId>& apart = traffic.not_connected;
  const bool few_apart = apart.size() <= static_cast<std::size_t>(world_size) / 2;
  std::vector<bool> listed(static_cast<std::size_t>(world_size), !few_apart);
  for (const WorkerId rank : apart) listed[static_cast<std::size_t>(rank)] = few_apart;
  text << (few_apart ? " -" : " +");
  for (auto first = std::find(listed.begin(), listed.end(), true); first != listed.end();) {
    const auto end = std::find(first, listed.end(), false);
    text << ' ' << first - listed.begin();
    if (end - first > 1) text << '-' << end - listed.begin() - 1;
    first = std::find(end, listed.end(), true);
  }
  return text.str();
}

/// The parsed text of one worker.
struct TrafficReport {
  uint64_t sent = 0, received = 0;
  std::vector<bool> connected;  // by rank
};

TrafficReport parse(const std::string& text, std::size_t world_size) {
  TrafficReport said;
  std::istringstream in(text);
  in.imbue(std::locale::classic());
  char sign = 0;
  in >> said.sent >> said.received >> sign;
  bool good = in && (sign == '+' || sign == '-');
  said.connected.assign(world_size, sign == '-');
  for (std::size_t rank = 0; good && in >> rank;) {
    std::size_t last = rank;
    if (!in.eof() && in.peek() == '-') in.ignore() >> last;
    good = in && rank <= last && last < world_size;
    for (; good && rank <= last; ++rank) said.connected[rank] = sign == '+';
  }
  if (!good || !in.eof()) throw MessageError("rendezvous: a malformed count of calls");
  return said;
}

/// The counts of all workers in one round, by rank.
class Round {
 public:
  explicit Round(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      missing_.push_back(text.empty());
      workers_.push_back(text.empty() ? TrafficReport() : parse(text, texts.size()));
      sent_ += workers_.back().sent;
      received_ += workers_.back().received;
    }
  }

  /// Whether nothing is in transit: as many requests were received as sent, and no connection has ended at one end
  /// only.
  bool settled() const { return sent_ == received_ && !one_sided(); }

  /// The workers that have lost their session with `self`, although `self` still has a session with them.
  std::vector<WorkerId> lost_by(WorkerId self) const {
    std::vector<WorkerId> ranks;
    const auto to = static_cast<std::size_t>(self);
    for (std::size_t from = 0; from < workers_.size(); ++from) {
      if (is_one_sided(from, to)) ranks.push_back(static_cast<WorkerId>(from));
    }
    return ranks;
  }

  std::string describe(const std::vector<std::string>& names) const {
    std::ostringstream text;
    text << "of " << sent_ << " requests that were sent over open connections " << received_ << " have arrived";
    for (std::size_t rank = 0; rank < std::min<std::size_t>(workers_.size(), 8); ++rank)
      text << (rank == 0 ? " (" : "; ") << '\'' << names[rank] << "' has sent " << workers_[rank].sent
           << " and received " << workers_[rank].received;
    text << (workers_.size() > 8 ? "; ...)" : ")");
    if (const auto pair = one_sided())
      text << ", and '" << names[pair->first] << "' has lost its connection to '" << names[pair->second]
           << "', which has not noticed";
    return text.str();
  }

 private:
  bool is_one_sided(std::size_t from, std::size_t to) const {
    return !missing_[from] && !missing_[to] && !workers_[from].connected[to] && workers_[to].connected[from];
  }

  /// The first pair of workers of which only the second believes that they are connected.
  std::optional<std::pair<std::size_t, std::size_t>> one_sided() const {
    for (std::size_t from = 0; from < workers_.size(); ++from) {
      for (std::size_t to = 0; to < workers_.size(); ++to) {
        if (is_one_sided(from, to)) return std::pair(from, to);
      }
    }
    return std::nullopt;
  }

  std::vector<TrafficReport> workers_;
  std::vector<bool> missing_;  // workers whose loss is accepted
  uint64_t sent_ = 0, received_ = 0;
};

}  // namespace

void drain(const Agent& agent, Gathering& group, Clock::time_point deadline) {
  const WorkerId world_size = agent.options().world_size;
  std::vector<std::string> previous;
  Clock::time_point until = deadline;
  auto pause = std::chrono::microseconds(50);
  for (;;) {
    const Traffic mine = wait_until_idle(agent, group, deadline);
    milliseconds left = 0ms;
    // One second past the deadline, so that a worker that is busy then reports the reason itself.
    if (deadline != Clock::time_point::max())
      left = std::max(0ms, std::chrono::ceil<milliseconds>(deadline - Clock::now())) + 1s;
    auto all = group.gather(phases::kCallsFinished, write(mine, world_size), left);
    const Round round(all);
    // All workers see the same numbers, so all stop in the same round.
    if (round.settled() && all == previous) return;
    const Clock::time_point now = Clock::now();
    if (all != previous) {
      if (deadline == Clock::time_point::max()) until = now + kArrivalTime;
      pause = std::chrono::microseconds(50);
      previous = std::move(all);
    }
    // The next round confirms a settled one, even past the deadline: work that continues would change the numbers.
    if (now >= until && !round.settled())
      throw TimeoutError("all workers are idle, but " + round.describe(group.names()));
    if (now >= until + 1s) throw TimeoutError("calls continue past the deadline: " + round.describe(group.names()));
    if (round.settled()) continue;
    for (const WorkerId peer : round.lost_by(agent.self().id)) agent.impl().check_connection(peer);
    sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(10'000));
  }
}

}  // namespace tendril::rpc::detail
