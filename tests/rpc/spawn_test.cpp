#include "tendril/rpc/spawn.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <sstream>

#include "tests/contains.h"
#include "tests/rpc/process.h"

BOOST_AUTO_TEST_SUITE(spawn)

using namespace tendril;
using test::Process;

namespace {

Process start(const std::string& scenario) { return Process({TENDRIL_TEST_PROGRAMS "/spawn_scenarios", scenario}); }

/// Returns the sorted lines that a scenario prints until it and its workers have ended.
std::string outcome(const std::string& scenario) {
  Process process = start(scenario);
  std::istringstream text(process.rest());
  BOOST_TEST(process.wait().code == 0);
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  std::string sorted;
  for (const std::string& line : lines) sorted += line + "\n";
  return sorted;
}

/// Reads the "worker RANK PID" lines of `count` workers.
std::vector<pid_t> read_pids(Process& process, int count) {
  std::vector<pid_t> pids(count);
  for (int i = 0; i < count; ++i) {
    std::istringstream line(process.line());
    std::string word;
    int rank = -1;
    pid_t pid = -1;
    line >> word >> rank >> pid;
    BOOST_REQUIRE(word == "worker");
    pids.at(rank) = pid;
  }
  return pids;
}

using tendril::test::contains;

bool is_gone(pid_t pid) { return ::kill(pid, 0) != 0 && errno == ESRCH; }

}  // namespace

BOOST_AUTO_TEST_CASE(every_rank_runs_the_function_once) {
  BOOST_TEST(outcome("greet") == "no error\nworker 0\nworker 1\nworker 2\nworker 3\n");
}

BOOST_AUTO_TEST_CASE(arguments_are_converted_and_tensors_arrive) {
  const std::string values = " a literal 2.000000 rain 7.000000 sun 21.500000 100000 450000.000000\n";
  BOOST_TEST(outcome("arguments") == "0" + values + "1" + values + "no error\n");
}

BOOST_AUTO_TEST_CASE(spawn_can_be_repeated) {
  BOOST_TEST(outcome("three_times") == "again 0\nno error\nworker 0\nworker 0\nworker 1\nworker 1\n");
}

BOOST_AUTO_TEST_CASE(two_threads_may_spawn_at_once) {
  BOOST_TEST(outcome("two_at_once") == "again 0\nagain 1\nagain 2\nno error\nworker 0\nworker 1\nworker 2\n");
}

BOOST_AUTO_TEST_CASE(worker_may_spawn) {
  BOOST_TEST(outcome("nested") == "no error\nouter 0\nouter 1\nworker 0\nworker 0\nworker 1\nworker 1\n");
}

BOOST_AUTO_TEST_CASE(workers_know_their_rank_and_port) { BOOST_TEST(outcome("environment") == "no error\n"); }

BOOST_AUTO_TEST_CASE(exception_is_returned_and_ends_the_others) {
  BOOST_TEST(outcome("throw") ==
             "rank 1: rpc::spawn: the worker of rank 1 of 3 failed: std::out_of_range: no such weather\n");
}

BOOST_AUTO_TEST_CASE(early_exit_is_a_failure) {
  BOOST_TEST(outcome("exit_0") ==
             "rank 1: rpc::spawn: the worker of rank 1 of 3 failed: exited with code 0 before its function returned\n");
  BOOST_TEST(outcome("exit_3") == "rank 1: rpc::spawn: the worker of rank 1 of 3 failed: exited with code 3\n");
}

BOOST_AUTO_TEST_CASE(returned_error_code_is_a_failure) {
  BOOST_TEST(outcome("return_4") == "rank 2: rpc::spawn: the worker of rank 2 of 3 failed: exited with code 4\n");
  // An exit status holds only the lowest byte of the returned value.
  BOOST_TEST(outcome("return_256") == "rank 2: rpc::spawn: the worker of rank 2 of 3 failed: exited with code 1\n");
}

BOOST_AUTO_TEST_CASE(killed_worker_ends_the_others) {
  BOOST_TEST(outcome("killed") ==
             "rank 2: rpc::spawn: the worker of rank 2 of 4 failed: killed by signal 9 (Killed)\n");
}

BOOST_AUTO_TEST_CASE(timeout_names_the_unfinished_ranks) {
  const std::string text = outcome("timeout");
  BOOST_TEST(contains(text, "rank 0: rpc::spawn: not done after 200 ms; these ranks were still running: 0, 1\n"));
}

BOOST_AUTO_TEST_CASE(stubborn_workers_are_killed_after_grace_period) {
  BOOST_TEST(contains(outcome("stubborn"), "not done after 300 ms"));
}

BOOST_AUTO_TEST_CASE(workers_inherit_no_descriptors) {
  // 4 is the control socket, 5 rank 0's listener; both are closed in programs that the worker starts.
  BOOST_TEST(outcome("descriptors") == "descriptors of 0: 0 1 2 4c 5c\ndescriptors of 1: 0 1 2 4c\nno error\n");
}

BOOST_AUTO_TEST_CASE(ctrl_c_and_sigterm_end_all_processes) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Process process = start("wait");
    const auto pids = read_pids(process, 3);
    process.signal(signal);
    BOOST_TEST(process.wait().signal == signal);
    for (const pid_t pid : pids) BOOST_TEST(is_gone(pid));  // reaped before the parent ended
  }
}

BOOST_AUTO_TEST_CASE(programs_handler_runs_after_workers_have_ended) {
  Process process = start("wait_with_handler");
  const auto pids = read_pids(process, 3);
  process.signal(SIGINT);
  BOOST_TEST(process.line() == "own handler: 2");
  for (const pid_t pid : pids) BOOST_TEST(is_gone(pid));
  BOOST_TEST(contains(process.line(), "ended by signal 2"));
  BOOST_TEST(process.wait().code == 0);
}

BOOST_AUTO_TEST_CASE(sigterm_may_request_a_return) {
  for (const char* scenario : {"asked", "asked_in_vain"}) {
    Process process = start(scenario);
    read_pids(process, 3);
    process.signal(SIGTERM);
    BOOST_TEST(process.line() == "own handler: 15");
    const std::string end = process.line();
    if (scenario == std::string("asked")) {
      BOOST_TEST(end == "no error");
    } else {
      BOOST_TEST(contains(end, "ended by signal 15"));
      BOOST_TEST(process.line() == "  rank 1: std::runtime_error: the disk is full");
    }
    BOOST_TEST(process.wait().code == 0);
  }
}

BOOST_AUTO_TEST_CASE(killed_parent_leaves_no_orphans) {
  test::adopt_orphans();
  Process process = start("wait");
  const auto pids = read_pids(process, 3);
  process.signal(SIGKILL);
  BOOST_TEST(process.wait().signal == SIGKILL);
  for (const pid_t pid : pids) BOOST_TEST(test::wait_for_end(pid).signal == SIGKILL);
}

BOOST_AUTO_TEST_CASE(killed_parent_ends_stopped_workers_too) {
  test::adopt_orphans();
  Process process = start("wait");
  const auto pids = read_pids(process, 3);
  test::stop(pids[1]);
  process.signal(SIGKILL);
  process.wait();
  for (const pid_t pid : pids) BOOST_TEST(test::wait_for_end(pid).signal == SIGKILL);
}

BOOST_AUTO_TEST_CASE(invalid_world_size_is_rejected) {
  BOOST_TEST(outcome("no_workers") == "error: rpc::spawn: world_size must be 1 to 4096, got 0\n");
}

BOOST_AUTO_TEST_CASE(main_without_worker_main_is_rejected) {
  BOOST_TEST(contains(outcome("without_worker_main"), "main must begin with tendril::rpc::worker_main"));
}

BOOST_AUTO_TEST_SUITE_END()
