#include "tendril/rpc/simulation.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "tendril/rpc/call.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/future_scope.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/launch.h"
#include "tendril/rpc/simulation/poller.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/system/thread.h"
#include "tendril/rpc/threads/reactor.h"
#include "tendril/tensor/detail/switched_variable.h"
#include "tendril/tensor/random.h"
#include "tests/contains.h"
#include "tests/rpc/error_text.h"
#include "tests/rpc/reserved_port.h"
#include "tests/simulation/workload.h"

BOOST_AUTO_TEST_SUITE(simulation)

using namespace std::chrono_literals;
namespace rpc = tendril::rpc;
using rpc::SimulationReport;
using rpc::WorkerId;
using tendril::test::contains;
using tendril::test::text_of_error;

namespace {

// The results of a test's workers, by rank.
std::map<WorkerId, std::string> said;

SimulationReport simulate(int world_size, void (*run)(WorkerId), uint64_t seed = 1, const rpc::Faults& faults = {}) {
  said.clear();
  return rpc::detail::simulate({.world_size = world_size, .seed = seed, .faults = faults}, run);
}

}  // namespace

BOOST_AUTO_TEST_CASE(simulated_sleep_takes_no_real_time) {
  const auto report = simulate(2, [](WorkerId rank) {
    rpc::sleep_for(std::chrono::minutes(29 * (rank + 1)));
    said[rank] = "awake";
  });
  BOOST_TEST(report.all_returned(), report.text());
  BOOST_TEST((report.time >= 58min && report.time < 58min + 1s), report.time.count());
  BOOST_TEST(said[1] == "awake");
}

BOOST_AUTO_TEST_CASE(deadlock_ends_the_simulation_with_an_explanation) {
  const auto report = simulate(2, [](WorkerId rank) {
    if (rank == 0) return;
    rpc::detail::Mutex mutex;
    rpc::detail::Condition condition;
    std::unique_lock lock(mutex);
    condition.wait(lock);
  });
  BOOST_TEST((report.end == SimulationReport::End::stuck));
  BOOST_TEST(!report.all_returned());
  BOOST_TEST(contains(report.blocked, "rank 1, thread 'main': waits for a condition"), report.blocked);
}

BOOST_AUTO_TEST_CASE(endless_program_stops_at_the_time_limit) {
  said.clear();
  const auto report = rpc::detail::simulate({.world_size = 1, .time_limit = 2s}, [](WorkerId) {
    for (;;) rpc::sleep_for(1ms);
  });
  BOOST_TEST((report.end == SimulationReport::End::limit_reached));
  BOOST_TEST((report.time >= 2s && report.time < 3s), report.time.count());
}

BOOST_AUTO_TEST_CASE(exception_of_a_worker_is_reported) {
  const auto report = simulate(2, [](WorkerId rank) {
    if (rank == 1) throw std::runtime_error("enough");
  });
  BOOST_TEST(report.ranks[0].returned);
  BOOST_TEST(!report.ranks[1].returned);
  BOOST_TEST(report.ranks[1].error == "enough");
  BOOST_TEST(contains(report.text(), "rank 1: enough"), report.text());
}

BOOST_AUTO_TEST_CASE(mutexes_and_conditions_work_between_fibres) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto report = simulate(
        1,
        [](WorkerId) {
          rpc::detail::Mutex mutex;
          rpc::detail::Condition changed;
          int turn = 0, inside = 0;
          const auto player = [&](int who) {
            for (int i = 0; i < 10; ++i) {
              std::unique_lock lock(mutex);
              changed.wait(lock, [&] { return turn % 3 == who; });
              if (++inside != 1) said[0] += "two at once ";
              ++turn;
              --inside;
              changed.notify_all();
            }
          };
          std::vector<rpc::detail::Thread> threads;
          for (int who = 0; who < 3; ++who) threads.emplace_back("player", [&player, who] { player(who); });
          for (auto& thread : threads) thread.join();
          said[0] += std::to_string(turn);
        },
        seed);
    BOOST_TEST(report.all_returned(), report.text());
    BOOST_TEST(said[0] == "30");
  }
}

BOOST_AUTO_TEST_CASE(fibres_may_wait_in_catch_clauses) {
  const auto report = simulate(2, [](WorkerId rank) {
    try {
      throw std::runtime_error("of rank " + std::to_string(rank));
    } catch (...) {
      rpc::sleep_for(1ms * (rank + 1));
      try {
        throw;
      } catch (const std::runtime_error& e) {
        said[rank] = e.what();
      }
    }
  });
  BOOST_TEST(report.all_returned(), report.text());
  BOOST_TEST(said[0] == "of rank 0");
  BOOST_TEST(said[1] == "of rank 1");
}

BOOST_AUTO_TEST_CASE(each_worker_has_separate_process_variables) {
  tendril::manual_seed(5);
  const uint64_t before = tendril::default_generator().state().offset;
  const auto report = simulate(2, [](WorkerId rank) {
    tendril::manual_seed(static_cast<uint64_t>(rank));
    rpc::sleep_for(1ms);
    (void)tendril::default_generator().bits();
    said[rank] = std::to_string(tendril::default_generator().state().seed) + " " +
                 std::to_string(tendril::default_generator().state().offset) + " " +
                 std::to_string(rpc::launch_info().rank);
  });
  BOOST_TEST(report.all_returned(), report.text());
  BOOST_TEST(said[0] == "0 1 0");
  BOOST_TEST(said[1] == "1 1 1");
  BOOST_TEST(tendril::default_generator().state().seed == 5);
  BOOST_TEST(tendril::default_generator().state().offset == before);
}

rpc::detail::Mutex process_mutex;
const auto process_mutex_switched = tendril::detail::of_each_process([]() -> auto& { return process_mutex; });

/// The mutexes of both workers have the same address.
BOOST_AUTO_TEST_CASE(unlocking_wakes_only_its_own_worker) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto report = simulate(
        2,
        [](WorkerId) {
          rpc::detail::Thread holder("holder", [] {
            const std::lock_guard lock(process_mutex);
            rpc::sleep_for(10ms);
          });
          rpc::sleep_for(5ms);
          { const std::lock_guard lock(process_mutex); }
          holder.join();
        },
        seed);
    BOOST_TEST(report.all_returned(), report.text());
  }
}

int64_t twice(int64_t x) { return 2 * x; }

BOOST_AUTO_TEST_CASE(group_runs_over_the_simulated_network) {
  const auto report = simulate(3, [](WorkerId rank) {
    rpc::init_rpc("w" + std::to_string(rank));
    said[rank] = std::to_string(rpc::rpc_sync<&twice>((rank + 1) % 3, int64_t{rank}));
    rpc::barrier();
    rpc::shutdown();
  });
  BOOST_TEST(report.all_returned(), report.text());
  BOOST_TEST(said[2] == "4");
  BOOST_TEST(report.segments > 50);
}

BOOST_AUTO_TEST_CASE(many_workers_form_a_group) {
  constexpr int kSize = 256;
  const auto report = simulate(kSize, [](WorkerId rank) {
    rpc::init_rpc("w" + std::to_string(rank), {.init_timeout = 10min});
    std::vector<rpc::Future<int64_t>> calls;
    for (int bit = 1; bit < kSize; bit <<= 1)
      if ((rank ^ bit) < kSize) calls.push_back(rpc::rpc_async<&twice>(rank ^ bit, int64_t{rank}));
    int64_t sum = 0;
    for (const auto& call : calls) sum += call.wait();
    if (sum == 2 * rank * static_cast<int64_t>(calls.size())) said[rank] = "right";
    rpc::shutdown({.timeout = 10min});
  });
  BOOST_TEST(report.all_returned(), report.text());
  BOOST_TEST(std::ranges::count_if(said, [](const auto& one) { return one.second == "right"; }) == kSize);
}

BOOST_AUTO_TEST_CASE(ending_worker_leaves_its_group) {
  const auto report = simulate(2, [](WorkerId rank) {
    rpc::init_rpc("w" + std::to_string(rank));
    if (rank == 1) return;
    try {
      rpc::barrier(10s);
    } catch (const rpc::RpcError& e) {
      said[0] = e.what();
    }
    rpc::shutdown({.graceful = false});
  });
  BOOST_TEST(report.all_returned(), report.text());
  BOOST_TEST(contains(said[0], "has left the group"), said[0]);
}

/// Counts its live instances.
struct Counted {
  Counted() { ++alive; }
  ~Counted() { --alive; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  static inline int alive = 0;
};

BOOST_AUTO_TEST_CASE(killed_workers_functions_run_to_their_end) {
  rpc::Faults faults;
  faults.interval = 200ms;
  faults.kill = true;
  const auto report = simulate(
      3,
      [](WorkerId rank) {
        const Counted here;
        rpc::init_rpc("w" + std::to_string(rank));
        for (int i = 0; i < 100; ++i) {
          try {
            (void)rpc::rpc_sync<&twice>((rank + 1) % 3, int64_t{1});
          } catch (const rpc::RpcError&) {
          }
          rpc::sleep_for(20ms);
        }
        rpc::shutdown({.accept_losses = true});
      },
      3, faults);
  BOOST_TEST((report.end == SimulationReport::End::done), report.text());
  BOOST_TEST(report.faults.at("kill") >= 1);
  BOOST_TEST(!report.faults.contains("a function that did not end after its worker's death"));
  BOOST_TEST(Counted::alive == 0);
}

BOOST_AUTO_TEST_CASE(deadlock_is_detected_among_faults) {
  rpc::Faults faults = rpc::Faults::harsh();
  faults.kill = faults.lose_host = false;
  const auto report = simulate(
      2,
      [](WorkerId) {
        rpc::detail::Mutex mutex;
        rpc::detail::Condition condition;
        std::unique_lock lock(mutex);
        condition.wait_until(lock, rpc::Clock::now() + 10ms);
        condition.wait(lock);
      },
      1, faults);
  BOOST_TEST((report.end == SimulationReport::End::stuck), report.text());
  BOOST_TEST((report.time < 10s), report.text());
}

std::string repeat(const std::string& text) { return text + text; }

BOOST_AUTO_TEST_CASE(failed_allocation_fails_only_its_call) {
  if (!rpc::Faults::harsh().allocation_failure) return;  // sanitizers replace operator new
  int failed = 0;
  const auto report = rpc::detail::simulate({.world_size = 2, .faults = {.interval = 5ms, .allocation_failure = true}},
                                            [&](WorkerId rank) {
                                              rpc::init_rpc("w" + std::to_string(rank));
                                              for (int i = 0; i < 500 && rank == 0; ++i) {
                                                const std::string text(100, 'a');
                                                try {
                                                  BOOST_TEST(rpc::rpc_sync<&repeat>(1, text) == text + text);
                                                } catch (const rpc::RpcError& e) {
                                                  BOOST_TEST(contains(e.what(), "std::bad_alloc"), e.what());
                                                  ++failed;
                                                }
                                              }
                                              rpc::shutdown();
                                            });
  BOOST_TEST(report.all_returned(), report.text());
  BOOST_TEST(failed >= 5);
  BOOST_TEST(report.faults.at("allocation failure") >= static_cast<uint64_t>(failed));
}

int continuations_left_behind = 0;

int answer_later(int x) {
  rpc::sleep_for(50ms);
  return x;
}

/// Calls the other worker, with continuations that refer to this function's variables.
int sum_of_answers() {
  struct Variables {
    ~Variables() { *alive = false; }
    int sum = 0;
    std::shared_ptr<bool> alive = std::make_shared<bool>(true);
  } variables;
  rpc::FutureScope scope;
  for (int i = 0; i < 20; ++i) {
    scope.add(
        rpc::rpc_async<&answer_later>(0, 1).then([&variables, alive = variables.alive](const rpc::Future<int>& one) {
          if (!*alive) {
            ++continuations_left_behind;
          } else {
            variables.sum += one.wait();
          }
        }));
  }
  scope.wait();
  return variables.sum;
}

BOOST_AUTO_TEST_CASE(failed_allocation_leaves_no_continuation_behind) {
  if (!rpc::Faults::harsh().allocation_failure) return;  // sanitizers replace operator new
  continuations_left_behind = 0;
  uint64_t failed = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const auto report = rpc::detail::simulate(
        {.world_size = 2, .seed = seed, .faults = {.interval = 1ms, .allocation_failure = true}}, [](WorkerId rank) {
          try {
            rpc::init_rpc("w" + std::to_string(rank));
            for (int i = 0; i < 20 && rank == 0; ++i) {
              try {
                BOOST_TEST(rpc::rpc_sync<&sum_of_answers>(1) == 20);
              } catch (const rpc::RemoteError&) {
              }
            }
            rpc::shutdown({.accept_losses = true});
          } catch (const rpc::RpcError&) {  // not even the error could be sent
          }
        });
    BOOST_TEST((report.end == SimulationReport::End::done), report.text());
    if (report.faults.contains("allocation failure")) failed += report.faults.at("allocation failure");
  }
  BOOST_TEST(failed >= 100U);
  BOOST_TEST(continuations_left_behind == 0);
}

BOOST_AUTO_TEST_CASE(loop_until_a_time_ends) {
  const auto report = simulate(1, [](WorkerId) {
    const auto end = rpc::Clock::now() + 1ms;
    while (rpc::Clock::now() < end) {
    }
  });
  BOOST_TEST(report.all_returned(), report.text());
}

BOOST_AUTO_TEST_CASE(workers_clocks_differ) {
  static std::map<WorkerId, rpc::Clock::time_point> times;
  const auto report = simulate(2, [](WorkerId rank) {
    times[rank] = rpc::Clock::now();
    said[rank] = std::to_string(rpc::simulated_time() / 1s);
  });
  BOOST_TEST(report.all_returned(), report.text());
  BOOST_TEST((times[0] > times[1] + 1s || times[1] > times[0] + 1s));
  BOOST_TEST(said[1] == "0");
  BOOST_TEST(contains(text_of_error([] { rpc::simulated_time(); }), "UsageError: rpc::simulated_time"));
}

std::string refusal(const rpc::SimulationOptions& options) {
  return text_of_error([&] { rpc::detail::simulate(options, [](WorkerId) {}); });
}

BOOST_AUTO_TEST_CASE(invalid_options_are_rejected) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  BOOST_TEST(contains(refusal({.world_size = 0}), "UsageError: rpc::simulate: world_size must be 1 to 1024, got 0"));
  BOOST_TEST(contains(refusal({.time_limit = 0s}), "time_limit must be 1 to 864000 s, got 0 s"));
  BOOST_TEST(contains(refusal({.time_limit = std::chrono::seconds::max()}), "time_limit must be"));
  BOOST_TEST(contains(refusal({.longest_step = -1s}), "longest_step must be 0 to"));
  BOOST_TEST(
      contains(refusal({.faults = {.min_delay = 1ms}}), "faults.max_delay must be 0.001 to 3600 s, got 0.0002 s"));
  BOOST_TEST(contains(refusal({.faults = {.min_delay = -1us}}), "faults.min_delay must be 0 to"));
  BOOST_TEST(contains(refusal({.faults = {.long_delay = -0.1}}), "faults.long_delay must be 0 to 1, got -0.1"));
  BOOST_TEST(contains(refusal({.faults = {.reset = 1.5}}), "faults.reset must be 0 to 1, got 1.5"));
  BOOST_TEST(contains(refusal({.faults = {.corrupt_byte = kNan}}), "faults.corrupt_byte must be 0 to 1, got "));
  BOOST_TEST(contains(refusal({.faults = {.partial_write = 2}}), "faults.partial_write must be 0 to 1, got 2"));
  BOOST_TEST(contains(refusal({.faults = {.interval = -1ms}}), "faults.interval must be 0 to"));
  BOOST_TEST(contains(refusal({.faults = {.kill = true}}), "faults.interval must be positive"));
  BOOST_TEST(contains(refusal({.faults = {.longest_outage = -1ms}}), "faults.longest_outage must be 0 to"));
  BOOST_TEST(contains(refusal({.faults = {.until = -1ms}}), "faults.until must be 0 to"));
}

BOOST_AUTO_TEST_CASE(only_one_simulation_runs_at_a_time) {
  const auto report = simulate(1, [](WorkerId) { rpc::detail::simulate({}, [](WorkerId) {}); });
  BOOST_TEST(contains(report.ranks[0].error, "a simulation is already running"), report.ranks[0].error);
}

BOOST_AUTO_TEST_CASE(process_with_a_real_worker_is_rejected) {
  const tendril::test::ReservedPort port;
  rpc::init_rpc("real", {.rank = 0, .world_size = 1, .master_port = port.number()});
  BOOST_TEST(contains(refusal({}), "UsageError: rpc::simulate: worker 'real' of a real group lives in this process"));
  rpc::shutdown();
  BOOST_TEST(simulate(1, [](WorkerId) {}).all_returned());
}

/// Runs `f` in a child process, and returns its output to standard error, followed by how it ended.
template <class F>
std::string output_of_child(const F& f) {
  int ends[2];
  BOOST_REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  BOOST_REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(ends[1], 2);
    ::close(ends[0]);
    ::signal(SIGABRT, SIG_DFL);
    f();
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(n));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return text + (WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status)) : "exit");
}

BOOST_AUTO_TEST_CASE(step_that_blocks_the_process_is_named) {
  const std::string output = output_of_child([] {
    rpc::detail::simulate({.world_size = 2, .longest_step = 1s}, [](WorkerId rank) {
      rpc::sleep_for(1h / 2);
      if (rank == 1) ::pause();
    });
  });
  BOOST_TEST(contains(output, "rpc::simulate: thread 'main' of rank 1 has run for more than 1 s"), output);
  BOOST_TEST(contains(output, "signal " + std::to_string(SIGABRT)), output);
}

// ---- determinism

BOOST_AUTO_TEST_CASE(same_seed_gives_the_same_transcript) {
  for (const auto& workload : simulated::workloads()) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      const auto first = simulated::run(workload, seed, {.transcript = true}),
                 again = simulated::run(workload, seed, {.transcript = true});
      BOOST_TEST(first.report.transcript == again.report.transcript, workload.name << ", seed " << seed);
      BOOST_TEST(first.report.digest == again.report.digest);
    }
    BOOST_TEST(simulated::run(workload, 1).report.digest != simulated::run(workload, 2).report.digest);
  }
}

BOOST_AUTO_TEST_SUITE_END()
