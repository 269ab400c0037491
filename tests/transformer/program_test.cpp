// Runs the real program.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/example_program.h"

using tendril::test::contains;
using tendril::test::read_file;

BOOST_AUTO_TEST_SUITE(program)

namespace {

struct Program : tendril::test::ExampleProgram {
  Program() { use_one_thread(); }

  /// A text that can be learnt by heart, with a character of two bytes.
  void write_poem() const {
    std::string poem;
    for (int i = 0; i < 60; ++i) poem += "a röse is a rose\n";
    write("poem", poem);
  }
  std::string small = "--text poem --layers 1 --embedding 16 --heads 2 --context 16 --batch-size 8 --lr 0.01 ";
};

double last_loss(const std::string& out) {
  const auto at = out.rfind("Held out: ");
  BOOST_TEST_REQUIRE(at != std::string::npos);
  return std::stod(out.substr(at + 10));
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(it_learns_a_text_and_writes_it, Program) {
  write_poem();
  const Result result =
      run(small + "--steps 200 --sample-every 100 --sample-length 34 --temperature 0 --prompt 'a r' --logdir runs");
  BOOST_TEST(result.status == 0, result.err);
  BOOST_TEST(result.err == "");  // no progress where there is no terminal
  BOOST_TEST(contains(result.out, "\nsteps=200\n"));
  BOOST_TEST(contains(result.out, " 9 different; "), result.out);
  BOOST_TEST(last_loss(result.out) < 0.3);
  BOOST_TEST(contains(result.out, "\na röse is a rose\na röse is a rose\n"), result.out);
  std::string events;
  for (const auto& file : std::filesystem::directory_iterator(folder / "runs")) events += read_file(file.path());
  for (const char* tag : {"brain.Event:2", "loss/train", "loss/kept", "sample/text_summary", "a röse is a rose"})
    BOOST_TEST(contains(events, tag), tag);
}

BOOST_FIXTURE_TEST_CASE(without_a_text_it_makes_sums, Program) {
  const Result result = run("--layers 1 --embedding 8 --heads 1 --context 8 --steps 2 --sample-length 2");
  BOOST_TEST(result.status == 0, result.err);
  BOOST_TEST(contains(result.out, " 13 different; "), result.out);  // digits, +, =, line end
}

BOOST_FIXTURE_TEST_CASE(a_run_that_was_stopped_and_went_on_ends_as_one_that_was_not, Program) {
  write_poem();
  const std::string flags = small + "--steps 800 --dropout 0.1 --sample-every 100 --sample-length 3 ";
  const Result whole = run(flags + "--checkpoint whole");
  BOOST_TEST(whole.status == 0, whole.err);
  const Result stopped = run_and_stop(flags + "--checkpoint part --resume auto", "^Step 100");
  BOOST_TEST(stopped.status == 0);
  BOOST_TEST(contains(stopped.out, "Stopped. --resume auto goes on from part\n"));
  const Result last = run(flags + "--checkpoint part --resume auto");
  BOOST_TEST(last.status == 0, last.err);
  BOOST_TEST((read_file(folder / "part") == read_file(folder / "whole")));
  BOOST_TEST(whole.out.substr(whole.out.find("Step 800")) == last.out.substr(last.out.find("Step 800")));
}

BOOST_FIXTURE_TEST_CASE(what_is_wrong_ends_the_program_with_a_clear_error, Program) {
  write_poem();
  write("short", "too short");
  write("bytes", std::string(4000, '\xff'));
  BOOST_TEST(run(small + "--steps 1 --sample-length 0 --checkpoint c").status == 0);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--text none", "none"},
      {"--text short", "the text has 9 characters; a tenth of it must be longer than the context, 64"},
      {"--text bytes", "UTF-8"},
      {"--embedding 10 --heads 4", "--embedding: expected a multiple of --heads = 4, got 10"},
      {"--dropout 1", "--dropout: expected"},
      {small + "--lr 1", "--lr: At Most 1 required but received 2"},
      {small + "--prompt Q", "Q"},
      {"--text poem --context 16 --checkpoint c --resume auto", "'model': "},
      {"--logdir poem", "--logdir: cannot write poem/events: Not a directory"},
      {"--checkpoint none/c", "--checkpoint: cannot write none/c: No such file or directory"}};
  for (const auto& [flags, message] : cases) {
    const Result result = run(flags);
    BOOST_TEST(result.status != 0, flags);
    BOOST_TEST(contains(result.err, message), flags << ": " << result.err);
  }
}

BOOST_AUTO_TEST_SUITE_END()
