// Calls and references with one fault at any moment of a program: every call ends with the right result or an
// RpcError, functions run at most once, and no references are left.
#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "tendril/rpc/call.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/rref.h"
#include "tendril/rpc/system/thread.h"
#include "tendril/tendril.h"
#include "tests/seed.h"
#include "tests/simulation/directed_fault.h"

BOOST_AUTO_TEST_SUITE(faulty_calls)

namespace rpc = tendril::rpc;
using namespace std::chrono_literals;
using rpc::RRef;
using simulated::DirectedFault;
using tendril::Tensor;

constexpr int kWorkers = 3;

int rank() { return rpc::get_worker_info().id; }

// Shared by all workers.
std::map<int, int> alive;  // objects, by the rank of their owner
std::map<int, int> runs;   // of each `counted` call
bool over = false;

class Counter : public rpc::WeakSelf<Counter> {
 public:
  explicit Counter(int start) : value_(start) { ++alive[owner_]; }
  Counter(const Counter&) = delete;
  ~Counter() { --alive[owner_]; }
  int add(int by) { return value_ += by; }
  RRef<Counter> self() { return weak_self(); }

 private:
  const int owner_ = rank();
  int value_;
};

int counted(int number) {
  ++runs[number];
  return number;
}
int fail(int) { throw std::out_of_range("no"); }
Tensor same(Tensor x) { return x; }
int use(const RRef<Counter>& counter) { return counter.rpc_sync<&Counter::add>(1); }
RRef<Counter> pass_back(RRef<Counter> counter) { return counter; }
RRef<Counter> make_at(int where) { return rpc::remote<Counter>(where, 10); }
int use_via(RRef<Counter> counter, int next) { return rpc::rpc_sync<&use>(next, counter); }

/// The outcome of one run of the program.
struct Outcome {
  int succeeded = 0, failed = 0;
  std::string wrong;

  void expect(bool right, const char* what) {
    if (!right) wrong += std::string(what) + "; ";
  }
};

/// Runs `f` and counts whether it succeeds. It may only fail with an RpcError.
template <class F>
void attempt(Outcome& outcome, F f) {
  try {
    f();
    ++outcome.succeeded;
  } catch (const rpc::RpcError&) {
    ++outcome.failed;
  }
}

/// Makes every kind of call once, and passes a reference in every direction: from owner to user, user to owner, user
/// to user and to the same worker, as an argument and as a result, before and after the object exists.
void run_program(Outcome& outcome, int first_number) {
  for (int number = first_number; number < first_number + 2; ++number) {
    bool right = false;
    attempt(outcome, [&] { right = rpc::rpc_sync<&counted>(1, number) == number; });
    outcome.expect(right ? runs[number] == 1 : runs[number] <= 1, "a call ran twice, or succeeded and did not run");
  }
  attempt(outcome, [&] {
    const Tensor x = tendril::arange(0, 100, 1, {.dtype = tendril::kFloat32});
    outcome.expect((rpc::rpc_sync<&same>(2, x) == x).all().item<bool>(), "a tensor changed in transit");
  });
  attempt(outcome, [&] { outcome.expect(rpc::remote<&counted>(1, 0).to_here() == 0, "a wrong value from to_here"); });
  attempt(outcome, [&] {
    // Always throws the error of the creation: that of the function or that of the network.
    rpc::remote<&fail>(1, 0).to_here();
    outcome.expect(false, "a failed creation returned a value");
  });
  attempt(outcome, [&] {
    const RRef<Counter> theirs = rpc::remote<Counter>(1, 0);
    attempt(outcome, [&] {
      outcome.expect(theirs.rpc_sync<&Counter::add>(1) == 1, "a wrong value from a method");
    });                                                         // possibly unconfirmed
    attempt(outcome, [&] { rpc::rpc_sync<&use>(2, theirs); });  // user to user
    attempt(outcome, [&] { rpc::rpc_sync<&use>(1, theirs); });  // user to owner
    attempt(outcome,
            [&] { outcome.expect(rpc::rpc_sync<&pass_back>(2, theirs) == theirs, "another reference came back"); });
    attempt(outcome, [&] { rpc::rpc_sync<&use_via>(2, theirs, 1); });
    attempt(outcome, [&] { theirs.rpc_sync<&Counter::self>().rpc_sync<&Counter::add>(1); });
  });
  attempt(outcome, [&] {
    const RRef<Counter> mine = rpc::make_rref<Counter>(0);
    attempt(outcome, [&] { rpc::rpc_sync<&use>(1, mine); });  // owner to user
    attempt(outcome, [&] { rpc::rpc_sync<&use_via>(1, mine, 2); });
    attempt(outcome, [&] { rpc::remote<&pass_back>(2, mine).to_here(); });
  });
  attempt(outcome, [&] { rpc::rpc_sync<&make_at>(1, 2).rpc_sync<&Counter::add>(1); });
}

/// The result of one simulation. Worker 0 runs one program per element of `outcomes`, each on a thread.
struct Run {
  std::vector<Outcome> outcomes;
  std::map<int, std::string> left;  // by rank
  uint64_t segments = 0;
  rpc::SimulationReport report;
};

std::string described(const rpc::RRefCounters& left) {
  return left.none() ? ""
                     : std::to_string(left.owner_rrefs) + " owner RRefs, " + std::to_string(left.forks) + " forks, " +
                           std::to_string(left.users) + " users, " + std::to_string(left.pending_users) +
                           " pending users, " + std::to_string(left.pending_children) + " pending children";
}

void work(int self, const DirectedFault& fault, std::chrono::milliseconds timeout, Run& run) {
  rpc::InitOptions options;
  options.rpc_timeout = timeout;
  options.agent.ping_interval = 100ms;
  options.agent.liveness_timeout = options.agent.grace_period = 1000ms;
  rpc::init_rpc("w" + std::to_string(self), options);
  rpc::barrier(60s);
  if (self == 0) {
    const simulated::ArmedFault armed(fault);
    std::vector<rpc::detail::Thread> threads;
    for (std::size_t i = 1; i < run.outcomes.size(); ++i)
      threads.emplace_back("program", [&run, i] { run_program(run.outcomes[i], 1 + 10 * static_cast<int>(i)); });
    run_program(run.outcomes[0], 1);
    for (auto& thread : threads) thread.join();
    run.segments = armed.segments();
    over = true;
  }
  while (!over) rpc::sleep_for(10ms);
  for (int i = 0; i < 300 && !rpc::rref_counters().none(); ++i) rpc::sleep_for(100ms);
  run.left[self] = described(rpc::rref_counters());
  rpc::shutdown({.timeout = 20s, .accept_losses = true});
}

Run simulate(const DirectedFault& fault, std::chrono::milliseconds timeout = 60s, std::size_t threads = 1,
             uint64_t seed = tendril::testing::test_seed(), const rpc::Faults& faults = {}) {
  alive.clear();
  runs.clear();
  over = false;
  Run run;
  run.outcomes.resize(threads);
  run.report = rpc::detail::simulate({.world_size = kWorkers, .seed = seed, .faults = faults},
                                     [&](rpc::WorkerId self) { work(self, fault, timeout, run); });
  BOOST_TEST((run.report.end == rpc::SimulationReport::End::done), run.report.text());
  const int gone = fault.kind == DirectedFault::isolated ? fault.to : -1;
  for (int self = 0; self < kWorkers; ++self) {
    if (self == gone) continue;
    BOOST_TEST(run.left[self] == "", "w" << self << " ends with " << run.left[self]);
    BOOST_TEST(alive[self] == 0, "w" << self << " ends with " << alive[self] << " objects");
  }
  for (const Outcome& outcome : run.outcomes) BOOST_TEST(outcome.wrong == "");
  return run;
}

/// Repeats the program with the fault after 0, 1, 2, ... segments, until a run ends before the fault happens. Returns
/// the numbers of runs with and without failed calls.
std::pair<int, int> visit_every_segment(DirectedFault fault, std::chrono::milliseconds timeout = 60s) {
  int with = 0, without = 0;
  for (fault.segment = 0;; ++fault.segment) {
    BOOST_TEST_CONTEXT("segment " << fault.segment << ", " << fault.from << " to " << fault.to) {
      const Run run = simulate(fault, timeout);
      (run.outcomes[0].failed > 1 ? with : without) += 1;
      if (run.segments < fault.segment) return {with, without};
    }
    BOOST_REQUIRE(fault.segment < 2000);
  }
}

constexpr std::pair<int, int> kPairs[] = {{0, 1}, {0, 2}, {1, 2}};

BOOST_AUTO_TEST_CASE(without_faults_everything_succeeds) {
  const Run run = simulate({});
  BOOST_TEST(run.outcomes[0].failed == 1);  // the creation that fails
  BOOST_TEST(run.outcomes[0].succeeded == 16);
  BOOST_TEST(run.segments > 50);
}

BOOST_AUTO_TEST_CASE(reset_at_any_segment_fails_no_call) {
  for (const auto& [a, b] : kPairs) {
    const auto [with, without] = visit_every_segment({.kind = DirectedFault::reset, .from = a, .to = b});
    BOOST_TEST(with == 0);
  }
}

BOOST_AUTO_TEST_CASE(delay_at_any_segment_fails_no_call) {
  for (const auto& [a, b] : kPairs) {
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
      const auto [with, without] = visit_every_segment({.kind = DirectedFault::late, .from = from, .to = to});
      BOOST_TEST(with == 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(segment_may_arrive_after_its_calls_timeout) {
  for (const auto& [a, b] : kPairs) {
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
      const auto [with, without] = visit_every_segment({.kind = DirectedFault::late, .from = from, .to = to}, 100ms);
      BOOST_TEST(with > 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(session_may_be_lost_at_any_segment) {
  for (const auto& [a, b] : kPairs) {
    const auto [with, without] = visit_every_segment({.kind = DirectedFault::lost, .from = a, .to = b});
    BOOST_TEST(with > 0);
  }
}

BOOST_AUTO_TEST_CASE(host_may_be_lost_at_any_segment) {
  for (const int gone : {1, 2}) {
    const auto [with, without] = visit_every_segment({.kind = DirectedFault::isolated, .to = gone});
    BOOST_TEST(with > 0);
  }
}

BOOST_AUTO_TEST_CASE(several_threads_survive_many_faults) {
  rpc::Faults faults;
  faults.long_delay = 0.05;
  faults.reset = 0.02;
  faults.partial_write = 0.2;
  faults.interval = 100ms;
  faults.cut_pair = faults.stall = true;
  faults.until = 2000ms;
  for (const uint64_t seed : tendril::testing::seeds({}, 50))
    BOOST_TEST_CONTEXT("seed " << seed) simulate({}, 200ms, 3, seed, faults);
}

BOOST_AUTO_TEST_SUITE_END()
