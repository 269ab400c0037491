#include "tendril/rpc/launch/launcher.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <map>
#include <optional>

#include "tendril/rpc/error.h"
#include "tests/contains.h"
#include "tests/rpc/process.h"

BOOST_AUTO_TEST_SUITE(launcher)

using namespace tendril::rpc;
using detail::Launched;

namespace {

using Variables = std::map<std::string, std::string>;

Launched detect(const Variables& variables) {
  return detail::detect_launcher(
      [&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      [](int descriptor) { return descriptor == 6 ? std::optional<int>(4711) : std::nullopt; });
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

std::string error_of(const Variables& variables) {
  try {
    detect(variables);
  } catch (const UsageError& e) {
    return e.what();
  }
  return "no error";
}

using tendril::test::contains;

/// An unset value is expected as -1.
void check(const Launched& got, const std::string& by, int rank, int size, int local_rank, int local_size,
           const std::string& address, int port) {
  BOOST_TEST(got.by == by);
  BOOST_TEST(got.rank.value_or(-1) == rank);
  BOOST_TEST(got.world_size.value_or(-1) == size);
  BOOST_TEST(got.local_rank.value_or(-1) == local_rank);
  BOOST_TEST(got.local_world_size.value_or(-1) == local_size);
  BOOST_TEST(got.master_addr == address);
  BOOST_TEST(got.master_port.value_or(-1) == port);
}

// The variables that matter, as each launcher sets them.
const Variables torchrun = {{"TORCHELASTIC_RUN_ID", "b2064386"},
                            {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                            {"RANK", "3"},
                            {"WORLD_SIZE", "4"},
                            {"LOCAL_RANK", "1"},
                            {"LOCAL_WORLD_SIZE", "2"},
                            {"GROUP_RANK", "1"},
                            {"MASTER_ADDR", "node7"},
                            {"MASTER_PORT", "29500"}};
const Variables open_mpi_4 = {
    {"OMPI_COMM_WORLD_RANK", "1"},
    {"OMPI_COMM_WORLD_SIZE", "2"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
    {"OMPI_MCA_orte_hnp_uri", "2062745600.0;tcp://192.0.2.2,172.17.0.1:36601;tcp6://[fd00::2]:42159"},
    {"PMIX_SERVER_URI41", "2062745600.0;tcp4://127.0.0.1:33637"},
    {"PMIX_NAMESPACE", "2062745601"},
    {"PMIX_RANK", "1"}};
const Variables open_mpi_5 = {{"PRTE_LAUNCHED", "1"},
                              {"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "2"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                              {"PMIX_SERVER_URI41", "prterun-node-1-12@0.1;tcp4://192.0.2.7:33637"},
                              {"PMIX_NAMESPACE", "prterun-node-1-12@1"},
                              {"PMIX_HOSTNAME", "node-2"}};
const Variables hydra = {
    {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}, {"PMI_FD", "6"}};
const Variables srun = {{"SLURM_PROCID", "3"},         {"SLURM_STEP_NODELIST", "n[001-002]"},
                        {"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_STEP_NUM_TASKS", "4"},
                        {"SLURM_NTASKS", "4"},         {"SLURM_LOCALID", "1"},
                        {"SLURM_JOB_ID", "4099"}};
const Variables kubernetes = {
    {"JOB_COMPLETION_INDEX", "2"}, {"WORLD_SIZE", "3"}, {"HOSTNAME", "train-2"}, {"TENDRIL_SERVICE", "peers"}};

}  // namespace

BOOST_AUTO_TEST_CASE(no_launcher_is_detected_without_variables) {
  check(detect({}), "", -1, -1, -1, -1, "", -1);
  check(detect({{"MASTER_ADDR", "h"}, {"MASTER_PORT", "5"}}), "", -1, -1, -1, -1, "h", 5);
  check(detect({{"RANK", ""}, {"OMPI_COMM_WORLD_RANK", "1"}}), "Open MPI", 1, -1, -1, -1, "", -1);
}

BOOST_AUTO_TEST_CASE(torchrun_agent_keeps_master_port) {
  check(detect(torchrun), "torchrun", 3, 4, 1, 2, "node7", 29501);
  BOOST_TEST(detect(with(torchrun, {{"MASTER_PORT", "65535"}})).master_port.value() == 65534);
  BOOST_TEST(detect(with(torchrun, {{"TENDRIL_PORT", "4000"}})).master_port.value() == 4000);
}

BOOST_AUTO_TEST_CASE(single_host_groups_meet_on_loopback) {
  BOOST_TEST(detect(with(torchrun, {{"LOCAL_WORLD_SIZE", "4"}})).master_addr == "127.0.0.1");
  BOOST_TEST(detect(with(open_mpi_4, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})).master_addr == "127.0.0.1");
  BOOST_TEST(detect(with(open_mpi_5, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})).master_addr == "127.0.0.1");
  BOOST_TEST(detect(hydra).master_addr == "127.0.0.1");
  BOOST_TEST(detect(with(srun, {{"SLURM_STEP_NUM_NODES", "1"}})).master_addr == "127.0.0.1");
}

BOOST_AUTO_TEST_CASE(plain_variables_need_no_launcher) {
  const Variables plain = {{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "29500"}};
  check(detect(plain), "hand", 2, 4, -1, -1, "localhost", 29500);
  check(detect({{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}}), "hand", 2, 4, 0,
        1, "", -1);
  BOOST_TEST(detect(with(plain, {{"TENDRIL_PORT", "7"}})).master_port.value() == 7);
}

BOOST_AUTO_TEST_CASE(open_mpi_provides_host_and_port) {
  check(detect(open_mpi_4), "Open MPI", 1, 2, 0, 1, "192.0.2.2", 61440 + 31475 % 4096);
  const int port = detect(open_mpi_5).master_port.value();
  check(detect(open_mpi_5), "Open MPI", 1, 2, 0, 1, "node-1", port);
  BOOST_TEST((port >= 61440 && port <= 65535));
  BOOST_TEST(detect(with(open_mpi_5, {{"PMIX_NAMESPACE", "prterun-node-1-13@1"}})).master_port.value() != port);
  Variables version_6 = open_mpi_4;
  version_6["OMPI_MCA_orte_hnp_uri"] = "1.0;tcp6://[fd00::2,fd00::3]:42159";
  BOOST_TEST(detect(version_6).master_addr == "fd00::2");
}

BOOST_AUTO_TEST_CASE(job_name_without_host_gives_no_master) {
  for (const char* name :
       {"slurm.pmix.7.0", "prterun-12@1", "prterun-h-12", "1@1", "prterun-localhost-12@1", "prterun-127.0.0.1-12@1"}) {
    const Launched got = detect(with(open_mpi_5, {{"PMIX_NAMESPACE", name}}));
    BOOST_TEST(got.master_addr == "", name << " gives " << got.master_addr);
    BOOST_TEST(contains(got.advice, "mpirun -x MASTER_ADDR="));
  }
}

BOOST_AUTO_TEST_CASE(hydra_provides_no_master) {
  check(detect(hydra), "MPICH's Hydra", 1, 2, 1, 2, "127.0.0.1", 61440 + 4711 % 4096);
  BOOST_TEST(detect(with(hydra, {{"MASTER_PORT", "5"}})).master_port.value() == 5);
  BOOST_TEST(!detect(with(hydra, {{"PMI_FD", "7"}})).master_port.has_value());
  const Launched several = detect(with(hydra, {{"MPI_LOCALNRANKS", "1"}, {"MPI_LOCALRANKID", "0"}}));
  BOOST_TEST(several.master_addr == "");
  BOOST_TEST(!several.master_port.has_value());  // no port on which all hosts would agree
  BOOST_TEST(contains(several.advice, "mpiexec -genv MASTER_ADDR"));
}

BOOST_AUTO_TEST_CASE(socket_reveals_the_process_that_created_it) {
  BOOST_TEST(!detail::creator_of_socket(-1).has_value());
  int pair[2], pipe[2];
  BOOST_REQUIRE(::pipe2(pipe, O_CLOEXEC) == 0);
  BOOST_TEST(!detail::creator_of_socket(pipe[0]).has_value());
  BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  BOOST_TEST(!detail::creator_of_socket(pair[0]).has_value());  // this process created it
  const pid_t child = ::fork();
  if (child == 0) ::_exit(detail::creator_of_socket(pair[0]) == ::getppid() ? 0 : 1);
  BOOST_TEST(tendril::test::wait_for_end(child).code == 0);
  for (const int end : {pair[0], pair[1], pipe[0], pipe[1]}) ::close(end);
}

BOOST_AUTO_TEST_CASE(srun_provides_host_and_port) {
  check(detect(srun), "Slurm", 3, 4, 1, -1, "n001", 61440 + 3);
  Variables older = srun;
  older.erase("SLURM_STEP_NUM_TASKS");
  check(detect(older), "Slurm", 3, 4, 1, -1, "n001", 61440 + 3);
}

BOOST_AUTO_TEST_CASE(srun_provides_tasks_per_node) {
  const auto on_node = [](const char* node, const char* list) {
    return detect(with(srun, {{"SLURM_NODEID", node}, {"SLURM_STEP_TASKS_PER_NODE", list}}))
        .local_world_size.value_or(-1);
  };
  BOOST_TEST(on_node("0", "2(x2)") == 2);
  BOOST_TEST(on_node("1", "2(x2)") == 2);
  BOOST_TEST(on_node("3", "3(x3),2,4") == 2);
  BOOST_TEST(on_node("4", "3(x3),2,4") == 4);
  for (const char* unclear : {"", "x", "2(x", "2(x)", "2(x0)", "2,"}) BOOST_TEST(on_node("1", unclear) == -1);
}

BOOST_AUTO_TEST_CASE(single_slurm_task_is_not_distributed) {
  check(detect(with(srun, {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}})), "", -1, -1, -1, -1, "", -1);
}

BOOST_AUTO_TEST_CASE(allocation_without_srun_is_detected) {
  const Variables sbatch = {{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}};
  check(detect(sbatch), "", -1, -1, -1, -1, "", -1);
  BOOST_TEST(detect(sbatch).slurm_tasks == 4);
  BOOST_TEST(detect({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "2"}}).slurm_tasks == 2);
  BOOST_TEST(detect({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "1"}}).slurm_tasks == 0);
  BOOST_TEST(detect(with(srun, {{"SLURM_STEP_NUM_TASKS", "1"}})).slurm_tasks == 0);
  BOOST_TEST(detail::srun_line(4, {"./a", "--say", "it's", "$x"}) == "srun -n 4 ./a --say 'it'\\''s' '$x'");
  BOOST_TEST(detail::srun_line(2, {}) == "srun -n 2 <program>");
}

BOOST_AUTO_TEST_CASE(mpirun_takes_precedence_inside_slurm) {
  BOOST_TEST(detect(with(srun, open_mpi_4)).by == "Open MPI");
  const Variables pmi2 = with(srun, {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"PMIX_RANK", "3"}});
  BOOST_TEST(detect(pmi2).by == "Slurm");
  // mpiexec has srun start one helper on each host: Slurm counts two, and rank 0 is number 0 in both.
  const Variables helpers = {
      {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "0"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "4"}};
  BOOST_TEST(detect(with(srun, helpers)).by == "MPICH's Hydra");
}

BOOST_AUTO_TEST_CASE(innermost_launcher_takes_precedence) {
  BOOST_TEST(detect(with(srun, torchrun)).by == "torchrun");
  BOOST_TEST(detect(with(with(kubernetes, {{"WORLD_SIZE", "2"}}), hydra)).by == "MPICH's Hydra");
  const Variables wrapped = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}};
  BOOST_TEST(detect(with(open_mpi_4, wrapped)).by == "hand");
  BOOST_TEST(detect(with(open_mpi_4, {{"RANK", "0"}})).by == "Open MPI");
}

BOOST_AUTO_TEST_CASE(indexed_job_uses_its_headless_service) {
  check(detect(kubernetes), "Kubernetes", 2, 3, 0, 1, "train-0.peers", -1);
  BOOST_TEST(detect(with(kubernetes, {{"MASTER_ADDR", "10.0.0.1"}})).master_addr == "10.0.0.1");
  BOOST_TEST(detect(with(kubernetes, {{"HOSTNAME", "something"}})).master_addr == "");
  Variables no_service = kubernetes;
  no_service.erase("TENDRIL_SERVICE");
  BOOST_TEST(detect(no_service).master_addr == "");
  for (const char* word : {"WORLD_SIZE", "TENDRIL_SERVICE", "subdomain", "publishNotReadyAddresses"})
    BOOST_TEST(contains(detect(no_service).advice, word));
}

BOOST_AUTO_TEST_CASE(user_master_overrides_the_launcher) {
  const Variables master = {{"MASTER_ADDR", "head"}, {"MASTER_PORT", "4000"}};
  for (const Variables& variables : {open_mpi_4, open_mpi_5, hydra, srun, kubernetes}) {
    const Launched got = detect(with(variables, master));
    BOOST_TEST(got.master_addr == "head");
    BOOST_TEST(got.master_port.value() == 4000);
    BOOST_TEST(detect(with(variables, {{"MASTER_PORT", "1"}, {"TENDRIL_PORT", "2"}})).master_port.value() == 2);
  }
}

BOOST_AUTO_TEST_CASE(text_lists_the_variables_read) {
  BOOST_TEST(detect({}).text() == "no launcher was detected");
  BOOST_TEST(detect(hydra).text() ==
             "started by MPICH's Hydra (PMI_RANK=1, PMI_SIZE=2, MPI_LOCALRANKID=1, MPI_LOCALNRANKS=2, PMI_FD=6)");
}

BOOST_AUTO_TEST_CASE(malformed_or_contradictory_variables_are_named) {
  BOOST_TEST(error_of(with(hydra, {{"PMI_SIZE", "two"}})) ==
             "the environment variable PMI_SIZE must be a number, got 'two'; started by MPICH's Hydra (PMI_RANK=1, "
             "PMI_SIZE=two)");
  BOOST_TEST(contains(error_of(with(srun, {{"SLURM_JOB_ID", "x"}})), "SLURM_JOB_ID must be a number, got 'x'"));
  BOOST_TEST(contains(error_of(with(open_mpi_4, {{"WORLD_SIZE", "3"}})),
                      "OMPI_COMM_WORLD_SIZE=2 and WORLD_SIZE=3 contradict each other"));
  BOOST_TEST(contains(error_of(with(srun, {{"WORLD_SIZE", "3"}})), "SLURM_STEP_NUM_TASKS=4 and WORLD_SIZE=3"));
  BOOST_TEST(contains(error_of(with(torchrun, {{"RANK", "4"}})),
                      "the rank must be 0 to 3 where there are 4 processes, got 4; started by torchrun ("));
  BOOST_TEST(contains(error_of(with(hydra, {{"MPI_LOCALRANKID", "-1"}})), "the local rank must be 0 to 1"));
}

BOOST_AUTO_TEST_CASE(first_host_of_a_list) {
  const std::pair<const char*, const char*> lists[] = {{"n1", "n1"},
                                                       {"n[001-015],h2", "n001"},
                                                       {"n[007,009-011]", "n007"},
                                                       {"h2,n[001-015]", "h2"},
                                                       {"r[1-2]n[03-04]-ib,x", "r1n03-ib"},
                                                       {"n[5]", "n5"},
                                                       {"10.0.0.1,10.0.0.2", "10.0.0.1"}};
  for (const auto& [list, first] : lists) BOOST_TEST(detail::first_host(list) == first);
  for (const char* wrong : {"", ",n1", "n[1-2", "[]"}) BOOST_CHECK_THROW(detail::first_host(wrong), UsageError);
  BOOST_TEST(contains(error_of(with(srun, {{"SLURM_STEP_NODELIST", "n[1-"}})),
                      "the list of hosts 'n[1-' has a [ without a ]; started by Slurm ("));
}

BOOST_AUTO_TEST_SUITE_END()
