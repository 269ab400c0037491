// timeout: 300
// Runs the real program, with real processes.
#include <boost/test/unit_test.hpp>
#include <sstream>
#include <string>

#include "tests/example_program.h"
#include "tests/rpc/reserved_port.h"

using tendril::test::contains;

namespace {

struct Program : tendril::test::ExampleProgram {
  static std::string program(const std::string& flags) {
    return ExampleProgram::program("--tiny --threads 1 " + flags);
  }
  Result run(const std::string& flags) const { return shell(program(flags)); }
};

/// The text with its times left out.
std::string without_times(const std::string& text) {
  std::istringstream in(text);
  std::string result;
  for (std::string line; std::getline(in, line);) {
    if (const auto at = line.find(" images in "); at != std::string::npos) line.resize(at + 7);
    if (const auto at = line.find("time = "); at != std::string::npos) line.resize(at + 6);
    result += line + "\n";
  }
  return result;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(program, Program)

BOOST_AUTO_TEST_CASE(gradients_and_a_step_equal_those_of_one_process) {
  const Result result = shell("timeout -k 5 250 '" TENDRIL_TEST_PROGRAMS "/one_step'");
  BOOST_TEST(result.status == 0);
  BOOST_TEST(result.out == "equal\n");
  BOOST_TEST(result.err == "");
}

BOOST_AUTO_TEST_CASE(each_number_of_micro_batches_is_a_group_of_its_own) {
  const Result result = run("--micro-batches 1 3 --batches 2 --batch-size 8");
  BOOST_TEST(result.status == 0);
  BOOST_TEST(result.err == "");
  BOOST_TEST(without_times(result.out) ==
             "Processing batch 0\nProcessing batch 1\ntrained on 16 images\nnumber of splits = 1, execution time =\n"
             "Processing batch 0\nProcessing batch 1\ntrained on 16 images\nnumber of splits = 3, execution time =\n");
}

BOOST_AUTO_TEST_CASE(every_schedule_trains_on_any_number_of_workers_and_reports) {
  for (const char* const flags : {"--schedule by-hand", "--schedule gpipe --workers 3", "--schedule 1f1b --workers 1",
                                  "--schedule interleaved --workers 2 --stages-per-worker 2"}) {
    const Result result = run(std::string("--micro-batches 4 --batches 1 --batch-size 9 --report ") + flags);
    BOOST_TEST(result.status == 0, flags);
    BOOST_TEST(result.err == "", flags << ": " << result.err);
    BOOST_TEST(contains(result.out, "trained on 9 images"));
    const bool by_hand = contains(flags, "by-hand");
    BOOST_TEST(contains(result.out, "the schedule alone") == !by_hand);
    BOOST_TEST(contains(result.out, "stage 0 on worker1: layers 0 to") == !by_hand);
    BOOST_TEST(contains(result.out, "stage 0 on worker1: busy") == !by_hand);
    BOOST_TEST(contains(result.out, "stage 2 on worker3") == contains(flags, "--workers 3"));
    BOOST_TEST(contains(result.out, "stage 3 on worker2") == contains(flags, "interleaved"));
  }
}

BOOST_AUTO_TEST_CASE(the_ranks_can_be_started_by_hand) {
  const tendril::test::ReservedPort port;
  const std::string common =
      "--batches 1 --batch-size 4 --micro-batches 1 2 --master-port " + std::to_string(port.number());
  const Result result = shell(program("--rank 1 " + common) + " & RANK=2 " + program(common) + " & " +
                              program("--rank 0 " + common) + "; status=$?; wait; exit $status");
  BOOST_TEST(result.status == 0);
  BOOST_TEST(result.err == "");
  BOOST_TEST(without_times(result.out) ==
             "Processing batch 0\ntrained on 4 images\nnumber of splits = 1, execution time =\n"
             "Processing batch 0\ntrained on 4 images\nnumber of splits = 2, execution time =\n");
}

BOOST_AUTO_TEST_CASE(wrong_flags_end_the_program_with_a_clear_error) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--micro-batches 17", "--micro-batches: expected at most the batch size 16, got 17"},
      {"--micro-batches 0", "--micro-batches: expected an integer from 1 to 1000000, got 0"},
      {"--micro-batches 16", "a batch of 16 in 16 leaves a micro-batch of one image"},
      {"--rank 3", "the rank must be 0 to 2 in a group of world size 3, got 3"},
      {"--micro-batches 2 --micro-batch-size 2", "--micro-batches excludes --micro-batch-size"},
      {"--device gpu", "--device: expected cpu, cuda or cuda:N, got gpu"},
      {"--schedule dreams", "--schedule"},
      {"--schedule by-hand --workers 3", "--workers: the form by hand has two, got 3"},
      {"--schedule interleaved --micro-batches 3", "expected a multiple of the number of workers, 2, got 3"},
      {"--workers 12", "the network has 11 layers, too few for 12 stages"},
      {"--workers 0", "--workers"},
      {"--speed 9", "--speed"}};
  for (const auto& [flags, message] : cases) {
    const Result result = run(flags);
    BOOST_TEST(result.status != 0);
    BOOST_TEST(contains(result.err, message), result.err);
    BOOST_TEST(result.out == "");
  }
}

BOOST_AUTO_TEST_CASE(a_device_that_is_not_there_is_an_error_before_any_worker_starts) {
  const Result result = run("--device cuda:127");
  BOOST_TEST(result.status == 2);
  BOOST_TEST(result.err.rfind("no CUDA device: --device cuda:127: ", 0) == 0u, result.err);
  BOOST_TEST(result.out == "");
}

BOOST_AUTO_TEST_SUITE_END()
