// Groups that are made again and again in the same processes, while workers leave, die and rejoin.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tendril/rpc/call.h"
#include "tendril/rpc/default_agent.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/system/thread.h"
#include "tests/simulation/workload.h"

namespace simulated::membership {

using namespace std::chrono_literals;
namespace rpc = tendril::rpc;
using std::chrono::milliseconds;

constexpr int kWorkers = 4;

/// A worker's stay in a barrier, in the order of the checker's events.
struct Stay {
  std::string group;
  int64_t entered = 0;
  int64_t passed = 0;  // 0: still in it, or it failed; others may pass if they heard of this worker before
};
std::map<WorkerId, std::vector<Stay>> stays;
int64_t last_event = 0;
std::map<WorkerId, bool> last_rounds;  // whether each worker's last round succeeded

/// Runs an operation, which must end at most `slack` after its timeout. In seeds without faults it must succeed.
bool runs(WorkerId rank, const std::string& what, milliseconds timeout, const std::function<void()>& operation,
          milliseconds slack = 3200ms) {
  const Faults& faults = faults_now();
  const std::string text = "rank " + std::to_string(rank) + ": " + what;
  const rpc::Clock::time_point deadline = now() + timeout;
  std::string error;
  try {
    operation();
  } catch (const rpc::RpcError& e) {
    error = e.what();
  }
  const rpc::Clock::duration late = now() - deadline;
  if (now() > excused(deadline, faults) + slack && !clocks_are_wrong(faults))
    problem(text + " ended " + std::to_string(late / 1ms) + " ms after its timeout: " + error);
  if (!error.empty() && harmless(faults)) problem(text + " failed: " + error);
  return error.empty();
}

/// Whether `other` has entered a barrier that `rank` passes: there is one that it had not passed before this stay, and
/// it has entered as many as `rank` has passed.
bool met(WorkerId rank, const Stay& stay, WorkerId other) {
  const auto is_here = [&](const Stay& one) { return one.group == stay.group; };
  const auto is_passed = [&](const Stay& one) { return is_here(one) && one.passed > 0; };
  return std::ranges::any_of(
             stays[other],
             [&](const Stay& one) { return is_here(one) && (one.passed == 0 || one.passed > stay.entered); }) &&
         std::ranges::count_if(stays[other], is_here) >= std::ranges::count_if(stays[rank], is_passed);
}

/// A barrier succeeds only if all workers have entered it.
bool enter_barrier(WorkerId rank, milliseconds timeout) {
  const std::size_t place = stays[rank].size();
  stays[rank].push_back({.group = rpc::default_agent()->options().group, .entered = ++last_event});
  if (!runs(rank, "barrier", timeout, [&] { rpc::barrier(timeout); })) return false;
  stays[rank][place].passed = ++last_event;
  for (WorkerId other = 0; other < kWorkers; ++other)
    if (!met(rank, stays[rank][place], other))
      problem("rank " + std::to_string(rank) + " passed a barrier that rank " + std::to_string(other) +
              " has not entered");
  return true;
}

int64_t twice(int64_t x) { return 2 * x; }

void call_somebody(WorkerId rank, Random& random) {
  const auto to = static_cast<WorkerId>(random.below(kWorkers));
  const milliseconds timeout(harmless(faults_now()) ? 5000 : random.between(50, 2000));
  runs(rank, "call", timeout, [&] {
    const auto x = static_cast<int64_t>(random.below(1000));
    const int64_t got = rpc::rpc_sync<&twice>(to, rpc::CallOptions{.timeout = timeout}, x);
    if (got != 2 * x) value_problem("twice(" + std::to_string(x) + ") returned " + std::to_string(got));
  });
}

/// Timeouts of one round, long enough for faults that are harmless.
struct Timeouts {
  Timeouts() = default;
  explicit Timeouts(Random& random) {
    if (harmless(faults_now())) return;
    init = milliseconds(random.between(1000, 6000));
    barrier = milliseconds(random.between(200, 5000));
    shutdown = milliseconds(random.between(500, 8000));
  }
  milliseconds init{15'000}, barrier{15'000}, shutdown{15'000};
};

/// Joins, makes calls, meets the others and leaves. Returns whether all of it succeeded.
bool round(WorkerId rank, const Timeouts& timeouts, Random& random) {
  const auto idle = [&random] {
    if (random.chance(0.5)) rpc::sleep_for(milliseconds(random.below(200)));
  };
  idle();
  rpc::InitOptions options = options_of_seed();
  options.init_timeout = timeouts.init;
  // Rank 0 takes up to 2 s to tell the others. They wait for its answer for up to 4 s, and then shut down.
  const auto join = [&] { rpc::init_rpc("w" + std::to_string(rank), options); };
  if (!runs(rank, "init_rpc", timeouts.init, join, rank == 0 ? 3000ms : 5200ms)) return false;
  for (uint64_t i = random.below(4); i > 0; --i) call_somebody(rank, random);
  bool passed = true;
  for (int i = 0; i < 2; ++i) {
    idle();
    passed = enter_barrier(rank, timeouts.barrier) && passed;
  }
  // Each of the last phases of a shutdown may take a second.
  const auto leave = [&] { rpc::shutdown({.timeout = timeouts.shutdown, .accept_losses = true}); };
  return runs(rank, "shutdown", timeouts.shutdown, leave, 5000ms) && passed;
}

void run(WorkerId rank) {
  Random random = random_of(rank), shared = random_of_seed();
  last_rounds.erase(rank);  // of this rank's earlier process
  {
    const AtWork here;
    for (uint64_t i = shared.between(1, 4); i > 0; --i) round(rank, Timeouts(random), random);
  }
  wait_for_others();
  last_rounds[rank] = round(rank, Timeouts(), random);
}

/// Once faults have stopped, all workers can form a group.
void check_last_rounds(const SimulationReport& report, const Faults& faults) {
  if (clocks_are_wrong(faults) || corrupts(faults)) return;
  for (const SimulationReport::Rank& rank : report.ranks)
    if (rank.killed) return;
  for (WorkerId rank = 0; rank < kWorkers; ++rank)
    if (!last_rounds[rank])
      problem("rank " + std::to_string(rank) +
              " has not taken part in the last group: " + report.ranks[static_cast<std::size_t>(rank)].error);
}

void check(const SimulationReport& report, const Faults& faults) {
  check_all_returned(report, faults);
  check_last_rounds(report, faults);
}

void begin(uint64_t) {
  stays.clear();
  last_rounds.clear();
  last_event = 0;
}

const bool added = add({.name = "membership", .world_size = kWorkers, .begin = begin, .run = run, .check = check});

}  // namespace simulated::membership
