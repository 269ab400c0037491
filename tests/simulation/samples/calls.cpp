// Calls that nest, sleep, lock, suspend, time out and are cancelled.
#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tendril/rpc/call.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/launch.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/system/thread.h"
#include "tendril/rpc/task.h"
#include "tendril/tensor/detail/switched_variable.h"
#include "tests/simulation/workload.h"

namespace simulated::calls {

using namespace std::chrono_literals;
namespace rpc = tendril::rpc;
using Time = rpc::Clock::time_point;

enum class Outcome { open, done, wrong, not_run, may_have_run, timed_out, cancelled, failed_there, other };

/// The history of one call, for `check`.
struct Record {
  WorkerId caller = 0, callee = 0;
  std::chrono::milliseconds timeout{0};
  bool has_canceller = false;
  Outcome outcome = Outcome::open;
  int times_run = 0;
  int running = 0;               // functions whose locals have not been destroyed
  bool was_running = false;      // when the caller received the result
  Time sent, deadline, settled;  // by the caller's clock
  Time returned;                 // end of the function, by the callee's clock
  std::string text;
};

/// The group as a worker sees it after faults have stopped.
struct Meeting {
  Time begin, end;
  std::string members, quarrels;
};

std::map<int64_t, Record> history;
std::map<WorkerId, std::vector<std::pair<Time, Time>>> naps;  // by callee: functions that block a thread
std::map<WorkerId, Meeting> meetings;
std::map<WorkerId, rpc::Clock::duration> shutdown_late;
bool someone_sleeps = false;  // a function may outlast its worker's shutdown
bool patient = false;         // all shutdowns may take longer than any function sleeps
bool few_threads = false;     // waiting functions may use up the threads of a worker
bool small_window = false;    // few requests may wait for a worker's threads
Time last_join, first_shutdown;
constexpr int kWorkers = 4;
int64_t last_id = 0;

void begin(uint64_t) {
  Random random = random_of_seed();
  patient = random.chance(0.5);
  few_threads = random.chance(0.2);
  small_window = random.chance(0.3);
  history.clear();
  naps.clear();
  meetings.clear();
  shutdown_late.clear();
  someone_sleeps = false;
  last_join = Time::min();
  first_shutdown = Time::max();
  last_id = 0;
}

int64_t work(int64_t sealed_id, int64_t depth, int64_t seed);

/// Records that a function runs, until its locals have been destroyed.
class Running {
 public:
  explicit Running(int64_t id, std::chrono::microseconds destructor_takes = 0us) : id_(id), takes_(destructor_takes) {
    ++history[id_].times_run;
    ++history[id_].running;
  }
  ~Running() {
    if (takes_ > 0us) rpc::sleep_for(takes_);
    --history[id_].running;
    history[id_].returned = now();
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  int64_t id_;
  std::chrono::microseconds takes_;
};

int64_t brief(int64_t sealed_id, const std::string& /*padding*/) {
  const auto id = unseal(sealed_id);
  if (!id) return 0;
  const Running here(*id);
  return sealed_id;
}
int64_t nothing() { return 0; }
void sleep_long(int64_t seconds) { rpc::sleep_for(std::chrono::seconds(std::clamp<int64_t>(seconds, 0, 40))); }

/// Makes the call, and sets the record's outcome and text.
template <class Make>
void attempt(Record& record, const Make& make) {
  const auto set = [&record](Outcome outcome, const std::exception& e) {
    record.outcome = outcome;
    try {
      record.text = e.what();
    } catch (const std::bad_alloc&) {
    }
  };
  try {
    record.outcome = make() ? Outcome::done : Outcome::wrong;
  } catch (const rpc::PeerLostError& e) {
    set(e.may_have_run() ? Outcome::may_have_run : Outcome::not_run, e);
  } catch (const rpc::TimeoutError& e) {
    set(Outcome::timed_out, e);
  } catch (const rpc::CancelledError& e) {
    const bool sent = std::string_view(e.what()).find("before it was sent") == std::string_view::npos;
    set(sent ? Outcome::cancelled : Outcome::not_run, e);
  } catch (const rpc::RemoteError& e) {
    set(Outcome::failed_there, e);
  } catch (const std::bad_alloc& e) {
    set(faults_now().allocation_failure ? Outcome::may_have_run : Outcome::other, e);
  } catch (const rpc::UsageError& e) {  // no such worker at present
    set(Outcome::not_run, e);
  } catch (const rpc::RpcError& e) {
    set(Outcome::other, e);
  }
  record.settled = now();
}

/// Cancels a call after some time, or never.
class Canceller {
 public:
  explicit Canceller(std::optional<std::chrono::microseconds> after) {
    if (!after) return;
    thread_ = rpc::detail::Thread("canceller", [this, time = *after] {
      rpc::sleep_for(time);
      stop_.request_stop();
    });
  }
  ~Canceller() {
    if (thread_.joinable()) thread_.join();
  }
  Canceller(const Canceller&) = delete;
  Canceller& operator=(const Canceller&) = delete;
  std::stop_token token() const { return stop_.get_token(); }

 private:
  std::stop_source stop_;
  rpc::detail::Thread thread_;
};

rpc::Task<int64_t> suspend(int64_t sealed_id, int64_t seed);
int64_t exclusive(int64_t sealed_id, int64_t seed);

void call(int64_t depth, uint64_t seed) {
  Random random(seed);
  const WorkerId caller = rpc::get_worker_info().id;
  const auto callee = static_cast<WorkerId>(random.below(static_cast<uint64_t>(rpc::launch_info().world_size)));
  const int64_t id = ++last_id, sealed = seal(id);
  Record& record = history[id];
  record.caller = caller;
  record.callee = callee;
  record.timeout = std::chrono::milliseconds(random.between(1, random.chance(0.2) ? 50 : 3000));
  record.has_canceller = random.chance(0.1);
  record.sent = now();
  record.deadline = record.sent + record.timeout;
  attempt(record, [&] {
    // Some exceed a small window.
    const std::string padding(random.below(small_window && random.chance(0.2) ? 100'000 : 4000), 'x');
    std::optional<std::chrono::microseconds> after;
    if (record.has_canceller) after = std::chrono::microseconds(random.below(500));
    const Canceller canceller(after);
    rpc::CallOptions options{.timeout = record.timeout};
    options.stop = canceller.token();
    if (random.chance(0.3)) return rpc::rpc_sync<&brief>(record.callee, options, sealed, padding) == sealed;
    const auto next = static_cast<int64_t>(random.bits() >> 1);
    if (depth > 0 && random.chance(0.2)) return rpc::rpc_sync<&suspend>(record.callee, options, sealed, next) == sealed;
    if (depth > 0 && !few_threads && random.chance(0.2))
      return rpc::rpc_sync<&exclusive>(record.callee, options, sealed, next) == sealed;
    return rpc::rpc_sync<&work>(record.callee, options, sealed, depth, next) == sealed;
  });
  record.was_running = record.running > 0;
}

/// Makes several calls at once.
void burst(Random& random) {
  const uint64_t size = random.between(2, few_threads || small_window ? 24 : 12);
  const int64_t depth = few_threads ? 1 : 0;
  std::vector<rpc::detail::Thread> threads;
  for (uint64_t i = 0; i < size; ++i)
    threads.emplace_back("burst", [depth, seed = random.bits()] { call(depth, seed); });
  for (auto& thread : threads) thread.join();
}

void nap(std::chrono::microseconds time) {
  if (few_threads) return;  // functions that wait for this one would keep others from starting
  const Time from = now();
  if (time > 2ms) naps[rpc::get_worker_info().id].emplace_back(from, from + time);
  rpc::sleep_for(time);
}

int64_t work(int64_t sealed_id, int64_t depth, int64_t seed) {
  const auto id = unseal(sealed_id);
  if (!id) return 0;
  const Running here(*id);
  Random random(static_cast<uint64_t>(seed));
  if (random.chance(0.3)) nap(std::chrono::microseconds(random.below(random.chance(0.1) ? 2'000'000 : 2000)));
  depth = std::min<int64_t>(depth, 2);
  for (uint64_t i = random.below(3); depth > 0 && i > 0; --i) call(depth - 1, random.bits());
  return sealed_id;
}

/// Waits for another worker without occupying a thread.
rpc::Task<int64_t> suspend(int64_t sealed_id, int64_t seed) {
  const auto id = unseal(sealed_id);
  if (!id) co_return 0;
  Random random(static_cast<uint64_t>(seed));
  const Running here(*id, std::chrono::microseconds(random.below(1000)));
  try {
    co_await rpc::rpc_async<&nothing>(static_cast<WorkerId>(random.below(kWorkers)), rpc::CallOptions{.timeout = 3s});
  } catch (const rpc::RpcError&) {
  }
  co_return sealed_id;
}

/// The mutex of this worker.
rpc::detail::Mutex& own_mutex() {
  static rpc::detail::Mutex mutex;
  return mutex;
}
const auto own_mutex_switched = tendril::detail::of_each_process([]() -> auto& { return own_mutex(); });

/// Calls a worker of a higher rank while it holds its worker's mutex.
int64_t exclusive(int64_t sealed_id, int64_t seed) {
  const auto id = unseal(sealed_id);
  if (!id) return 0;
  const Running here(*id);
  const Time from = now();
  const std::lock_guard lock(own_mutex());
  const WorkerId own = rpc::get_worker_info().id;
  naps[own].emplace_back(from, now());
  Random random(static_cast<uint64_t>(seed));
  if (own + 1 < kWorkers) try {
      const auto to = static_cast<WorkerId>(random.between(static_cast<uint64_t>(own) + 1, kWorkers - 1));
      (void)rpc::rpc_sync<&nothing>(to, rpc::CallOptions{.timeout = 3s});
    } catch (const rpc::RpcError&) {
    }
  return sealed_id;
}

/// Without faults, every member can call every other one, and all see the same members. Returns false on a worker that
/// rank 0 has lost, which is not a member.
bool meet_all(WorkerId rank) {
  const auto reaches = [](WorkerId peer) -> std::string {
    try {
      (void)rpc::rpc_sync<&nothing>(peer, rpc::CallOptions{.timeout = 5s});
      return {};
    } catch (const rpc::RpcError& e) {
      return e.what();
    }
  };
  Meeting meeting;
  meeting.begin = now();
  if (!reaches(0).empty()) return false;
  for (const WorkerId peer : rpc::group_view().alive()) {
    meeting.members += std::to_string(peer) + " ";
    const std::string why = reaches(peer);
    if (!why.empty())
      meeting.quarrels += "rank " + std::to_string(rank) + " cannot call rank " + std::to_string(peer) +
                          ", a member, although faults have stopped: " + why + "\n";
  }
  meeting.end = now();
  meetings[rank] = meeting;
  return true;
}

/// Leaves, while functions that sleep for long may still be running.
void leave(WorkerId rank, Random& random) {
  const bool is_short = !patient && random.chance(0.4);
  const auto timeout = std::chrono::milliseconds(is_short ? random.between(200, 5000) : 60'000);
  if (random.chance(0.1)) {
    const auto to = static_cast<WorkerId>(random.below(kWorkers));
    someone_sleeps = true;
    (void)rpc::rpc_async<&sleep_long>(to, rpc::CallOptions{.timeout = 1s}, static_cast<int64_t>(random.between(5, 40)));
  }
  const Time deadline = now() + timeout;
  std::exception_ptr failed;
  try {
    rpc::shutdown({.timeout = timeout, .accept_losses = true});
  } catch (const rpc::TimeoutError&) {
    if (timeout >= 60s) failed = std::current_exception();
  } catch (...) {
    failed = std::current_exception();
  }
  shutdown_late[rank] = now() - deadline;
  if (failed) std::rethrow_exception(failed);
}

void run(WorkerId rank) {
  Random random = random_of(rank);
  meetings.erase(rank);  // of this rank's earlier process
  last_join = std::max(last_join, now());
  rpc::InitOptions options = options_of_seed();
  if (few_threads) options.agent.max_threads = 4;
  if (small_window) options.agent.receive_limit = options.agent.send_limit = 64 << 10;
  rpc::init_rpc("w" + std::to_string(rank), options);
  last_join = std::max(last_join, now());
  for (int i = 0; i < 20; ++i) {
    if (random.chance(0.2)) {
      burst(random);
    } else {
      call(static_cast<int64_t>(random.below(few_threads ? 2 : 3)), random.bits());
    }
    if (random.chance(0.3)) rpc::sleep_for(std::chrono::milliseconds(random.below(300)));
  }
  wait_for_quiet();
  if (faults_now().restart) rpc::sleep_for(20s);  // a restarted worker may join late
  const bool is_member = meet_all(rank);
  rpc::sleep_for(10s);  // others may be late
  if (is_member) first_shutdown = std::min(first_shutdown, now());
  leave(rank, random);
}

/// Whether no worker joined or left during this meeting.
bool counts(const Meeting& meeting) { return meeting.begin >= last_join + 3s && meeting.end <= first_shutdown; }

/// If no clock jumps and rank 0 survives, all members agree once faults have stopped, and all of them can leave.
void check_peace(const SimulationReport& report, const Faults& faults) {
  if (clocks_are_wrong(faults) || faults.include_rank_0 || corrupts(faults)) return;
  std::string first;
  for (const auto& [rank, meeting] : meetings) {
    if (!counts(meeting)) continue;
    if (!meeting.quarrels.empty()) problem(meeting.quarrels);
    if (first.empty()) first = meeting.members;
    if (meeting.members != first)
      problem("rank " + std::to_string(rank) + " sees the members " + meeting.members + "but others see " + first);
    // A worker whose shutdown times out, because a function still runs there, fails the shutdown of all others.
    const SimulationReport::Rank& one = report.ranks[static_cast<std::size_t>(rank)];
    if (!one.returned && !one.killed && (patient || !someone_sleeps))
      problem("rank " + std::to_string(rank) + " failed at the end: " + one.error);
  }
}

/// For how long functions blocked the threads of the callee while the call was pending.
rpc::Clock::duration blocked(const Record& record) {
  rpc::Clock::duration sum{0};
  for (const auto& [from, to] : naps[record.callee]) {
    const Time begin = std::max(from, record.sent), end = std::min(to, record.deadline);
    if (begin < end) sum += end - begin;
  }
  return sum;
}

/// Without faults and delays, a call fails only if it had too little time. Returns the problem, or an empty string.
std::string needless_failure(const Record& record) {
  if (record.outcome == Outcome::open || record.outcome == Outcome::wrong || record.has_canceller) return {};
  if (record.outcome == Outcome::done) {
    const auto late = record.settled - record.returned;
    if (late <= 50ms) return {};
    return "returned its result " + std::to_string(late / 1ms) + " ms after the function had returned";
  }
  if (record.outcome != Outcome::timed_out) return "failed although no worker was lost";
  if (record.timeout - blocked(record) < 200ms) return {};
  if (record.times_run == 0)
    return "timed out after " + std::to_string(record.timeout.count()) + " ms, but did not run";
  if (record.returned == Time{} || record.returned > record.deadline - 50ms) return {};
  return "timed out although its function had returned in time";
}

/// Problems that depend on the outcome only.
std::vector<std::string> wrong_outcomes(const Record& record, const Faults& faults) {
  std::vector<std::string> found;
  if (record.times_run > 1) found.emplace_back("ran twice");
  if (record.outcome == Outcome::done && record.times_run != 1) found.emplace_back("returned a result but did not run");
  if (record.outcome == Outcome::not_run && record.times_run != 0)
    found.emplace_back("was reported as not run, but ran");
  if (record.outcome == Outcome::done && record.was_running)
    found.emplace_back("returned a result before its function's locals had been destroyed");
  if (corrupts(faults)) return found;
  if (record.outcome == Outcome::wrong) found.emplace_back("returned the result of another call");
  if ((record.outcome == Outcome::failed_there && !faults.allocation_failure) || record.outcome == Outcome::other)
    found.emplace_back("failed with an unexpected error");
  const bool cancelled = record.text.find("cancelled") != std::string::npos;
  if (cancelled && !record.has_canceller && record.text.find("was shut down") == std::string::npos)
    found.emplace_back("was cancelled, but not by its caller");
  return found;
}

void check_call(int64_t id, const Record& record, const SimulationReport& report, const Faults& faults) {
  std::vector<std::string> found = wrong_outcomes(record, faults);
  const SimulationReport::Rank& caller = report.ranks[static_cast<std::size_t>(record.caller)];
  const bool survived = caller.starts == 1 && !caller.killed;
  if (record.outcome == Outcome::open) {
    if (survived) found.emplace_back("was never settled");
  } else {
    const auto late = record.settled - record.deadline;
    if (record.settled > excused(record.deadline, faults) + (clocks_are_wrong(faults) ? 60'000ms : 200ms))
      found.push_back("was settled " + std::to_string(late / 1ms) + " ms late");
    if (record.outcome == Outcome::timed_out && late < 0ms && survived && !clocks_are_wrong(faults))
      found.push_back("timed out " + std::to_string(-late / 1us) + " us before its deadline");
  }
  if (harmless(faults) && faults.reset == 0 && faults.long_delay == 0) {
    const std::string needless = needless_failure(record);
    if (!needless.empty()) found.push_back(needless);
  }
  for (const std::string& what : found)
    problem("call " + std::to_string(id) + " from rank " + std::to_string(record.caller) + " to rank " +
            std::to_string(record.callee) + " " + what + " (it ran " + std::to_string(record.times_run) +
            " times): " + record.text);
}

void check(const SimulationReport& report, const Faults& faults) {
  check_peace(report, faults);
  for (const auto& [rank, late] : shutdown_late)
    if (late > 5s && !clocks_are_wrong(faults))
      problem("shutdown of rank " + std::to_string(rank) + " ended " + std::to_string(late / 1ms) + " ms late");
  for (const auto& [id, record] : history) check_call(id, record, report, faults);
}

const bool added = add({.name = "calls", .world_size = kWorkers, .begin = begin, .run = run, .check = check});

}  // namespace simulated::calls
