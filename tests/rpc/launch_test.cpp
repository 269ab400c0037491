#include <boost/test/unit_test.hpp>
#include <functional>
#include <set>

#include "tests/contains.h"
#include "tests/rpc/process.h"
#include "tests/rpc/reserved_port.h"

// One program under the variables of many launchers. tests/launchers runs the launchers themselves.

BOOST_AUTO_TEST_SUITE(launch)

using namespace tendril;
using namespace std::chrono_literals;
using test::Process;

namespace {

using Environment = std::vector<std::string>;

const std::string program = TENDRIL_TEST_PROGRAMS "/launch_scenarios";

Process start(const std::string& arguments, const Environment& variables = {}) {
  return Process({"/bin/sh", "-c", "exec " + program + " " + arguments + " 2>&1"}, variables);
}

std::string outcome(const std::string& arguments, const Environment& variables = {}) {
  Process process = start(arguments, variables);
  return process.rest(120s);
}

using tendril::test::contains;

/// The lines printed by the program's workers. Omits the library's notes: workers that start slowly also log which
/// workers are missing or were refused.
std::set<std::string> lines_of(const std::string& text) {
  std::set<std::string> lines;
  for (std::size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    if (const std::string line = text.substr(at, end - at); !line.starts_with("rpc: ")) lines.insert(line);
  return lines;
}

std::string number(int value) { return std::to_string(value); }

/// Runs two processes with the variables that a launcher sets for each rank, and returns the lines they print.
std::set<std::string> two(const std::function<Environment(int rank)>& variables) {
  const test::ReservedPort port;
  std::vector<Process> processes;
  for (const int rank : {0, 1}) {
    Environment all = variables(rank);
    all.push_back("TENDRIL_PORT=" + number(port.number()));
    processes.push_back(start("meet", all));
  }
  std::set<std::string> lines;
  for (Process& process : processes) lines.merge(lines_of(process.rest(120s)));
  return lines;
}

std::set<std::string> hello(const std::string& local, const std::string& by) {
  const bool counted = local == "rank of 2";
  std::set<std::string> lines;
  for (const int rank : {0, 1})
    lines.insert("hello from " + number(rank) + " of 2, local " + (counted ? number(rank) + " of 2" : local) + ", by " +
                 by);
  return lines;
}

}  // namespace

BOOST_AUTO_TEST_CASE(program_alone_spawns_its_workers) {
  BOOST_TEST(lines_of(outcome("meet --default 2")) == hello("rank of 2", "rpc::spawn"),
             boost::test_tools::per_element());
  BOOST_TEST(lines_of(outcome("meet --size 2 --default 5")) == hello("rank of 2", "rpc::spawn"),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(group_of_one_runs_in_the_program) {
  BOOST_TEST(outcome("meet") == "hello from 0 of 1, local 0 of 1, by rpc::launch\n");
  Process process = start("pid");
  const std::string worker = process.line(), main = process.line();
  BOOST_TEST(worker.substr(7) == main.substr(5));
}

BOOST_AUTO_TEST_CASE(ranks_can_be_given_by_flags) {
  const test::ReservedPort port;
  const std::string flags = " --size 2 --port " + number(port.number());
  Process one = start("meet --rank 1" + flags), zero = start("meet --rank 0" + flags);
  auto lines = lines_of(zero.rest(120s));
  lines.merge(lines_of(one.rest(120s)));
  BOOST_TEST(lines == hello("-1 of -1", "hand"), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(launchers_are_detected_by_their_variables) {
  const auto check = [](const char* local, const char* by, const std::function<Environment(int)>& variables) {
    BOOST_TEST_CONTEXT(by) { BOOST_TEST(two(variables) == hello(local, by), boost::test_tools::per_element()); }
  };
  check("-1 of -1", "hand", [](int rank) -> Environment {
    return {"RANK=" + number(rank), "WORLD_SIZE=2", "MASTER_ADDR=localhost"};
  });
  check("rank of 2", "torchrun", [](int rank) -> Environment {
    return {"TORCHELASTIC_RUN_ID=x", "RANK=" + number(rank),
            "WORLD_SIZE=2",          "LOCAL_RANK=" + number(rank),
            "LOCAL_WORLD_SIZE=2",    "MASTER_ADDR=a-host-without-address",
            "MASTER_PORT=1"};
  });
  check("rank of 2", "Open MPI", [](int rank) -> Environment {
    return {"OMPI_COMM_WORLD_RANK=" + number(rank), "OMPI_COMM_WORLD_SIZE=2",
            "OMPI_COMM_WORLD_LOCAL_RANK=" + number(rank), "OMPI_COMM_WORLD_LOCAL_SIZE=2"};
  });
  check("rank of 2", "MPICH's Hydra", [](int rank) -> Environment {
    return {"PMI_RANK=" + number(rank), "PMI_SIZE=2", "MPI_LOCALRANKID=" + number(rank), "MPI_LOCALNRANKS=2"};
  });
  check("0 of -1", "Slurm", [](int rank) -> Environment {
    return {"SLURM_PROCID=" + number(rank), "SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_NODELIST=localhost,n[2-3]",
            "SLURM_STEP_NUM_NODES=2",       "SLURM_LOCALID=0",        "SLURM_JOB_ID=3"};
  });
  check("0 of 1", "Kubernetes", [](int rank) -> Environment {
    return {"JOB_COMPLETION_INDEX=" + number(rank), "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1"};
  });
}

BOOST_AUTO_TEST_CASE(spawned_workers_ignore_the_launchers_group) {
  const Environment torchrun = {"TORCHELASTIC_RUN_ID=x", "RANK=3",        "WORLD_SIZE=4",  "LOCAL_RANK=3",
                                "LOCAL_WORLD_SIZE=4",    "MASTER_PORT=1", "TENDRIL_PORT=1"};
  BOOST_TEST(lines_of(outcome("spawn", torchrun)) == hello("rank of 2", "rpc::spawn"),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(contradictory_settings_are_rejected) {
  const Environment mpi = {"PMI_RANK=0", "PMI_SIZE=2", "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=2"};
  const std::tuple<const char*, Environment, const char*> cases[] = {
      {"meet --size 3", mpi,
       "rpc::launch: this program was told to have 3 workers, but there are 2 processes: started by MPICH's Hydra "
       "(PMI_RANK=0, PMI_SIZE=2"},
      {"meet", {"WORLD_SIZE=4"}, "rpc::launch: WORLD_SIZE=4 is set, but no rank: set RANK in each process"},
      {"meet --default 2 --port 4000", {}, "rpc::launch: the address of rank 0 is given, but no rank"},
      {"meet --rank 2 --size 2", {}, "rpc::launch: the rank must be 0 to 1 in a group of world size 2, got 2"},
      {"meet --rank -2", {}, "rpc::launch: the rank must be 0 to 0 in a group of world size 1, got -2"},
      {"meet --size 0", {}, "rpc::launch: world_size must be 1 to 4096, got 0"},
      {"meet --default 0", {}, "rpc::launch: default_world_size must be 1 to 4096, got 0"},
      {"meet", {"JOB_COMPLETION_INDEX=1"}, "rpc::launch: the number of processes is not known: set WORLD_SIZE"},
      {"meet", {"TORCHELASTIC_RUN_ID=x", "WORLD_SIZE=2"}, "rpc::launch: this process's rank is not known: set RANK"},
      {"meet --size 3", {"SLURM_JOB_ID=5", "SLURM_NTASKS=2"}, "srun has not started this process; type: srun -n 2 "},
  };
  for (const auto& [arguments, variables, text] : cases) {
    const std::string got = outcome(arguments, variables);
    BOOST_TEST(contains(got, text), got);
  }
  BOOST_TEST(contains(outcome("meet", {"SLURM_JOB_ID=5", "SLURM_NTASKS=2"}), program + " meet (or unset SLURM_JOB_ID"));
}

BOOST_AUTO_TEST_CASE(uncaught_error_is_one_line_without_abort) {
  Process process = start("bare", {"PMI_RANK=0", "PMI_SIZE=3"});
  BOOST_TEST(process.rest(120s) ==
             "rpc: this process ends because of an uncaught exception: tendril::rpc::UsageError: rpc::launch: this "
             "program was told to have 2 workers, but there are 3 processes: started by MPICH's Hydra (PMI_RANK=0, "
             "PMI_SIZE=3)\n");
  BOOST_TEST(process.wait().code == 70);
}

BOOST_AUTO_TEST_CASE(nonzero_return_value_is_a_failure) {
  BOOST_TEST(contains(outcome("fail"), "SpawnError of rank 0: rpc::launch: the function returned 3 for rank 0"));
  BOOST_TEST(
      contains(outcome("fail --default 2"), "SpawnError of rank 0: rpc::spawn: the worker of rank 0 of 2 failed"));
}

BOOST_AUTO_TEST_CASE(detected_launcher_is_shown_on_request) {
  const std::string text = outcome("meet", {"TENDRIL_SHOW_LAUNCH=1", "RANK=0", "WORLD_SIZE=1"});
  BOOST_TEST(
      contains(text, "rpc: worker 'w0' is rank 0 of 1 at 127.0.0.1:0, started by hand (RANK=0, WORLD_SIZE=1)\n"));
}

BOOST_AUTO_TEST_CASE(join_error_names_the_launcher) {
  const test::ReservedPort port;
  Process stranger = start("meet --rank 0 --size 3 --port " + number(port.number()));
  const std::string text = outcome("meet", {"PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2",
                                            "MASTER_PORT=" + number(port.number())});
  BOOST_TEST(contains(text, "init_rpc ('w1', rank 1, started by MPICH's Hydra (MASTER_PORT="), text);
}

BOOST_AUTO_TEST_SUITE_END()
