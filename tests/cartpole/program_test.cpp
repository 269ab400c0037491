// Runs the real program, with real processes.
#include <boost/test/unit_test.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/example_program.h"
#include "tests/rpc/reserved_port.h"

namespace fs = std::filesystem;
using tendril::test::contains;
using tendril::test::read_file;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

struct Program : tendril::test::ExampleProgram {
  // The rewards of the learning curve.
  std::vector<std::string> rewards() const {
    std::vector<std::string> column;
    for (const std::string& line : lines_of(read_file(folder / "out/cartpole.csv"))) {
      const auto first = line.find(',') + 1;
      column.push_back(line.substr(first, line.find(',', first) - first));
    }
    return column;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(program, Program)

BOOST_AUTO_TEST_CASE(every_world_size_trains_reports_and_leaves_a_curve) {
  for (const char* world_size : {"1", "2", "3"}) {
    BOOST_TEST_CONTEXT("world size " << world_size) {
      const Result result = run(std::string("--episodes 4 --log-interval 2 --world-size ") + world_size);
      BOOST_TEST(result.status == 0);
      BOOST_TEST(result.err == "");
      BOOST_TEST(contains(result.out, "\nepisodes=4\n"));  // first of all come the flags
      const auto lines = lines_of(result.out.substr(std::min(result.out.find("Episode"), result.out.size())));
      BOOST_REQUIRE(lines.size() > 4);
      BOOST_TEST(lines[0].rfind("Episode 2\tLast reward: ", 0) == 0U);
      BOOST_TEST(contains(lines[0], "\tAverage reward: "));
      BOOST_TEST(lines[1].rfind("Episode 4\tLast reward: ", 0) == 0U);
      BOOST_TEST(lines[2].rfind("Not solved", 0) == 0U);
      BOOST_TEST(contains(result.out, "environment steps/s"));
      BOOST_TEST(contains(result.out, "RPCs/s") == (world_size[0] != '1'));
      BOOST_TEST(contains(result.out, "call latency") == (world_size[0] != '1'));
      BOOST_TEST(contains(result.out, (folder / "out/cartpole.svg").string()));
      BOOST_TEST(contains(result.out, (folder / "out/cartpole.csv").string()));
      BOOST_TEST(lines_of(read_file(folder / "out/cartpole.csv")).size() == 5U);
      BOOST_TEST(contains(read_file(folder / "out/cartpole.svg"), "</svg>"));
      fs::remove_all(folder / "out");
    }
  }
}

BOOST_AUTO_TEST_CASE(the_task_is_solved) {
  const Result result = run("--world-size 1 --seed 1 --episodes 1000");
  BOOST_TEST(result.status == 0);
  const std::string solved = "Solved! Running reward is now ";
  const std::size_t at = result.out.find(solved);
  BOOST_REQUIRE(at != std::string::npos);
  BOOST_TEST(std::stod(result.out.substr(at + solved.size())) > 475);
  BOOST_TEST(contains(result.out, "time to solve"));
}

BOOST_AUTO_TEST_CASE(a_seed_repeats_the_training_however_processes_are_timed) {
  BOOST_TEST(run("--episodes 60 --seed 7").status == 0);
  const auto first = rewards();
  BOOST_TEST(run("--episodes 60 --seed 7").status == 0);
  BOOST_TEST(rewards() == first, boost::test_tools::per_element());
  BOOST_TEST(run("--episodes 60 --seed 8").status == 0);
  BOOST_TEST((rewards() != first));
}

BOOST_AUTO_TEST_CASE(several_environments_share_a_call) {
  for (const char* world_size : {"1", "3"}) {
    const Result result = run(std::string("--episodes 3 --steps-per-call 5 --world-size ") + world_size);
    BOOST_TEST(result.status == 0);
    BOOST_TEST(contains(result.out, "Not solved"));
  }
}

BOOST_AUTO_TEST_CASE(the_ranks_can_be_started_by_hand) {
  const tendril::test::ReservedPort reserved;
  const std::string port = std::to_string(reserved.number());
  const std::string common = "--episodes 2 --log-interval 1 --world-size 3 --master-port " + port;
  const Result result = shell(program("--rank 1 " + common) + " & " + "WORLD_SIZE=3 RANK=2 MASTER_PORT=" + port + " " +
                              program("") + " & " + program("--rank 0 " + common) + "; status=$?; wait; exit $status");
  BOOST_TEST(result.status == 0);
  BOOST_TEST(contains(result.out, "Episode 2\t"));
  BOOST_TEST(result.err == "");
}

BOOST_AUTO_TEST_CASE(wrong_flags_end_the_program_with_a_clear_error) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--world-size 0", "--world-size: expected an integer from 1 to 1000, got 0"},
      {"--gamma 2", "--gamma: expected a number from 0 to below 1, got 2"},
      {"--rank 3 --world-size 3", "the rank must be 0 to 2 in a group of world size 3, got 3"},
      {"--device gpu", "--device: expected cpu, cuda or cuda:N, got gpu"},
      {"--curve /dev/null/curve", "--curve: cannot write /dev/null/curve.csv: Not a directory"},
      {"--curve folder/curve", "--curve: cannot write folder/curve.svg: Is a directory"},
      {"--speed 9", "--speed"}};
  fs::create_directories(folder / "folder/curve.svg");
  for (const auto& [flags, message] : cases) {
    const Result result = run(flags);
    BOOST_TEST(result.status != 0);
    BOOST_TEST(contains(result.err, message), result.err);
    BOOST_TEST(result.out == "");
  }
}

BOOST_AUTO_TEST_CASE(a_run_that_ends_before_it_has_a_curve_leaves_no_file) {
  BOOST_TEST(run("--rank 3 --world-size 3 --curve new/curve").status != 0);
  BOOST_TEST(!fs::exists(folder / "new"));
  BOOST_TEST(run("--rank 3 --world-size 3").status != 0);
  BOOST_TEST(!fs::exists(folder / "out"));
}

BOOST_AUTO_TEST_CASE(a_rank_that_does_not_write_the_curve_may_lack_the_place_for_it) {
  BOOST_TEST(contains(run("--world-size 1 --rank 0 --curve /dev/null/curve").err, "--curve: cannot write"));
  const Result result = run("--world-size 1 --rank 1 --curve /dev/null/curve");
  BOOST_TEST(result.err == "error: rpc::launch: the rank must be 0 to 0 in a group of world size 1, got 1\n");
}

BOOST_AUTO_TEST_CASE(an_episode_of_the_policy_is_drawn_when_asked_for) {
  const Result result = run("--world-size 2 --episodes 1 --render");
  BOOST_TEST(result.status == 0);
  BOOST_TEST(contains(result.out, "step 0\n"));
  BOOST_TEST(contains(result.out, "\xE2\xA0\xA4"));  // the track
  BOOST_TEST(!contains(result.out, "\x1b"));
}

BOOST_AUTO_TEST_CASE(a_terminal_gets_a_live_line) {
  const Result result = shell("script -qec \"" + program("--world-size 1 --episodes 30") + "\" /dev/null");
  BOOST_TEST(result.status == 0);
  BOOST_TEST(contains(result.out, "\r\x1b[K["));
  BOOST_TEST(contains(result.out, "steps/s"));
  BOOST_TEST(contains(result.out, "Episode 30\t"));
}

BOOST_AUTO_TEST_CASE(a_device_that_is_not_there_is_an_error_before_any_worker_starts) {
  const Result result = run("--device cuda:127");
  BOOST_TEST(result.status == 2);
  BOOST_TEST(result.err.rfind("no CUDA device: --device cuda:127: ", 0) == 0u, result.err);
  BOOST_TEST(result.out == "");
}

BOOST_AUTO_TEST_CASE(its_processes_talk_under_tls_with_certificates_made_as_the_documentation_says) {
  if (shell("command -v openssl").status != 0) {
    BOOST_TEST_MESSAGE("skipped: there is no openssl command here");
    return;
  }
  const std::string page = read_file(fs::path(TENDRIL_TEST_DATA "/../../../docs/deploy.md").lexically_normal());
  const auto first = page.find("openssl req -x509");
  BOOST_REQUIRE(first != std::string::npos);
  std::string commands = page.substr(first, page.find("\n```", first) - first);
  const auto add_to = [&](const std::string& option, const std::string& more) {
    const auto at = commands.find(option);
    BOOST_REQUIRE(at != std::string::npos);
    commands.insert(at + option.size(), " " + more);
  };
  add_to("-subj \"/CN=obs1\"", "-addext \"subjectAltName=DNS:agent,DNS:observer1,DNS:observer2\"");
  add_to("-days 7", "-copy_extensions copy");
  const Result made = shell(commands);
  BOOST_TEST(made.status == 0, made.err);
  const Result result = shell(
      "export TENDRIL_TLS_CERTIFICATE_FILE=$PWD/worker.pem TENDRIL_TLS_PRIVATE_KEY_FILE=$PWD/worker.key "
      "TENDRIL_TLS_AUTHORITY_FILE=$PWD/authority.pem TENDRIL_TRANSPORT=tcp TENDRIL_LOG=info; " +
      program("--episodes 2 --world-size 3"));
  BOOST_TEST(result.status == 0, result.err);
  BOOST_TEST(contains(result.err, " over tls"), result.err);
  BOOST_TEST(!contains(result.err, " over tcp"), result.err);
  BOOST_TEST(!contains(result.err, " over unix"), result.err);
}

BOOST_AUTO_TEST_SUITE_END()
