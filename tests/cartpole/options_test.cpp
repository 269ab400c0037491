#include "options.h"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/decimal_comma.h"
#include "tests/temporary_folder.h"

using cartpole::Options;

namespace {

struct Parsed {
  std::optional<Options> options;
  int status = 0;
};

Parsed parse(const std::vector<const char*>& arguments) {
  std::vector<const char*> argv = {"cartpole"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  Parsed result;
  result.options = cartpole::parse_options(static_cast<int>(argv.size()), argv.data(), result.status);
  return result;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(options)

BOOST_AUTO_TEST_CASE(the_defaults_are_those_of_the_tutorial_with_two_observers) {
  const auto options = parse({}).options.value();
  BOOST_TEST(options.world_size == 3);
  BOOST_TEST(options.gamma == 0.99);
  BOOST_TEST(options.seed == 543);
  BOOST_TEST(options.log_interval == 10);
  BOOST_TEST(options.steps_per_call == 1);
  BOOST_TEST(options.device == "cpu");
  BOOST_TEST(options.launch.rank == -1);
  BOOST_TEST(options.launch.world_size == -1);
  BOOST_TEST(options.launch.default_world_size == 3);
}

BOOST_AUTO_TEST_CASE(the_world_size_is_shown_as_a_launcher_says_it) {
  setenv("PMI_RANK", "0", 1);
  setenv("PMI_SIZE", "7", 1);
  const auto started = parse({}).options, told = parse({"--world-size", "4"}).options;
  unsetenv("PMI_RANK");
  unsetenv("PMI_SIZE");
  BOOST_TEST(started.value().world_size == 7);
  BOOST_TEST(started.value().effective.starts_with("world-size=7\n"));
  BOOST_TEST(started.value().launch.world_size == -1);
  BOOST_TEST(told.value().launch.world_size == 4);  // which rpc::launch refuses
}

BOOST_AUTO_TEST_CASE(flags_may_be_spelled_with_underscores) {
  const auto options =
      parse({"--world_size", "4", "--log_interval=7", "--steps_per_call", "8", "--curve=a_b"}).options.value();
  BOOST_TEST(options.world_size == 4);
  BOOST_TEST(options.log_interval == 7);
  BOOST_TEST(options.steps_per_call == 8);
  BOOST_TEST(options.curve == "a_b");
}

BOOST_AUTO_TEST_CASE(flags_do_not_depend_on_the_locale,
                     *boost::unit_test::precondition(tendril::testing::DecimalComma::possible)) {
  const tendril::testing::DecimalComma comma;
  BOOST_TEST(parse({"--gamma", "0.5"}).options.value().gamma == 0.5);
}

BOOST_AUTO_TEST_CASE(a_rank_that_is_started_by_hand_can_say_where_to_meet) {
  const auto options =
      parse({"--rank", "1", "--world_size", "5", "--master_addr", "127.0.0.2", "--master-port=1234"}).options.value();
  BOOST_TEST(options.launch.rank == 1);
  BOOST_TEST(options.launch.world_size == 5);
  BOOST_TEST(options.launch.master_addr == "127.0.0.2");
  BOOST_TEST(options.launch.master_port == 1234);
}

BOOST_AUTO_TEST_CASE(a_flag_comes_from_the_command_line_else_the_environment_else_a_file_else_the_default) {
  const tendril::testing::TemporaryFolder folder;
  const std::string file = folder.path() / "flags.toml";
  std::ofstream(file) << "seed = 1\nlog-interval = 2\nepisodes = 3\n";
  setenv("CARTPOLE_SEED", "4", 1);
  setenv("CARTPOLE_LOG_INTERVAL", "5", 1);
  const auto options = parse({"--config", file.c_str(), "--seed", "6"}).options.value();
  setenv("CARTPOLE_SEED", "x", 1);
  const Parsed wrong = parse({});
  unsetenv("CARTPOLE_SEED");
  unsetenv("CARTPOLE_LOG_INTERVAL");
  BOOST_TEST(options.seed == 6);
  BOOST_TEST(options.log_interval == 5);
  BOOST_TEST(options.episodes == 3);
  BOOST_TEST(options.gamma == 0.99);
  BOOST_TEST(!wrong.options.has_value());
}

BOOST_AUTO_TEST_CASE(a_file_of_flags_that_is_not_there_or_has_unknown_ones_is_refused) {
  const tendril::testing::TemporaryFolder folder;
  const std::string file = folder.path() / "flags.toml";
  BOOST_TEST(!parse({"--config", file.c_str()}).options.has_value());
  std::ofstream(file) << "sede = 1\n";
  BOOST_TEST(!parse({"--config", file.c_str()}).options.has_value());
}

BOOST_AUTO_TEST_CASE(wrong_flags_are_refused) {
  const std::vector<std::vector<const char*>> wrong = {
      {"--world-size", "0"},   {"--world-size", "two"},    {"--world-size"},        {"--gamma", "1"},
      {"--gamma", "-0.1"},     {"--gamma", "nan"},         {"--seed", "-1"},        {"--seed", "1.5"},
      {"--log-interval", "0"}, {"--steps-per-call", "0"},  {"--episodes", "-1"},    {"--rank", "x"},
      {"--rank", "-1"},        {"--master-port", "65536"}, {"--no-such-flag"},      {"stray"},
      {"--device", "gpu"},     {"--device", "cuda:"},      {"--device", "cuda:1x"}, {"--device", "cuda:128"}};
  for (const auto& arguments : wrong) {
    const Parsed result = parse(arguments);
    BOOST_TEST(!result.options.has_value(), arguments.front());
    BOOST_TEST(result.status != 0, arguments.front());
  }
}

BOOST_AUTO_TEST_CASE(help_is_not_an_error) {
  const Parsed result = parse({"--help"});
  BOOST_TEST(!result.options.has_value());
  BOOST_TEST(result.status == 0);
}

BOOST_AUTO_TEST_SUITE_END()
