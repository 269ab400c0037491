// Messages in both directions between all workers, whose connections constantly break: while a session lives, each
// message arrives once and in order, and at the end each pair has one session and one connection.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tendril/rpc/call.h"
#include "tendril/rpc/default_agent.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/system/thread.h"
#include "tendril/tensor/detail/switched_variable.h"
#include "tests/simulation/directed_fault.h"
#include "tests/simulation/workload.h"

namespace simulated::sessions {

using namespace std::chrono_literals;
namespace rpc = tendril::rpc;

constexpr int kWorkers = 3;
using Pair = std::pair<int64_t, int64_t>;

/// Faults of one run's connections, besides the faults of all workloads.
struct Plan {
  bool gentle = false;     // no session may be lost
  bool long_cuts = false;  // two workers may lose each other
  bool crossing = false;   // both sides dial while neither reaches the other
  std::chrono::milliseconds between{0};
};

// Shared by all workers.
Plan plan;
std::map<Pair, int64_t> heard;  // the last message, by the numbers of the sending and the receiving process
struct End {
  bool meets_all = false;
  std::array<uint32_t, kWorkers> session{};
};
std::map<WorkerId, End> ends;
std::map<std::pair<int, int>, int> open_connections;  // at the end, by the ranks
int64_t last_process = 0;

/// The number of this process; a restarted worker has a new one.
int64_t& own() {
  static int64_t own = 0;
  return own;
}
const auto own_switched = tendril::detail::of_each_process([]() -> auto& { return own(); });

std::string describe(const Pair& pair) {
  return "process " + std::to_string(pair.first) + " to process " + std::to_string(pair.second);
}

/// Receives message `number` of that process. Returns the number of the process that has received it.
int64_t note(int64_t sender, int64_t number) {
  const Pair pair(sender, own());
  int64_t& last = heard[pair];
  if (number <= last || (number > last + 1 && plan.gentle))
    value_problem(describe(pair) + ": message " + std::to_string(number) + " arrived after " + std::to_string(last));
  last = std::max(last, number);
  return own();
}

/// Sends messages to one worker, most of them without waiting for the previous one.
void send_to(WorkerId to, Random random) {
  struct Sent {
    int64_t number;
    rpc::Future<int64_t> reply;
  };
  std::vector<Sent> sent;
  const auto settle = [&](const Sent& one) {
    try {
      (void)one.reply.wait();
    } catch (const rpc::RpcError& e) {
      if (plan.gentle)
        problem("message " + std::to_string(one.number) + " of rank " + std::to_string(to) + ": " + e.what());
    }
  };
  for (int64_t number = 1; number <= 50; ++number) {
    if (random.chance(0.5)) rpc::sleep_for(std::chrono::microseconds(random.below(plan.crossing ? 400'000 : 40'000)));
    try {
      sent.push_back({number, rpc::rpc_async<&note>(to, rpc::CallOptions{.timeout = 60s}, own(), number)});
      if (random.chance(0.2)) settle(sent.back());
    } catch (const rpc::RpcError& e) {
      if (plan.gentle) problem(std::string("a message was not sent: ") + e.what());
    }
  }
  for (const Sent& one : sent) settle(one);
}

/// Breaks connections so that both sides dial, for the first connection too, and meet when the cut is healed.
void cross_dials(Random random) {
  for (int i = 0; i < 3; ++i) {
    if (world().worker().dead) return;
    for (const auto& [a, b] : {std::pair(0, 1), std::pair(0, 2), std::pair(1, 2)}) {
      if (random.chance(0.3) || simulated_network().is_cut(a, b) || simulated_network().is_cut(b, a)) continue;
      happens({.kind = DirectedFault::reset, .from = a, .to = b});
      cut_for(a, b, true, std::chrono::milliseconds(random.between(1150, 1500)));
    }
    rpc::sleep_for(3s);
  }
}

/// Breaks connections for about two seconds.
void sabotage(Random random) {
  for (int64_t i = 2s / plan.between; i > 0; --i) {
    rpc::sleep_for(std::chrono::microseconds(random.below(2000 * static_cast<uint64_t>(plan.between.count()))));
    if (world().worker().dead) return;
    const auto a = static_cast<WorkerId>(random.below(kWorkers));
    const auto b = static_cast<WorkerId>((static_cast<uint64_t>(a) + 1 + random.below(kWorkers - 1)) % kWorkers);
    if (random.chance(0.6)) {
      happens({.kind = DirectedFault::reset, .from = a, .to = b});
    } else if (!simulated_network().is_cut(a, b) && !simulated_network().is_cut(b, a)) {
      const uint64_t longest = plan.long_cuts && random.chance(0.2) ? 8000 : random.chance(0.3) ? 2000 : 200;
      cut_for(a, b, random.chance(0.5), std::chrono::milliseconds(random.between(1, longest)));
    }
  }
}

int64_t nothing() { return 0; }

/// Whether this worker reaches all others.
bool meet_all() {
  for (WorkerId to = 0; to < kWorkers; ++to) try {
      (void)rpc::rpc_sync<&nothing>(to, rpc::CallOptions{.timeout = 10s});
    } catch (const rpc::RpcError&) {
      return false;
    }
  return true;
}

void count_connections() {
  for (const auto* const one : simulated_network().connections())
    if (one->made && !one->gone[0] && !one->gone[1]) ++open_connections[std::minmax(one->hosts[0], one->hosts[1])];
}

void run(WorkerId rank) {
  ends.erase(rank);
  own() = ++last_process;
  Random random = random_of(rank);
  rpc::InitOptions options = options_of_seed();
  options.num_worker_threads = 1;  // so that messages are received in order
  if (plan.gentle) {
    options.agent.grace_period =
        plan.crossing ? 3000ms : 8000ms;  // one side dials after 1/8 of it, the other after 3/8
    options.agent.liveness_timeout = 10s;
    options.agent.ping_interval = 500ms;
  }
  rpc::init_rpc("w" + std::to_string(rank), options);
  {
    std::vector<rpc::detail::Thread> threads;
    for (WorkerId to = 0; to < kWorkers; ++to)
      if (to != rank) threads.emplace_back("sender", [to, own = random.split()] { send_to(to, own); });
    if (rank == 0) (plan.crossing ? cross_dials : sabotage)(random.split());
    for (auto& thread : threads) thread.join();
  }
  wait_for_quiet();
  rpc::sleep_for(20s);  // long cuts are healed, and sessions made again
  End end{.meets_all = meet_all()};
  rpc::sleep_for(5s);
  const auto agent = rpc::default_agent();
  for (WorkerId to = 0; to < kWorkers; ++to)
    if (const auto session = agent->impl().session(to)) end.session[static_cast<std::size_t>(to)] = session->number();
  if (world().worker().dead) return;
  ends[rank] = end;
  if (rank == 0) count_connections();
  rpc::sleep_for(5s);
  rpc::shutdown({.timeout = 60s, .accept_losses = true});
}

void check(const SimulationReport& report, const Faults& faults) {
  if (plan.gentle) check_all_returned(report, faults);
  if (clocks_are_wrong(faults) || faults.include_rank_0 || corrupts(faults)) return;
  for (const auto& [rank, end] : ends)
    for (const auto& [other, its_end] : ends) {
      if (other >= rank || !end.meets_all || !its_end.meets_all) continue;
      const uint32_t mine = end.session[static_cast<std::size_t>(other)],
                     theirs = its_end.session[static_cast<std::size_t>(rank)];
      if (mine != theirs)
        problem("rank " + std::to_string(rank) + " is in session " + std::to_string(mine) + " with rank " +
                std::to_string(other) + ", which is in session " + std::to_string(theirs));
      const int open = open_connections[{other, rank}];
      if (open > 1)
        problem("ranks " + std::to_string(other) + " and " + std::to_string(rank) + " have " + std::to_string(open) +
                " connections");
    }
  if (!plan.gentle) return;
  for (WorkerId rank = 0; rank < kWorkers; ++rank)
    if (!ends[rank].meets_all) problem("rank " + std::to_string(rank) + " does not reach all others");
}

void begin(uint64_t seed) {
  Random random = random_of_seed();
  plan.long_cuts = random.chance(0.3);
  plan.crossing = !plan.long_cuts && random.chance(0.5);
  plan.gentle = harmless(faults_of(seed)) && !plan.long_cuts;
  plan.between = std::chrono::milliseconds(uint64_t{4} << random.below(6));  // up to 128 ms
  heard.clear();
  ends.clear();
  open_connections.clear();
  last_process = 0;
}

const bool added = add({.name = "sessions", .world_size = kWorkers, .begin = begin, .run = run, .check = check});

}  // namespace simulated::sessions
