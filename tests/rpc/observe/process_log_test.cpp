// The lines that a process logs to stderr, depending on TENDRIL_LOG.
#include <boost/test/unit_test.hpp>
#include <regex>

#include "tests/rpc/process.h"

BOOST_AUTO_TEST_SUITE(process_log)

using namespace tendril;
using test::Process;

namespace {

/// Returns everything that a worker logs while it joins, calls itself and leaves. Times are replaced by T, process ids
/// by P.
std::string said(std::vector<std::string> variables) {
  Process process({"/bin/sh", "-c", "exec " TENDRIL_TEST_PROGRAMS "/status_worker alone 2>&1"}, std::move(variables));
  const std::string process_text = "[" + std::to_string(process.pid()) + "]";
  std::string text = process.rest();
  BOOST_TEST(process.wait().code == 0);
  text = std::regex_replace(text, std::regex(R"(\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\])"), "[T]");
  for (std::size_t at; (at = text.find(process_text)) != text.npos;) text.replace(at, process_text.size(), "[P]");
  return text;
}

const std::string no_trace = "TENDRIL_TRACE=/no/such/folder/trace.json";
const std::string trace_text =
    "rpc: worker 'solo' records no trace: /no/such/folder/trace.json: No such file or directory\n";

}  // namespace

BOOST_AUTO_TEST_CASE(only_bare_warnings_are_logged_by_default) {
  BOOST_TEST(said({}) == "");
  BOOST_TEST(said({no_trace}) == trace_text);
}

BOOST_AUTO_TEST_CASE(variable_sets_level_and_adds_prefix) {
  BOOST_TEST(said({no_trace, "TENDRIL_LOG=off"}) == "");
  BOOST_TEST(said({no_trace, "TENDRIL_LOG=error"}) == "");
  BOOST_TEST(said({no_trace, "TENDRIL_LOG=warn"}) == "[T] [P] [warning] [solo] " + trace_text);
  const std::string phases =
      "[T] [P] [info] [solo] rpc: worker 'solo' has joined its group as rank 0 of 1\n"
      "[T] [P] [info] [solo] rpc: worker 'solo' shuts down and waits for the other workers\n"
      "[T] [P] [info] [solo] rpc: worker 'solo' waits for calls that are still open\n"
      "[T] [P] [info] [solo] rpc: worker 'solo' releases its references\n"
      "[T] [P] [info] [solo] rpc: worker 'solo' has left its group\n";
  BOOST_TEST(said({"TENDRIL_LOG=info"}) == phases);
  const std::string all = said({"TENDRIL_LOG=debug"});
  BOOST_TEST(all.starts_with("[T] [P] [debug] [solo] rpc: worker 'solo' listens at "), all);
  BOOST_TEST(all.ends_with(phases), all);
}

BOOST_AUTO_TEST_CASE(unknown_level_is_reported_and_ignored) {
  BOOST_TEST(said({no_trace, "TENDRIL_LOG=loud"}) ==
             "[T] [P] [warning] TENDRIL_LOG is 'loud', expected off, error, warn, info or debug\n"
             "[T] [P] [warning] [solo] " +
                 trace_text);
}

BOOST_AUTO_TEST_SUITE_END()
