// Silent workers, and live workers that lose each other.
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <string>
#include <vector>

#include "tests/contains.h"
#include "tests/rpc/process.h"
#include "tests/rpc/reserved_port.h"

BOOST_AUTO_TEST_SUITE(silence)

using namespace std::chrono_literals;
using tendril::test::contains;
using tendril::test::Process;

namespace {

/// Starts three workers, in the order of their ranks, with stderr merged into stdout.
std::vector<Process> group_of_three(const std::string& scenario, const tendril::test::ReservedPort& port) {
  std::vector<Process> workers;
  for (const int rank : {0, 1, 2}) {
    workers.push_back(
        Process({"/bin/sh", "-c", "exec " TENDRIL_TEST_PROGRAMS "/partition_scenarios " + scenario + " 2>&1"},
                {"TENDRIL_LOG=error", "MASTER_ADDR=127.0.0.1", "RANK=" + std::to_string(rank), "WORLD_SIZE=3",
                 "MASTER_PORT=" + std::to_string(port.number())}));
  }
  return workers;
}

}  // namespace

BOOST_AUTO_TEST_CASE(idle_group_notices_stopped_worker) {
  const tendril::test::ReservedPort port;
  std::vector<Process> workers = group_of_three("idle", port);
  BOOST_TEST(workers[1].line() == "w1 holds an object for others");
  for (const std::size_t rank : {0, 1, 2}) BOOST_TEST(workers[rank].line() == "w" + std::to_string(rank) + " is idle");
  workers[2].signal(SIGSTOP);
  const std::string meets = workers[1].line();
  BOOST_TEST(contains(meets, "w1 meets: PeerLostError"), meets);
  BOOST_TEST(contains(meets, "worker 'w2' (rank 2) is gone"), meets);
  for (const std::size_t rank : {0, 1})
    BOOST_TEST(workers[rank].line() == "w" + std::to_string(rank) + " sees w2 lost");
  BOOST_TEST(workers[1].line() == "w1 holds nothing for others");
  workers[0].signal(SIGSTOP);
  BOOST_TEST(contains(workers[1].line(), "w1 waits: PeerLostError"));
}

BOOST_AUTO_TEST_CASE(separated_workers_call_each_other_again) {
  const tendril::test::ReservedPort port;
  std::vector<Process> workers = group_of_three("stopped_and_continued", port);
  BOOST_TEST(workers[1].line() == "w1 calls");
  workers[2].signal(SIGSTOP);
  BOOST_TEST(workers[1].line() == "w1 has lost w2");
  workers[2].signal(SIGCONT);
  BOOST_TEST(workers[1].line() == "w1 calls: no error");
  BOOST_TEST(contains(workers[1].line(), "w1 fetches: error: owner_lost"));
  BOOST_TEST(workers[2].line() == "w2 calls: no error");
  for (const std::size_t rank : {0, 1, 2})
    BOOST_TEST(workers[rank].line() == "w" + std::to_string(rank) + ": no error");
}

BOOST_AUTO_TEST_CASE(accept_losses_succeeds_without_rank_0) {
  const tendril::test::ReservedPort port;
  std::vector<Process> workers = group_of_three("leave_without_rank_0", port);
  for (const std::size_t rank : {0, 1, 2}) BOOST_TEST(workers[rank].line() == "w" + std::to_string(rank) + " is ready");
  workers[0].signal(SIGKILL);
  BOOST_TEST(workers[1].line() == "w1 leaves: no error");
  BOOST_TEST(contains(workers[2].line(), "w2 leaves: PeerLostError"));
}

BOOST_AUTO_TEST_SUITE_END()
