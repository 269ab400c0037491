#include "tendril/rpc/group/group_settings.h"

#include <boost/test/unit_test.hpp>
#include <map>

#include "tendril/rpc/error.h"

BOOST_AUTO_TEST_SUITE(group_settings)

using namespace tendril::rpc;
using detail::GroupSettings;

namespace {

using Variables = std::map<std::string, std::string>;

GroupSettings settings(const Variables& variables, const InitOptions& options = {}) {
  const auto launched = detail::detect_launcher([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
  return detail::group_settings("w", options, launched);
}

std::string error_of(const Variables& variables, const InitOptions& options = {}) {
  try {
    settings(variables, options);
  } catch (const UsageError& e) {
    return e.what();
  }
  return "no error";
}

void check(const GroupSettings& got, WorkerId rank, int world_size, const std::string& address, int port) {
  BOOST_TEST(got.self.name == "w");
  BOOST_TEST(got.self.id == rank);
  BOOST_TEST(got.world_size == world_size);
  BOOST_TEST(got.master_addr == address);
  BOOST_TEST(got.master_port == port);
}

const Variables plain = {{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "29500"}};

}  // namespace

BOOST_AUTO_TEST_CASE(environment_fills_unset_options) {
  check(settings(plain), 2, 4, "127.0.0.1", 29500);
  check(settings(plain, {.rank = 1, .world_size = 3, .master_addr = "127.0.1.1", .master_port = 30000}), 1, 3,
        "127.0.1.1", 30000);
  check(settings({}, {.rank = 0, .world_size = 2, .master_addr = "::1", .master_port = 1}), 0, 2, "::1", 1);
  check(settings(plain, {.rank = 3}), 3, 4, "127.0.0.1", 29500);
}

BOOST_AUTO_TEST_CASE(options_override_the_launcher) {
  const Variables mpi = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
  check(settings(mpi), 1, 2, "127.0.0.1", 29500);
  check(settings(mpi, {.rank = 0, .world_size = 3, .master_port = 4000}), 0, 3, "127.0.0.1", 4000);
  const Variables srun = {
      {"SLURM_STEP_NODELIST", "n[1-2]"}, {"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "1"}};
  check(settings(srun), 3, 4, "n1", 61441);
  check(settings(srun, {.master_addr = "localhost"}), 3, 4, "127.0.0.1", 61441);
}

BOOST_AUTO_TEST_CASE(ranks_on_several_hosts_need_a_master) {
  const std::string text =
      error_of({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "1"}});
  BOOST_TEST(text.find("the host of rank 0 is given neither in the options (master_addr) nor by MASTER_ADDR: pass it "
                       "on: mpiexec -genv MASTER_ADDR <the host of rank 0> ...; started by MPICH's Hydra (") == 0u);
}

BOOST_AUTO_TEST_CASE(error_without_srun_gives_the_command) {
  const std::string text = error_of({{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}});
  BOOST_TEST(text.find("this is a Slurm allocation, but srun has not started this process; type: srun -n 4 ") == 0u);
  check(settings({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}}, {.rank = 1, .world_size = 2}), 1, 2, "127.0.0.1",
        29500);
}

BOOST_AUTO_TEST_CASE(single_worker_needs_no_port) {
  check(settings({}, {.rank = 0, .world_size = 1}), 0, 1, "127.0.0.1", 0);
}

BOOST_AUTO_TEST_CASE(errors_name_missing_or_malformed_settings) {
  auto without = [](const std::string& name) {
    Variables variables = plain;
    variables.erase(name);
    return error_of(variables);
  };
  BOOST_TEST(without("RANK") ==
             "the rank of 'w' is given neither in the options nor by RANK; no launcher was detected "
             "(MASTER_ADDR=localhost, MASTER_PORT=29500, WORLD_SIZE=4)");
  BOOST_TEST(without("WORLD_SIZE") ==
             "the world size is given neither in the options nor by WORLD_SIZE; started by hand "
             "(MASTER_ADDR=localhost, MASTER_PORT=29500, RANK=2)");
  auto with = [](const std::string& name, const std::string& value) {
    Variables variables = plain;
    variables[name] = value;
    const std::string text = error_of(variables);
    return text.substr(0, text.find(';'));
  };
  BOOST_TEST(with("RANK", "two") == "the environment variable RANK must be a number, got 'two'");
  BOOST_TEST(with("WORLD_SIZE", "4x") == "the environment variable WORLD_SIZE must be a number, got '4x'");
  BOOST_TEST(with("RANK", "5") == "the rank must be 0 to 3 where there are 4 processes, got 5");
  BOOST_TEST(with("RANK", "-2") == "the rank must be 0 to 3 where there are 4 processes, got -2");
  BOOST_TEST(error_of({}, {.rank = 5, .world_size = 2}) ==
             "the rank (RANK) must be 0 to 1 in a group of world size (WORLD_SIZE) 2, got 5; no launcher was detected");
  BOOST_TEST(with("WORLD_SIZE", "0") == "the world size must be 1 to 4096, got 0");
  BOOST_TEST(with("MASTER_PORT", "65536") == "master_port (MASTER_PORT) must be 1 to 65535, got 65536");
  BOOST_TEST(with("MASTER_PORT", "0") == "master_port (MASTER_PORT) must be 1 to 65535, got 0");
  BOOST_TEST(error_of({}, {.rank = 0, .world_size = 1, .init_timeout = std::chrono::milliseconds(0)}) ==
             "init_timeout must be positive, got 0 ms; no launcher was detected");
}

BOOST_AUTO_TEST_CASE(environment_can_enable_cuda_ipc) {
  for (const char* const nothing : {static_cast<const char*>(nullptr), "", "0"}) {
    BOOST_TEST(!detail::given_cuda_ipc(false, nothing));
    BOOST_TEST(detail::given_cuda_ipc(true, nothing));
  }
  BOOST_TEST(detail::given_cuda_ipc(false, "1"));
  BOOST_CHECK_THROW(detail::given_cuda_ipc(false, "yes"), UsageError);
}

BOOST_AUTO_TEST_CASE(addresses_are_neither_checked_nor_resolved) {
  BOOST_TEST(settings(plain, {.master_addr = "node7"}).master_addr == "node7");
  BOOST_TEST(settings(plain, {.master_addr = "10.0.0.1"}).master_addr == "10.0.0.1");
}

BOOST_AUTO_TEST_SUITE_END()
