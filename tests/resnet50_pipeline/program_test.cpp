// Runs the real program, with real processes.
#include <algorithm>
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

/// The text behind the flags, with its times left out.
std::string without_times(const std::string& text) {
  std::istringstream in(text.substr(std::min(text.find("Processing"), text.size())));
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

BOOST_AUTO_TEST_CASE(the_graph_of_a_batch_is_drawn_with_a_part_for_each_worker) {
  const Result result = run("--schedule by-hand --micro-batches 2 --batches 2 --batch-size 8 --graph out.dot");
  BOOST_TEST(result.status == 0, result.err);
  const std::string graph = tendril::test::read_file(folder / "out.dot");
  for (const char* part :
       {"rank 0: master\"", "rank 1: worker1\"", "rank 2: worker2\"", "Conv2dBackward", "s1_1 -> r1_1 [style=dashed]",
        "s1_2 -> r1_2 [style=dashed]", "s2_2 -> r2_2 [style=dashed]", "rank 0 starts\\l", "backward returns\\l"})
    BOOST_TEST(contains(graph, part), part);
  BOOST_TEST(contains(run("--micro-batches 2 --graph out.dot").err, "--graph: needs --schedule by-hand"));
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

namespace {

/// The losses that were printed.
std::vector<double> losses(const std::string& out) {
  std::vector<double> all;
  for (std::size_t at = 0; (at = out.find("  loss ", at)) != std::string::npos; ++at) {
    all.push_back(std::stod(out.substr(at + 7)));
  }
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_flags_are_printed_first_with_what_other_flags_imply) {
  const Result result = run("--micro-batches 2 --batches 1");
  BOOST_TEST(result.status == 0);
  BOOST_TEST(result.out.rfind("Processing batch 0") > result.out.find("\nbatch-size=16\n"));
  BOOST_TEST(contains(result.out, "\nimage=32\n"));
  BOOST_TEST(contains(result.out, "\nclasses=10\n"));
  BOOST_TEST(result.out.find("schedule=\"1f1b\"") == result.out.rfind("schedule="));  // once
}

BOOST_AUTO_TEST_CASE(labels_that_are_brightnesses_are_learnt_from_cifar_files_by_a_schedule_and_by_hand) {
  std::string records;
  for (int i = 0; i < 20; ++i) records += static_cast<char>(i % 4) + std::string(3072, static_cast<char>(80 * (i % 4)));
  for (int i = 1; i <= 5; ++i) write("data_batch_" + std::to_string(i) + ".bin", records);
  write("test_batch.bin", records);
  for (const char* const schedule : {"1f1b", "by-hand"}) {
    const Result result =
        run(std::string("--data . --batch-size 20 --batches 12 --micro-batches 2 --schedule ") + schedule);
    BOOST_TEST(result.status == 0, result.err);
    const std::vector<double> all = losses(result.out);
    BOOST_TEST_REQUIRE(all.size() == 12u);  // twice and more through all images
    BOOST_TEST(all.front() > 1.5);          // ten classes
    // Of the best, as the last may be a step too far: which one is depends on how sums round.
    BOOST_TEST(*std::min_element(all.begin(), all.end()) < 0.5 * all.front());
    BOOST_TEST(contains(result.out, "trained on 240 images"));
  }
}

BOOST_AUTO_TEST_CASE(stages_that_compute_again_what_they_did_not_keep_have_the_same_losses) {
  std::string records;
  for (int i = 0; i < 20; ++i) records += static_cast<char>(i % 4) + std::string(3072, static_cast<char>(80 * (i % 4)));
  for (int i = 1; i <= 5; ++i) write("data_batch_" + std::to_string(i) + ".bin", records);
  write("test_batch.bin", records);
  const std::string flags = "--data . --batch-size 20 --batches 3 --micro-batches 2 ";
  const Result kept = run(flags), again = run(flags + "--recompute");
  BOOST_TEST(again.status == 0, again.err);
  BOOST_TEST(contains(again.out, "\nrecompute=true\n"), again.out);
  const std::vector<double> a = losses(kept.out), b = losses(again.out);
  BOOST_TEST_REQUIRE(a.size() == 3u);
  BOOST_TEST_REQUIRE(b.size() == 3u);
  for (std::size_t i = 0; i < 3; ++i) BOOST_TEST(b[i] == a[i], boost::test_tools::tolerance(1e-3));
}

BOOST_AUTO_TEST_CASE(images_that_are_not_there_or_too_few_end_the_program_with_a_clear_error) {
  write("train-images-idx3-ubyte", "no IDX");
  std::string records;
  for (int i = 0; i < 2; ++i) records += static_cast<char>(i) + std::string(3072, 'x');
  std::filesystem::create_directory(folder / "few");
  for (int i = 1; i <= 5; ++i) write("few/data_batch_" + std::to_string(i) + ".bin", records);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--data none", "--data: \"none\" is no folder with data_batch_1.bin (CIFAR-10)"},
      {"--data .", "is no IDX file"},
      {"--data few", "batch"},
      {"--data few --classes 5", "--classes: not beside --data"}};
  for (const auto& [flags, message] : cases) {
    const Result result = run("--micro-batches 2 " + flags);
    BOOST_TEST(result.status != 0);
    BOOST_TEST(contains(result.err, message), result.err);
    BOOST_TEST(!contains(result.out, "Processing"));
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
      {"--schedule by-hand --graph none/out.dot", "--graph: cannot write none/out.dot: No such file or directory"},
      {"--schedule by-hand --recompute", "--recompute: is of the stages of a schedule"},
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
