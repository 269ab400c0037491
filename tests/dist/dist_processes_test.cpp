// Distributed autograd over real processes, as programs use it, and what happens when one is killed.
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

/// Checks what w0 prints when w1, one of three workers, has killed or stopped itself.
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
  for (const char* const expected : {"in time", "goes on", "clean"}) BOOST_TEST(workers[0].line() == expected);
  BOOST_TEST(workers[0].line() == "done");
  if (killed) BOOST_TEST(workers[1].wait().signal == SIGKILL);
  BOOST_TEST(workers[0].wait().code == 0);
  BOOST_TEST(workers[2].wait().code == 0);
}

}  // namespace

BOOST_AUTO_TEST_CASE(spawned_workers_take_part_without_saying_so) {
  check_spawned("smart");
  check_spawned("fast");
}

BOOST_AUTO_TEST_CASE(spawned_workers_reduce_tensors) { check_spawned("collectives"); }

BOOST_AUTO_TEST_CASE(a_member_killed_in_an_all_reduce_is_an_error_at_all_others_which_go_on) {
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
    BOOST_TEST(workers[rank].line() == "goes on");
    BOOST_TEST(workers[rank].line() == "done");
    BOOST_TEST(workers[rank].wait().code == 0);
  }
  BOOST_TEST(workers[1].wait().signal == SIGKILL);
}

BOOST_AUTO_TEST_CASE(a_member_stopped_before_a_broadcast_is_missed_though_it_owes_nobody_an_answer) {
  const test::ReservedPort port;
  std::vector<Process> workers;
  for (int rank = 0; rank < 3; ++rank) {
    workers.push_back(Process({program, "stopped_in_broadcast"},
                              {"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + std::to_string(port.number()), "WORLD_SIZE=3",
                               "RANK=" + std::to_string(rank)}));
  }
  for (Process& worker : workers) BOOST_TEST(worker.line() == "in the group");  // nobody waits for an answer any more
  workers[1].signal(SIGSTOP);
  for (const std::size_t rank : {0u, 2u}) {
    const std::string error = workers[rank].line();
    BOOST_TEST(error.starts_with("PeerLostError: "), error);
    BOOST_TEST(error.find("worker 'w1'") != std::string::npos, error);
    BOOST_TEST(workers[rank].line() == "done");
    BOOST_TEST(workers[rank].wait().code == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_stage_killed_in_the_middle_of_a_batch_is_an_error_that_names_it_and_the_others_train_on) {
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
    BOOST_TEST(workers[0].line() == "goes on");
    BOOST_TEST(workers[2].wait().signal == SIGKILL);
    for (const std::size_t rank : {0u, 1u, 3u}) {
      BOOST_TEST(workers[rank].line() == "done");
      BOOST_TEST(workers[rank].wait().code == 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_worker_killed_in_forward_is_an_error_of_the_call_and_the_context_is_usable) {
  check_loss("killed_in_forward");
}

BOOST_AUTO_TEST_CASE(a_worker_killed_in_backward_is_an_error_of_the_backward_and_the_context_is_usable) {
  check_loss("killed_in_backward");
}

BOOST_AUTO_TEST_CASE(worker_stopped_in_backward_is_lost) { check_loss("stopped_in_backward", false); }

BOOST_AUTO_TEST_CASE(so_it_is_if_the_worker_was_called_by_another) { check_loss("killed_in_backward_two_hops_away"); }

BOOST_AUTO_TEST_SUITE_END()
