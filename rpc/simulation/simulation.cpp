#include "tendril/rpc/simulation.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <utility>

#include "tendril/rpc/error.h"
#include "tendril/rpc/group/simulated_launch.h"
#include "tendril/rpc/simulation/allocations.h"
#include "tendril/rpc/simulation/network.h"
#include "tendril/rpc/simulation/poller.h"
#include "tendril/rpc/simulation/world.h"
#include "tendril/rpc/spawn.h"
#include "tendril/rpc/threads/recycled.h"
#include "tendril/tensor/threads.h"

namespace tendril::rpc {

using namespace std::chrono_literals;

Faults Faults::calm() {
  Faults faults;
  faults.partial_write = 0.1;
  faults.long_delay = 0.001;
  faults.reset = 0.0005;
  return faults;
}

Faults Faults::harsh() {
  Faults faults;
  faults.partial_write = 0.2;
  faults.long_delay = 0.02;
  faults.reset = 0.003;
  faults.corrupt_byte = 0.0005;
  faults.small_buffer = faults.clock_drift = 0.2;
  faults.interval = 500ms;
  faults.kill = faults.restart = faults.lose_host = faults.pause = faults.stall = faults.partition = faults.cut_pair =
      faults.clock_jump = faults.include_rank_0 = true;
  faults.allocation_failure = detail::Allocations::can_fail();
  return faults;
}

bool SimulationReport::all_returned() const {
  return end == End::done && std::ranges::all_of(ranks, [](const Rank& rank) { return rank.returned; });
}

std::string SimulationReport::text() const {
  std::string text = "seed " + std::to_string(seed) + ": ";
  text += end == End::done ? "done" : end == End::stuck ? "stuck" : "limit reached";
  text += " after " + std::to_string(time.count() / 1000000) + " ms, " + std::to_string(steps) + " steps, " +
          std::to_string(segments) + " segments, digest " + std::to_string(digest) + "\n";
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Rank& one = ranks[rank];
    text += "rank " + std::to_string(rank) + ": ";
    text += one.returned ? "returned" : one.killed ? "killed" : one.error.empty() ? "did not return" : one.error;
    if (one.starts > 1) text += ", started " + std::to_string(one.starts) + " times";
    text += "\n";
  }
  for (const auto& [what, times] : faults) text += what + ": " + std::to_string(times) + "\n";
  return text + blocked;
}

namespace detail {
namespace {

constexpr uint16_t kPort = 29500;
constexpr uint64_t kMostSkipped = 60;  // allocations before one that fails

std::string text_of_current_exception() {
  try {
    throw;
  } catch (const std::exception& e) {
    return *e.what() != '\0' ? e.what() : "an exception without a message";
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

SharedKey key_of(SimulationRandom random) {
  std::array<std::byte, 32> bytes;
  for (std::byte& one : bytes) one = static_cast<std::byte>(random.bits());
  return SharedKey(bytes, "the simulation's key");
}

NetworkFaults network_faults(const Faults& faults) {
  return {.min_delay = faults.min_delay,
          .max_delay = faults.max_delay,
          .long_delay = faults.long_delay,
          .reset = faults.reset,
          .small_buffer = faults.small_buffer,
          .corrupt = faults.corrupt_byte,
          .part = faults.partial_write};
}

/// Saves the switched variables of this thread and process, and restores them after the simulation.
class Outside {
 public:
  Outside() {
    thread_.save();
    process_.save();
    recycle(false);  // otherwise the number of allocations would depend on what this thread did before
  }
  ~Outside() {
    simulator = nullptr;
    recycle(true);
    thread_.load();
    process_.load();
  }
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;

 private:
  SwitchedValues thread_{tendril::detail::SwitchedVariable::Of::thread};
  SwitchedValues process_{tendril::detail::SwitchedVariable::Of::process};
};

/// One simulation, from its first step to its report.
class Simulation {
 public:
  Simulation(const SimulationOptions& options, const std::function<void(WorkerId)>& run)
      : options_(options),
        run_(run),
        world_({.seed = options.seed,
                .keep_transcript = options.keep_transcript,
                .keep_events = options.keep_events,
                .time_limit = options.time_limit,
                .longest_step = options.longest_step}),
        network_(world_, options.world_size, network_faults(options.faults)),
        random_(world_.random().split()),
        key_(key_of(world_.random().split())) {
    report_.seed = options.seed;
    report_.ranks.resize(static_cast<std::size_t>(options.world_size));
    world_.set_network(network_, [this] { return std::make_unique<SimulatedPoller>(world_, world_.worker()); });
  }

  ~Simulation() { Allocations::fail_for(nullptr); }
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  SimulationReport go() {
    simulator = &world_;
    Allocations::fail_for(&world_);
    for (int rank = 0; rank < options_.world_size; ++rank) start(rank);
    if (options_.faults.interval.count() > 0) next_fault();
    if (options_.faults.until.count() > 0) world_.after(options_.faults.until, [this] { mend_all(); });
    const World::Ended ended = world_.run([this] { return open_ == 0; });
    report_.end = ended == World::Ended::done    ? SimulationReport::End::done
                  : ended == World::Ended::stuck ? SimulationReport::End::stuck
                                                 : SimulationReport::End::limit_reached;
    if (ended != World::Ended::done) report_.blocked = world_.describe_waits();
    report_.time = world_.elapsed();
    report_.steps = world_.steps();
    report_.segments = network_.segments();
    report_.digest = world_.transcript().digest();
    report_.transcript = world_.transcript().take();
    if (Recorder* const recorder = world_.recorder()) {
      report_.events_left_out = recorder->left_out();
      report_.events = recorder->take();
    }
    for (const auto& [what, times] : network_.counters()) report_.faults[what] += times;
    if (world_.failed_allocations() > 0) report_.faults["allocation failure"] = world_.failed_allocations();
    for (SimulatedWorker* worker : std::exchange(workers_, {}))
      if (worker != nullptr) end(*worker, false);
    return std::move(report_);
  }

 private:
  SimulationReport::Rank& report_of(int rank) { return report_.ranks[static_cast<std::size_t>(rank)]; }

  void start(int rank) {
    SimulationReport::Rank& report = report_of(rank);
    SimulatedWorker& worker = world_.add_worker(rank, report.starts++);
    workers_.resize(static_cast<std::size_t>(options_.world_size));
    workers_[static_cast<std::size_t>(rank)] = &worker;
    if (random_.chance(options_.faults.clock_drift)) {
      worker.clock_drift = 0.1 * random_.unit() - 0.05;
      happens("clock drift", rank);
    }
    report.killed = false;
    ++open_;
    network_.host_up(rank);
    world_.happens("start", rank, "starts");
    world_.start_in(worker, "main", [this, &worker, rank] {
      SimulationReport::Rank outcome;
      try {
        become_simulated_worker({.rank = rank,
                                 .world_size = options_.world_size,
                                 .master_port = kPort,
                                 .num_threads = 1,
                                 .listener = -1,
                                 .key = key_},
                                SimulatedNetwork::address_of(0).to_string());
        run_(rank);
        outcome.returned = true;
      } catch (...) {
        outcome.error = text_of_current_exception();
      }
      leave_default_group();
      if (worker.dead) return;
      SimulationReport::Rank& own = report_of(rank);
      own.returned = outcome.returned;
      own.error = outcome.error;
      world_.happens(own.returned ? "return" : "throw", rank, own.returned ? "returns" : "throws " + own.error);
      world_.after(0ns, [this, &worker] {
        if (!worker.dead) end(worker, false);
      });
    });
  }

  void end(SimulatedWorker& worker, bool silently) {
    SimulatedWorker*& now = workers_.empty() ? none_ : workers_[static_cast<std::size_t>(worker.rank)];
    if (now == &worker) now = nullptr;
    --open_;
    worker.dead = true;
    network_.worker_gone(worker, silently);
    if (!world_.end(worker)) ++report_.faults["a function that did not end after its worker's death"];
  }

  // ---- faults

  void next_fault() {
    const auto mean = static_cast<double>(std::chrono::nanoseconds(options_.faults.interval).count());
    const auto wait = std::chrono::nanoseconds(static_cast<int64_t>(2 * mean * random_.unit()));
    world_.in_background(wait, [this] {
      if (over()) return;
      fault();
      next_fault();
    });
  }

  bool over() const { return options_.faults.until.count() > 0 && world_.elapsed() >= options_.faults.until; }

  void mend_all() {
    world_.happens("recovery", 0, "faults end");
    network_.calm();
    for (SimulatedWorker* worker : workers_) {
      if (worker == nullptr) continue;
      if (worker->paused) world_.go_on(*worker);
      worker->allocations_left = -1;
    }
    for (const uint64_t fibre : std::exchange(stalled_, {})) world_.stall(fibre, false);
  }

  void fault() {
    const Faults& faults = options_.faults;
    std::vector<std::function<void()>> kinds;
    if (faults.kill) kinds.push_back([this] { kill(false); });
    if (faults.lose_host) kinds.push_back([this] { kill(true); });
    if (faults.pause) kinds.push_back([this] { pause(); });
    if (faults.stall) kinds.push_back([this] { stall(); });
    if (faults.partition) kinds.push_back([this] { partition(); });
    if (faults.cut_pair) kinds.push_back([this] { cut_pair(); });
    if (faults.clock_jump) kinds.push_back([this] { clock_jump(); });
    if (faults.allocation_failure) kinds.push_back([this] { fail_allocation(); });
    if (!kinds.empty()) kinds[random_.below(kinds.size())]();
  }

  /// Picks a running worker at random, or null if no worker runs.
  SimulatedWorker* any(bool include_rank_0 = true) {
    std::vector<SimulatedWorker*> living;
    for (SimulatedWorker* worker : workers_)
      if (worker != nullptr && (include_rank_0 || worker->rank != 0)) living.push_back(worker);
    return living.empty() ? nullptr : living[random_.below(living.size())];
  }

  std::chrono::nanoseconds duration() {
    return std::chrono::nanoseconds(
        random_.below(static_cast<uint64_t>(std::chrono::nanoseconds(options_.faults.longest_outage).count()) + 1));
  }

  /// `more`: details that are recorded but are not part of the fault's name.
  void happens(const std::string& what, int rank, const std::string& more = "") {
    ++report_.faults[what];
    world_.happens("fault", rank, "fault: " + what, more);
  }

  void kill(bool silently) {
    SimulatedWorker* const worker = any(options_.faults.include_rank_0);
    if (worker == nullptr) return;
    const int rank = worker->rank;
    happens(silently ? "host lost" : "kill", rank);
    report_of(rank).killed = true;
    end(*worker, silently);
    if (!options_.faults.restart || random_.chance(0.5)) return;
    ++open_;  // until it is started again
    auto wait = duration();
    if (options_.faults.until.count() > 0) wait = std::min(wait, options_.faults.until - world_.elapsed());
    world_.after(wait, [this, rank] {
      --open_;
      happens("restart", rank);
      start(rank);
    });
  }

  void pause() {
    SimulatedWorker* const worker = any();
    if (worker == nullptr || worker->paused) return;
    happens("pause", worker->rank);
    world_.pause(*worker);
    world_.after(duration(), [this, worker] {
      if (worker->dead || !worker->paused) return;
      world_.happens("recovery", worker->rank, "resumes");
      world_.go_on(*worker);
    });
  }

  void stall() {
    SimulatedWorker* const worker = any();
    if (worker == nullptr || worker->fibres.empty()) return;
    const uint64_t fibre = worker->fibres[random_.below(worker->fibres.size())];
    if (!world_.stall(fibre, true)) return;
    happens("stall", worker->rank);
    stalled_.push_back(fibre);
    world_.after(duration(), [this, fibre] { world_.stall(fibre, false); });
  }

  void partition() {
    std::vector<std::pair<int, int>> cut;
    std::vector<bool> side(static_cast<std::size_t>(options_.world_size));
    for (std::size_t i = 0; i < side.size(); ++i) side[i] = random_.chance(0.5);
    const bool one_way = random_.chance(0.3);
    for (int from = 0; from < options_.world_size; ++from)
      for (int to = 0; to < options_.world_size; ++to) {
        const bool a = side[static_cast<std::size_t>(from)], b = side[static_cast<std::size_t>(to)];
        if (a != b && (!one_way || a) && !network_.is_cut(from, to)) cut.emplace_back(from, to);
      }
    if (cut.empty()) return;
    happens(one_way ? "partition in one direction" : "partition", cut.front().first, text_of(cut));
    cut_for_a_while(cut);
  }

  void cut_pair() {
    const auto others = static_cast<uint64_t>(options_.world_size - 1);
    if (others < 2) return;
    const int a = 1 + static_cast<int>(random_.below(others)), b = 1 + static_cast<int>(random_.below(others));
    if (a == b || network_.is_cut(a, b) || network_.is_cut(b, a)) return;
    happens("pair cut", a, text_of({{a, b}, {b, a}}));
    cut_for_a_while({{a, b}, {b, a}});
  }

  /// ": 0 to 1, 2 to 1": the directions in which nothing is delivered.
  static std::string text_of(const std::vector<std::pair<int, int>>& cut) {
    std::string text;
    for (const auto& [from, to] : cut)
      text += (text.empty() ? ": " : ", ") + std::to_string(from) + " to " + std::to_string(to);
    return text;
  }

  void cut_for_a_while(const std::vector<std::pair<int, int>>& cut) {
    for (const auto& [from, to] : cut) network_.cut(from, to);
    world_.after(duration(), [this, cut] {
      world_.happens("recovery", cut.front().first, "cut healed", text_of(cut));
      for (const auto& [from, to] : cut) network_.mend(from, to);
    });
  }

  void clock_jump() {
    SimulatedWorker* const worker = any();
    if (worker == nullptr) return;
    happens("clock jump", worker->rank);
    worker->clock_ahead += std::chrono::nanoseconds(random_.below(1'000'000'000));
  }

  /// The fault is counted only when an allocation fails: the worker may not be serving any call.
  void fail_allocation() {
    if (SimulatedWorker* const worker = any())
      worker->allocations_left = static_cast<int64_t>(random_.below(kMostSkipped));
  }

  const SimulationOptions options_;
  const std::function<void(WorkerId)>& run_;
  SimulationReport report_;
  World world_;
  SimulatedNetwork network_;
  SimulationRandom random_;
  const SharedKey key_;
  std::vector<SimulatedWorker*> workers_;  // by rank; null: not running
  SimulatedWorker* none_ = nullptr;
  std::vector<uint64_t> stalled_;  // fibres that have been stalled, until faults stop
  int open_ = 0;                   // workers whose function has not returned, and pending restarts
};

}  // namespace

namespace {

constexpr std::chrono::hours kLongestTime{24 * 10};

using Seconds = std::chrono::duration<double>;

void check_time(const char* name, Seconds value, Seconds least, Seconds most) {
  TENDRIL_CHECK_AS(UsageError, least <= value && value <= most, "rpc::simulate: ", name, " must be ", least.count(),
                   " to ", most.count(), " s, got ", value.count(), " s");
}

void check(const Faults& faults) {
  check_time("faults.min_delay", faults.min_delay, 0s, 1h);
  check_time("faults.max_delay", faults.max_delay, faults.min_delay, 1h);
  check_time("faults.interval", faults.interval, 0s, kLongestTime);
  check_time("faults.longest_outage", faults.longest_outage, 0s, kLongestTime);
  check_time("faults.until", faults.until, 0s, kLongestTime);
  for (const auto& [name, probability] :
       {std::pair("long_delay", faults.long_delay), std::pair("reset", faults.reset),
        std::pair("corrupt_byte", faults.corrupt_byte), std::pair("partial_write", faults.partial_write),
        std::pair("small_buffer", faults.small_buffer), std::pair("clock_drift", faults.clock_drift)})
    TENDRIL_CHECK_AS(UsageError, probability >= 0 && probability <= 1, "rpc::simulate: faults.", name,
                     " must be 0 to 1, got ", probability);
  const bool some = faults.kill || faults.lose_host || faults.pause || faults.stall || faults.partition ||
                    faults.cut_pair || faults.clock_jump || faults.allocation_failure;
  TENDRIL_CHECK_AS(
      UsageError, !some || faults.interval.count() > 0,
      "rpc::simulate: faults.interval must be positive if processes, hosts, clocks or allocations have faults, "
      "got 0");
  TENDRIL_CHECK_AS(UsageError, !faults.allocation_failure || Allocations::can_fail(),
                   "rpc::simulate: faults.allocation_failure must be false in a program with its own operator new");
}

/// Ensures that only one simulation runs at a time.
class OneAtATime {
 public:
  OneAtATime() {
    TENDRIL_CHECK_AS(UsageError, !running.test_and_set(), "rpc::simulate: a simulation is already running");
  }
  ~OneAtATime() { running.clear(); }
  OneAtATime(const OneAtATime&) = delete;
  OneAtATime& operator=(const OneAtATime&) = delete;

 private:
  static inline std::atomic_flag running;
};

}  // namespace

SimulationReport simulate(const SimulationOptions& options, const std::function<void(WorkerId)>& run) {
  TENDRIL_CHECK_AS(UsageError, options.world_size >= 1 && options.world_size <= 1024,
                   "rpc::simulate: world_size must be 1 to 1024, got ", options.world_size);
  check_time("time_limit", options.time_limit, 1s, kLongestTime);
  check_time("longest_step", options.longest_step, 0s, kLongestTime);
  check(options.faults);
  const OneAtATime claim;
  const std::string worker = name_of_real_worker();
  TENDRIL_CHECK_AS(UsageError, worker.empty(), "rpc::simulate: worker '", worker,
                   "' of a real group lives in this process: call it before init_rpc, or after shutdown");
  const ThreadLimit one_thread(1);
  const Outside outside;
  return Simulation(options, run).go();
}

}  // namespace detail

std::chrono::nanoseconds simulated_time() {
  TENDRIL_CHECK_AS(UsageError, detail::simulator != nullptr, "rpc::simulated_time: no simulation is running");
  return static_cast<detail::World*>(detail::simulator)->elapsed();
}

}  // namespace tendril::rpc
