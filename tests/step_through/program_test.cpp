#include <boost/test/unit_test.hpp>

#include "tests/example_program.h"

using tendril::test::contains;
using tendril::test::ExampleProgram;

BOOST_FIXTURE_TEST_SUITE(program, ExampleProgram)

BOOST_AUTO_TEST_CASE(each_graph_is_stepped_through_to_its_end) {
  for (const std::string graph : {"unused", "chain", "diamond"}) {
    const auto result = shell("echo run | " + program("--example " + graph));
    BOOST_TEST(result.status == 0);
    BOOST_TEST(result.err == "");
    BOOST_TEST(contains(result.out, "\n  rank 0: finish\nbackward returns\n"));
    BOOST_TEST(contains(result.out, "send mark") == (graph == "unused"));
  }
}

BOOST_AUTO_TEST_CASE(fast_waits_for_ever_where_a_result_is_not_used) {
  BOOST_TEST(contains(shell("echo run | " + program("--mode fast")).out, "FAST waits for ever"));
  BOOST_TEST(contains(shell("echo run | " + program("--mode fast --example chain")).out, "backward returns"));
}

BOOST_AUTO_TEST_CASE(steps_are_chosen_one_by_one) {
  // Rank 2's gradient comes before rank 1's, though rank 1's was sent first.
  const auto result = shell("printf 'next\\n2\\nnonsense\\n7\\n0\\nquit\\nrun\\n' | " + program("--example diamond"));
  BOOST_TEST(result.status == 0);
  BOOST_TEST(contains(result.out, "[2] rank 2 gets gradient 2.1 from rank 0"));
  BOOST_TEST(contains(result.out, "quit> rank 2 gets gradient 2.1 from rank 0\n  rank 2: run the graph\n"));
  for (const std::string wrong : {"nonsense", "7", "0"}) {
    BOOST_TEST(contains(result.out, "'" + wrong + "' is none of: next, run, quit, 1 to 2"));
  }
  BOOST_TEST(!contains(result.out, "backward returns"));
  BOOST_TEST(shell(program("")).status == 0);  // no input at all
}

BOOST_AUTO_TEST_CASE(a_page_holds_every_step) {
  BOOST_TEST(run("--html page.html").out == "page.html\n");
  const std::string page = tendril::test::read_file(folder / "page.html");
  BOOST_TEST(contains(page, "rank 1: send mark to rank 0: 0.2"));
  BOOST_TEST(contains(page, "\"end\":\"backward returns\""));
  BOOST_TEST(!contains(page, "http"));  // it needs no network; browser_test.cpp uses it
}

BOOST_AUTO_TEST_CASE(wrong_flags_are_refused) {
  BOOST_TEST(contains(run("--example tree").err, "--example"));
  BOOST_TEST(contains(run("--mode slow").err, "--mode"));
  const auto result = run("--html no/such/folder/page.html");
  BOOST_TEST(result.status != 0);
  BOOST_TEST(contains(result.err, "--html: cannot write no/such/folder/page.html: No such file or directory"));
}

BOOST_AUTO_TEST_SUITE_END()
