#include "tendril/rpc/launch/group_settings.h"

#include <boost/test/unit_test.hpp>
#include <map>

#include "tendril/rpc/error.h"

using namespace tendril::rpc;
using detail::GroupSettings;

namespace {

using Variables = std::map<std::string, std::string>;

GroupSettings settings(const Variables& variables, const InitOptions& options = {}) {
  return detail::group_settings("w", options, [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
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

BOOST_AUTO_TEST_SUITE(group_settings)

BOOST_AUTO_TEST_CASE(the_environment_says_what_the_options_do_not) {
  check(settings(plain), 2, 4, "127.0.0.1", 29500);
  check(settings(plain, {.rank = 1, .world_size = 3, .master_addr = "127.0.1.1", .master_port = 30000}), 1, 3,
        "127.0.1.1", 30000);
  check(settings({}, {.rank = 0, .world_size = 2, .master_addr = "::1", .master_port = 1}), 0, 2, "::1", 1);
  check(settings(plain, {.rank = 3}), 3, 4, "127.0.0.1", 29500);
}

BOOST_AUTO_TEST_CASE(other_launchers_say_rank_and_size_in_their_own_words) {
  const InitOptions port{.master_port = 4000};
  check(settings({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}, port), 1, 2, "127.0.0.1", 4000);
  check(settings({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, port), 1, 2, "127.0.0.1", 4000);
  const Variables srun = {{"SLURM_STEP_NODELIST", "n1"}, {"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"}};
  check(settings(srun, port), 3, 4, "127.0.0.1", 4000);
  // An allocation without srun starts one process, whatever SLURM_NTASKS says.
  BOOST_TEST(error_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}, port) ==
             "the rank of 'w' is given neither in the options nor by RANK");
  check(settings({{"JOB_COMPLETION_INDEX", "2"}, {"WORLD_SIZE", "3"}}, port), 2, 3, "127.0.0.1", 4000);
  Variables both = srun;
  both.insert({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  check(settings(both, port), 1, 2, "127.0.0.1", 4000);
}

BOOST_AUTO_TEST_CASE(the_port_that_torchruns_agent_has_taken_is_left_alone) {
  Variables torchrun = plain;
  torchrun["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  BOOST_TEST(settings(torchrun).master_port == 29501);
  BOOST_TEST(settings(torchrun, {.master_port = 29500}).master_port == 29500);
}

BOOST_AUTO_TEST_CASE(a_group_of_one_needs_no_port) {
  check(settings({}, {.rank = 0, .world_size = 1}), 0, 1, "127.0.0.1", 0);
}

BOOST_AUTO_TEST_CASE(what_is_missing_or_malformed_is_named) {
  auto without = [](const std::string& name) {
    Variables variables = plain;
    variables.erase(name);
    return error_of(variables);
  };
  BOOST_TEST(without("RANK") == "the rank of 'w' is given neither in the options nor by RANK");
  BOOST_TEST(without("WORLD_SIZE") == "the world size is given neither in the options nor by WORLD_SIZE");
  BOOST_TEST(without("MASTER_PORT") ==
             "the port at which rank 0 listens is given neither in the options (master_port) nor by MASTER_PORT");
  auto with = [](const std::string& name, const std::string& value) {
    Variables variables = plain;
    variables[name] = value;
    return error_of(variables);
  };
  BOOST_TEST(with("RANK", "two") == "the environment variable RANK must be a number, got 'two'");
  BOOST_TEST(with("WORLD_SIZE", "4x") == "the environment variable WORLD_SIZE must be a number, got '4x'");
  BOOST_TEST(with("RANK", "5") == "the rank (RANK) must be 0 to 3 in a group of world size (WORLD_SIZE) 4, got 5");
  BOOST_TEST(with("RANK", "-2") == "the rank (RANK) must be 0 to 3 in a group of world size (WORLD_SIZE) 4, got -2");
  BOOST_TEST(with("WORLD_SIZE", "0") == "the world size must be 1 to 4096, got 0");
  BOOST_TEST(with("MASTER_PORT", "65536") == "master_port (MASTER_PORT) must be 1 to 65535, got 65536");
  BOOST_TEST(with("MASTER_PORT", "0") == "master_port (MASTER_PORT) must be 1 to 65535, got 0");
  BOOST_TEST(error_of(plain, {.init_timeout = std::chrono::milliseconds(0)}) ==
             "init_timeout must be positive, got 0 ms");
}

BOOST_AUTO_TEST_CASE(addresses_that_others_can_reach_are_refused) {
  for (const std::string address : {"192.168.1.5", "0.0.0.0", "example.org", "::", "10.0.0.1"}) {
    const std::string text = error_of(plain, {.master_addr = address});
    BOOST_TEST(text.find("master_addr (MASTER_ADDR) '" + address + "' is refused: connections are not authenticated") ==
               0u);
  }
}

BOOST_AUTO_TEST_SUITE_END()
