// SIGUSR1 to real processes.
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <set>

#include "tests/contains.h"
#include "tests/rpc/process.h"

BOOST_AUTO_TEST_SUITE(status_signal)

using namespace tendril;
using test::Process;

namespace {

const std::string program = TENDRIL_TEST_PROGRAMS "/status_worker";

/// Starts a worker that is the only one of its group, with stderr redirected to stdout.
Process worker(const std::string& scenario) {
  return Process({"/bin/sh", "-c", "exec " + program + " " + scenario + " 2>&1"});
}

/// Returns the lines up to and including the first that begins with `start`.
std::string lines_until(Process& process, const std::string& start) {
  std::string text, line;
  do {
    line = process.line();
    text += line + "\n";
  } while (!line.starts_with(start));
  return text;
}

using tendril::test::contains;

}  // namespace

BOOST_AUTO_TEST_CASE(status_is_written_while_threads_are_stuck) {
  Process process = worker("stuck");
  BOOST_TEST(process.line() == "ready");
  for (int round = 0; round < 3; ++round) {
    process.signal(SIGUSR1);
    const std::string text = lines_until(process, "latency of calls made: ");
    BOOST_TEST(text.starts_with("== worker 'solo' (rank 0) of 1, process " + std::to_string(process.pid()) + "\n"),
               text);
    BOOST_TEST(contains(text, "status_worker::hold on worker 'solo' (rank 0)\n"), text);
    BOOST_TEST(contains(text, "status_worker::hold for worker 'solo' (rank 0): running\n"), text);
  }
}

BOOST_AUTO_TEST_CASE(all_workers_of_the_process_are_described) {
  Process process = worker("two");
  BOOST_TEST(process.line() == "ready");
  process.signal(SIGUSR1);
  BOOST_TEST(contains(lines_until(process, "latency of calls made: "), "== worker 'first' (rank 0) of 1, process "));
  BOOST_TEST(contains(lines_until(process, "latency of calls made: "), "== worker 'second' (rank 0) of 1, process "));
}

BOOST_AUTO_TEST_CASE(signal_without_a_worker_does_nothing) {
  Process process = worker("left_and_joined");
  BOOST_TEST(process.line() == "left");
  process.signal(SIGUSR1);
  BOOST_TEST(process.line() == "joined");
  process.signal(SIGUSR1);
  BOOST_TEST(process.line().starts_with("== worker 'solo' (rank 0) of 1, process "));
}

BOOST_AUTO_TEST_CASE(spawner_asks_each_of_its_workers) {
  Process process = worker("spawned");
  for (int i = 0; i < 3; ++i) {
    const std::string pid = process.line().substr(6);  // "ready PID"
    std::string name;
    std::getline(std::ifstream("/proc/" + pid + "/comm"), name);
    BOOST_TEST(name == "status_worker");  // the name that a user looks for
  }
  for (int round = 0; round < 2; ++round) {
    process.signal(SIGUSR1);
    std::multiset<std::string> who;
    while (who.size() < 3)
      if (const std::string line = process.line(); line.starts_with("== ")) who.insert(line.substr(0, 14));
    BOOST_TEST(who == (std::multiset<std::string>{"== no worker i", "== worker 'w0'", "== worker 'w1'"}),
               boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(spawner_in_a_group_answers_too) {
  Process process = worker("spawner_in_a_group");
  BOOST_TEST(process.line() == "ready");
  process.signal(SIGUSR1);
  std::multiset<std::string> who;
  while (who.size() < 2)
    if (const std::string line = process.line(); line.starts_with("== ")) who.insert(line.substr(0, 14));
  BOOST_TEST(who == (std::multiset<std::string>{"== no worker i", "== worker 'sol"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(group_joined_during_spawn_answers_afterwards) {
  Process process = worker("joins_while_it_spawns");
  BOOST_TEST(process.line() == "ready");
  process.signal(SIGUSR1);
  BOOST_TEST(process.line().starts_with("== worker 'solo' (rank 0) of 1, process "));
}

BOOST_AUTO_TEST_CASE(handler_of_the_program_is_kept) {
  Process handler = worker("own_handler");
  BOOST_TEST(handler.line() == "ready");
  handler.signal(SIGUSR1);
  BOOST_TEST(handler.line() == "own handler");
  Process ended = worker("switched_off");
  BOOST_TEST(ended.line() == "ready");
  ended.signal(SIGUSR1);
  BOOST_TEST(ended.wait().signal == SIGUSR1);
}

#ifndef __SANITIZE_THREAD__  // ThreadSanitizer delays the signal that the handler raises
BOOST_AUTO_TEST_CASE(signal_ends_forked_child_without_a_worker) {
  Process process = worker("forked");
  BOOST_TEST(process.line() == "child ended by signal " + std::to_string(SIGUSR1));
}
#endif

BOOST_AUTO_TEST_SUITE_END()
