#include "options.h"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <string>
#include <vector>

using pipeline::Options;
using Sizes = std::vector<std::int64_t>;

namespace {

struct Parsed {
  std::optional<Options> options;
  int status = 0;
};

Parsed parse(const std::vector<const char*>& arguments) {
  std::vector<const char*> argv = {"resnet50_pipeline"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  Parsed result;
  result.options = pipeline::parse_options(static_cast<int>(argv.size()), argv.data(), result.status);
  return result;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(options)

BOOST_AUTO_TEST_CASE(the_defaults_are_the_tutorials) {
  const auto options = parse({}).options.value();
  BOOST_TEST(options.batch_size == 120);
  BOOST_TEST(options.batches == 3);
  BOOST_TEST(options.image == 128);
  BOOST_TEST(options.network.classes == 1000);
  BOOST_TEST(options.network.base == 64);
  BOOST_TEST((options.network.blocks == std::array<std::int64_t, 4>{3, 4, 6, 3}));
  BOOST_TEST(options.launch.rank == -1);
  BOOST_TEST(options.launch.world_size == 3);
  BOOST_TEST(options.schedule == "1f1b");
  BOOST_TEST(options.workers == 2);
  BOOST_REQUIRE(options.runs.size() == 4u);
  BOOST_TEST(options.runs[0] == Sizes{120}, boost::test_tools::per_element());
  BOOST_TEST(options.runs[1] == Sizes(2, 60), boost::test_tools::per_element());
  BOOST_TEST(options.runs[2] == Sizes(4, 30), boost::test_tools::per_element());
  BOOST_TEST(options.runs[3] == Sizes(8, 15), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(micro_batches_are_a_number_and_their_size_is_a_size) {
  auto options = parse({"--micro-batches", "8", "--batch_size=120"}).options.value();
  BOOST_TEST(options.runs.at(0) == Sizes(8, 15), boost::test_tools::per_element());
  options = parse({"--micro_batch_size", "8", "--batch-size", "120"}).options.value();
  BOOST_TEST(options.runs.at(0) == Sizes(15, 8), boost::test_tools::per_element());
  BOOST_TEST(parse({"--micro-batches", "1", "5", "--batches", "2"}).options.value().runs.size() == 2u);
}

BOOST_AUTO_TEST_CASE(a_remainder_is_spread_over_a_number_and_left_to_the_last_of_a_size) {
  BOOST_TEST(pipeline::split_into(10, 4) == (Sizes{3, 3, 2, 2}), boost::test_tools::per_element());
  BOOST_TEST(pipeline::split_into(3, 3) == (Sizes{1, 1, 1}), boost::test_tools::per_element());
  BOOST_TEST(pipeline::split_by(10, 4) == (Sizes{4, 4, 2}), boost::test_tools::per_element());
  BOOST_TEST(pipeline::split_by(8, 4) == (Sizes{4, 4}), boost::test_tools::per_element());
  BOOST_TEST(pipeline::split_by(3, 3) == (Sizes{3}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(tiny_changes_what_no_flag_says) {
  auto options = parse({"--tiny"}).options.value();
  BOOST_TEST(options.network.base == 8);
  BOOST_TEST(options.image == 32);
  BOOST_TEST(options.batch_size == 16);
  BOOST_TEST(options.network.classes == 10);
  BOOST_TEST(options.batches == 3);
  options = parse({"--tiny", "--image", "48", "--classes", "7"}).options.value();
  BOOST_TEST(options.image == 48);
  BOOST_TEST(options.network.classes == 7);
  BOOST_TEST(options.network.base == 8);
}

BOOST_AUTO_TEST_CASE(interleaved_runs_are_those_of_the_usual_that_it_can_do) {
  const auto options = parse({"--schedule", "interleaved", "--workers", "4"}).options.value();
  BOOST_TEST(options.runs.size() == 2u);
  BOOST_TEST(options.launch.world_size == 5);
  BOOST_TEST(!parse({"--schedule", "interleaved", "--workers", "3"}).options.has_value());
}

BOOST_AUTO_TEST_CASE(a_rank_that_is_started_by_hand_can_say_where_to_meet) {
  const auto options = parse({"--rank", "1", "--master_addr", "127.0.0.2", "--master-port=1234"}).options.value();
  BOOST_TEST(options.launch.rank == 1);
  BOOST_TEST(options.launch.master_addr == "127.0.0.2");
  BOOST_TEST(options.launch.master_port == 1234);
}

BOOST_AUTO_TEST_CASE(wrong_flags_are_refused) {
  const std::vector<std::vector<const char*>> wrong = {
      {"--micro-batches", "0"},
      {"--micro-batches", "121"},
      {"--micro-batches", "two"},
      {"--micro-batch-size", "0"},
      {"--micro-batch-size", "121"},
      {"--batch-size", "1000000000", "--micro-batch-size", "100"},
      {"--micro-batches", "2", "--micro-batch-size", "60"},
      {"--tiny", "--micro-batches", "16"},                         // one pixel of one image
      {"--tiny", "--batch-size", "5", "--micro-batch-size", "2"},  // likewise, the last
      {"--batch-size", "0"},
      {"--image", "0"},
      {"--classes", "-1"},
      {"--threads", "-1"},
      {"--seed", "-1"},
      {"--rank", "x"},
      {"--device", "gpu"},
      {"--master-port", "0"},
      {"--schedule", ""},
      {"--workers", "-1"},
      {"--stages-per-worker", "0"},
      {"--no-such-flag"},
      {"stray"}};
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
