// Distributed autograd between real processes, including the loss of a killed worker.
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "tests/rpc/process.h"
#include "tests/rpc/reserved_port.h"

BOOST_AUTO_TEST_SUITE(dist_processes)

using namespace tendril;
using test::Process;

namespace {

const std::string program = TENDRIL_TEST_PROGRAMS "/dist_scenarios";

void check_spawned(const std::string& scenario) {
  Process process({program, scenario});
  BOOST_TEST(process.rest() == "done\n");
  BOOST_TEST(process.wait().code == 0);
}

/// Checks the output of w0 after w1, one of three workers, has killed or stopped itself.
void check_loss(const std::string& scenario, bool killed = true) {
  const test::ReservedPort port;
  std::vector<Process> workers;
  for (int rank = 0; rank < 3; ++rank) {
    workers.push_back(
        Process({program, scenario}, {"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + std::to_string(port.number()),
                                      "WORLD_SIZE=3", "RANK=" + std::to_string(rank)}));
  }
  const std::string error = workers[0].line();
  BOOST_TEST(error.starts_with("PeerLostError: "), error);
  BOOST_TEST(error.find("worker 'w1'") != std::string::npos, error);
  for (const char* const expected : {"in time", "continues", "clean"}) BOOST_TEST(workers[0].line() == expected);
  BOOST_TEST(workers[0].line() == "done");
  if (killed) BOOST_TEST(workers[1].wait().signal == SIGKILL);
  BOOST_TEST(workers[0].wait().code == 0);
  BOOST_TEST(workers[2].wait().code == 0);
}

}  // namespace

BOOST_AUTO_TEST_CASE(spawned_workers_join_distributed_autograd_automatically) {
  check_spawned("smart");
  check_spawned("fast");
}

BOOST_AUTO_TEST_CASE(spawned_workers_reduce_tensors) { check_spawned("collectives"); }

BOOST_AUTO_TEST_CASE(member_killed_in_all_reduce_fails_others) {
  const test::ReservedPort port;
  std::vector<Process> workers;
  for (int rank = 0; rank < 3; ++rank) {
    workers.push_back(Process({program, "killed_in_all_reduce"},
                              {"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + std::to_string(port.number()), "WORLD_SIZE=3",
                               "RANK=" + std::to_string(rank)}));
  }
  for (const std::size_t rank : {0u, 2u}) {
    const std::string error = workers[rank].line();
    BOOST_TEST(error.starts_with("PeerLostError: "), error);
    BOOST_TEST(error.find("worker 'w1'") != std::string::npos, error);
    BOOST_TEST(workers[rank].line() == "continues");
    BOOST_TEST(workers[rank].line() == "done");
    BOOST_TEST(workers[rank].wait().code == 0);
  }
  BOOST_TEST(workers[1].wait().signal == SIGKILL);
}

BOOST_AUTO_TEST_CASE(idle_stopped_member_fails_a_broadcast) {
  const test::ReservedPort port;
  std::vector<Process> workers;
  for (int rank = 0; rank < 3; ++rank) {
    workers.push_back(Process({program, "stopped_in_broadcast"},
                              {"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + std::to_string(port.number()), "WORLD_SIZE=3",
                               "RANK=" + std::to_string(rank)}));
  }
  for (Process& worker : workers) BOOST_TEST(worker.line() == "in the group");  // no request is pending any more
  workers[1].signal(SIGSTOP);
  for (const std::size_t rank : {0u, 2u}) {
    const std::string error = workers[rank].line();
    BOOST_TEST(error.starts_with("PeerLostError: "), error);
    BOOST_TEST(error.find("worker 'w1'") != std::string::npos, error);
    BOOST_TEST(workers[rank].line() == "done");
    BOOST_TEST(workers[rank].wait().code == 0);
  }
}

BOOST_AUTO_TEST_CASE(killed_stage_is_named_and_training_resumes) {
  for (const char* const scenario : {"stage_killed_in_forward", "stage_killed_in_backward"}) {
    const test::ReservedPort port;
    std::vector<Process> workers;
    for (int rank = 0; rank < 4; ++rank) {
      workers.push_back(Process({TENDRIL_TEST_PROGRAMS "/training_scenarios", scenario},
                                {"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + std::to_string(port.number()),
                                 "WORLD_SIZE=4", "RANK=" + std::to_string(rank)}));
    }
    const std::string error = workers[0].line();
    BOOST_TEST(error.starts_with("RpcError: "), error);
    BOOST_TEST(error.find("worker 'w2'") != std::string::npos, error);
    BOOST_TEST(workers[0].line() == "in time");
    BOOST_TEST(workers[0].line() == "continues");
    BOOST_TEST(workers[2].wait().signal == SIGKILL);
    for (const std::size_t rank : {0u, 1u, 3u}) {
      BOOST_TEST(workers[rank].line() == "done");
      BOOST_TEST(workers[rank].wait().code == 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(worker_killed_in_forward_fails_the_call) { check_loss("killed_in_forward"); }

BOOST_AUTO_TEST_CASE(worker_killed_in_backward_fails_the_backward) { check_loss("killed_in_backward"); }

BOOST_AUTO_TEST_CASE(worker_stopped_in_backward_is_lost) { check_loss("stopped_in_backward", false); }

BOOST_AUTO_TEST_CASE(worker_killed_two_hops_away_is_named) { check_loss("killed_in_backward_two_hops_away"); }

BOOST_AUTO_TEST_SUITE_END()
