#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tendril/rpc/clock.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/simulation.h"
#include "tendril/rpc/simulation/random.h"

/// Random distributed programs, and the invariants that each must satisfy after its simulation.
namespace simulated {

using tendril::rpc::Faults;
using tendril::rpc::SimulationReport;
using tendril::rpc::WorkerId;
using Random = tendril::rpc::detail::SimulationRandom;

/// One random program. Every choice is drawn from the seed. All workers share the globals that `run` uses, so `check`
/// can examine what all of them did.
struct Workload {
  std::string name;
  int world_size = 3;
  /// Called before the simulation: resets the globals.
  std::function<void(uint64_t seed)> begin;
  void (*run)(WorkerId rank) = nullptr;
  /// Called after the simulation: reports broken invariants with `problem`.
  std::function<void(const SimulationReport& report, const Faults& faults)> check;
};

/// All workloads, sorted by name.
const std::vector<Workload>& workloads();
const Workload& workload(const std::string& name);  ///< throws std::invalid_argument that lists the names
bool add(Workload workload);

/// Records a broken invariant.
void problem(const std::string& what);
/// Records a wrong value, unless `corrupts(faults_now())`.
void value_problem(const std::string& what);

/// A random subset of all faults, as in "Swarm testing" (A. Groce et al., ISSTA 2012): some defects appear only when
/// other faults are rare.
Faults faults_of(uint64_t seed);

/// The outcome of one seed.
struct Outcome {
  std::vector<std::string> problems;
  SimulationReport report;
};
/// Optional parts of the report.
struct Kept {
  bool transcript = false;
  std::size_t events = 0;
};
Outcome run(const Workload& workload, uint64_t seed, const Kept& kept = {});

/// The time of the simulation, which is the same for all workers: each worker's Clock starts at a different time.
inline tendril::rpc::Clock::time_point now() { return tendril::rpc::Clock::time_point(tendril::rpc::simulated_time()); }

/// Random numbers for one worker's function, different for each rank and each start.
Random random_of(WorkerId rank);
/// Random numbers that are the same for all workers.
Random random_of_seed();

/// The ranks of a random subset of the workers, each with this probability.
std::vector<WorkerId> random_members(Random& random, int world_size, double probability);
/// The workers' names: "w" and the rank.
std::vector<std::string> names_of(const std::vector<WorkerId>& ranks);

/// Options drawn from the seed, the same for all workers: liveness timeouts and the number of handler threads.
tendril::rpc::InitOptions options_of_seed();
/// Waits until faults have stopped and all workers have detected their effects.
void wait_for_quiet();
/// Counts a worker, or a function that it serves, among those that still work.
class AtWork {
 public:
  AtWork();
  ~AtWork();
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;
};
/// Calls `wait_for_quiet`, and waits until no worker is at work, for 2 minutes at most.
void wait_for_others();

/// Joins the group as "w" and the rank, with `options_of_seed`.
void join(WorkerId rank);
/// Shuts down once faults have stopped. `check_leaving` requires that it ends in time and, of members, without an
/// error.
void leave(WorkerId rank, std::chrono::milliseconds timeout);
void check_leaving(const SimulationReport& report, const Faults& faults);

/// Whether no worker is killed, cut off or paused for long, so that every function must succeed.
bool harmless(const Faults& faults);
/// Whether processes or threads stop for up to `longest_outage`.
inline bool stops(const Faults& faults) { return faults.pause || faults.stall; }
/// The deadline, or the end of the faults if that is later and processes or threads may stop: they are late then.
inline tendril::rpc::Clock::time_point excused(tendril::rpc::Clock::time_point deadline, const Faults& faults) {
  return stops(faults) ? std::max(deadline, tendril::rpc::Clock::time_point(faults.until)) : deadline;
}
/// Whether deadlines may pass too early or too late.
inline bool clocks_are_wrong(const Faults& faults) { return faults.clock_jump || faults.clock_drift > 0; }
/// Whether received values may be wrong. Only frame headers have checksums, so a corrupted payload may go unnoticed.
bool corrupts(const Faults& faults);
const Faults& faults_now();  ///< the faults of the current simulation
/// Records a problem for each rank that did not return, if the faults are harmless.
void check_all_returned(const SimulationReport& report, const Faults& faults);

/// A number from 0 to 2^31 - 1 with a checksum, for arguments that must arrive unchanged even if bytes are corrupted.
int64_t seal(int64_t number);
std::optional<int64_t> unseal(int64_t sealed);  ///< empty if the number was changed

}  // namespace simulated
