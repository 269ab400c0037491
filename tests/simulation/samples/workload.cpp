#include "tests/simulation/workload.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tendril/rpc/call.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/system/thread.h"

namespace simulated {

using namespace std::chrono_literals;
namespace rpc = tendril::rpc;

namespace {

std::vector<Workload>& all() {
  static std::vector<Workload> workloads;
  return workloads;
}

// State of the current simulation.
uint64_t current_seed = 0;
std::map<WorkerId, uint64_t> starts;
std::vector<std::string> problems;
Faults current_faults;

}  // namespace

const std::vector<Workload>& workloads() {
  std::ranges::sort(all(), {}, &Workload::name);
  return all();
}

const Workload& workload(const std::string& name) {
  std::string names;
  for (const Workload& one : workloads()) {
    if (one.name == name) return one;
    names += (names.empty() ? "" : ", ") + one.name;
  }
  throw std::invalid_argument("unknown workload '" + name + "', expected one of: " + names);
}

bool add(Workload workload) {
  all().push_back(std::move(workload));
  return true;
}

void problem(const std::string& what) { problems.push_back(what); }

void value_problem(const std::string& what) {
  if (!corrupts(current_faults)) problem(what);
}

Faults faults_of(uint64_t seed) {
  Random random(seed ^ 0x66'61'75'6c'74'73);
  Faults faults;
  if (random.chance(0.1)) return faults;
  if (random.chance(0.5)) faults.partial_write = 0.2;
  if (random.chance(0.5)) faults.long_delay = 0.02;
  if (random.chance(0.5)) faults.reset = 0.003;
  faults.interval = std::chrono::milliseconds(uint64_t{10} << random.below(9));  // up to 2.56 s
  faults.kill = random.chance(0.3);
  faults.lose_host = random.chance(0.2);
  faults.restart = random.chance(0.5);
  faults.include_rank_0 = random.chance(0.2);
  faults.pause = random.chance(0.3);
  faults.stall = random.chance(0.3);
  if (random.chance(0.2)) faults.small_buffer = 0.5;
  if (random.chance(0.2)) faults.clock_drift = 0.5;
  faults.partition = random.chance(0.3);
  faults.cut_pair = random.chance(0.3);
  faults.clock_jump = random.chance(0.2);
  faults.longest_outage = std::chrono::milliseconds(random.chance(0.5) ? 500 : 5000);
  faults.until = std::chrono::milliseconds(random.between(1000, 6000));
  if (random.chance(0.1)) faults.corrupt_byte = 0.0005;
  // Sanitizers replace operator new.
  faults.allocation_failure = random.chance(0.2) && Faults::harsh().allocation_failure;
  return faults;
}

Random random_of(WorkerId rank) {
  return Random(current_seed * 1'000'003 + static_cast<uint64_t>(rank) * 1009 + starts[rank]++);
}

Random random_of_seed() { return Random(current_seed * 31 + 7); }

std::vector<WorkerId> random_members(Random& random, int world_size, double probability) {
  std::vector<WorkerId> members;
  for (WorkerId one = 0; one < world_size; ++one)
    if (random.chance(probability)) members.push_back(one);
  return members;
}

std::vector<std::string> names_of(const std::vector<WorkerId>& ranks) {
  std::vector<std::string> names;
  for (const WorkerId rank : ranks) names.push_back("w" + std::to_string(rank));
  return names;
}

namespace {
rpc::InitOptions drawn_options() {
  Random random(current_seed ^ 0x6f'70'74'73);
  rpc::InitOptions options;
  options.num_worker_threads = std::vector{1, 2, 16}[random.below(3)];
  options.agent.liveness_timeout = std::chrono::milliseconds(random.between(500, 2000));
  options.agent.ping_interval = options.agent.liveness_timeout / static_cast<int64_t>(random.between(2, 5));
  options.agent.grace_period = std::vector{100ms, 1000ms, 3000ms}[random.below(3)];
  return options;
}
}  // namespace

rpc::InitOptions options_of_seed() { return drawn_options(); }

void wait_for_quiet() {
  // A lost peer is detected after a liveness timeout and a ping; a new session may begin up to 10 s later.
  rpc::sleep_for(faults_of(current_seed).until + 15s - rpc::simulated_time());
}

namespace {

/// How a worker left.
struct Leaving {
  bool is_member = false;  // reached rank 0 before
  rpc::Clock::duration late = rpc::Clock::duration::min();
};

int at_work = 0;
std::map<WorkerId, Leaving> leavings;
rpc::Clock::time_point last_join, first_leaving;

void forget() {
  at_work = 0;
  leavings.clear();
  last_join = rpc::Clock::time_point::min();
  first_leaving = rpc::Clock::time_point::max();
}

}  // namespace

int64_t nothing() { return 0; }

AtWork::AtWork() { ++at_work; }
AtWork::~AtWork() { --at_work; }

void wait_for_others() {
  wait_for_quiet();
  for (int i = 0; i < 1200 && at_work > 0; ++i) rpc::sleep_for(100ms);
}

void join(WorkerId rank) {
  leavings.erase(rank);  // of this rank's earlier process
  last_join = std::max(last_join, now());
  rpc::init_rpc("w" + std::to_string(rank), options_of_seed());
  last_join = std::max(last_join, now());
}

void leave(WorkerId rank, std::chrono::milliseconds timeout) {
  Leaving leaving;
  try {
    (void)rpc::rpc_sync<&nothing>(0, rpc::CallOptions{.timeout = 5s});
    leaving.is_member = true;
  } catch (const rpc::RpcError&) {  // rank 0 has lost this worker
  }
  rpc::sleep_for(10s);  // others may be late
  const rpc::Clock::time_point begin = now();
  if (leaving.is_member) first_leaving = std::min(first_leaving, begin);
  std::exception_ptr failed;
  try {
    rpc::shutdown({.timeout = timeout, .accept_losses = true});
  } catch (...) {
    failed = std::current_exception();
  }
  leaving.late = now() - begin - timeout;
  leavings[rank] = leaving;
  if (failed) std::rethrow_exception(failed);
}

void check_leaving(const SimulationReport& report, const Faults& faults) {
  if (clocks_are_wrong(faults)) return;
  const bool must_succeed = !faults.include_rank_0 && !corrupts(faults) && last_join + 3s <= first_leaving;
  for (const auto& [rank, leaving] : leavings) {
    if (leaving.late > 5s)
      problem("shutdown of rank " + std::to_string(rank) + " ended " + std::to_string(leaving.late / 1ms) + " ms late");
    const SimulationReport::Rank& one = report.ranks[static_cast<std::size_t>(rank)];
    if (must_succeed && leaving.is_member && !one.returned && !one.killed)
      problem("rank " + std::to_string(rank) + " failed at the end: " + one.error);
  }
}

bool harmless(const Faults& faults) {
  // A delayed reconnection may exceed a short grace period.
  const bool may_resume = faults.reset == 0 || options_of_seed().agent.grace_period >= 1s;
  return may_resume && !faults.kill && !faults.lose_host && !faults.partition && !faults.cut_pair && !stops(faults) &&
         !clocks_are_wrong(faults) && !corrupts(faults) && !faults.allocation_failure;
}

bool corrupts(const Faults& faults) { return faults.corrupt_byte > 0; }

const Faults& faults_now() { return current_faults; }

void check_all_returned(const SimulationReport& report, const Faults& faults) {
  if (!harmless(faults)) return;
  for (std::size_t rank = 0; rank < report.ranks.size(); ++rank)
    if (!report.ranks[rank].returned)
      problem("rank " + std::to_string(rank) + " failed although no worker was lost: " + report.ranks[rank].error);
}

int64_t seal(int64_t number) {
  const auto checksum = static_cast<int64_t>(Random(static_cast<uint64_t>(number)).bits() >> 32);
  return number << 32 | checksum;
}

std::optional<int64_t> unseal(int64_t sealed) {
  const int64_t number = sealed >> 32;
  return number >= 0 && seal(number) == sealed ? std::optional(number) : std::nullopt;
}

Outcome run(const Workload& workload, uint64_t seed, const Kept& kept) {
  current_seed = seed;
  starts.clear();
  problems.clear();
  forget();
  const Faults faults = current_faults = faults_of(seed);
  if (workload.begin) workload.begin(seed);
  Outcome outcome;
  outcome.report = tendril::rpc::detail::simulate({.world_size = workload.world_size,
                                                   .seed = seed,
                                                   .faults = faults,
                                                   .time_limit = 600s,
                                                   .keep_transcript = kept.transcript,
                                                   .keep_events = kept.events},
                                                  workload.run);
  const SimulationReport& report = outcome.report;
  if (report.end == SimulationReport::End::stuck) problem("deadlock:\n" + report.blocked);
  if (report.end == SimulationReport::End::limit_reached) problem("the program did not end:\n" + report.blocked);
  if (report.faults.contains("a function that did not end after its worker's death"))
    problem("a function did not end after its worker's death");
  workload.check(report, faults);
  outcome.problems = std::exchange(problems, {});
  return outcome;
}

}  // namespace simulated
