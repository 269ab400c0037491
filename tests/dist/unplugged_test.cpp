// Distributed autograd and collectives when a host is cut off from the network. Skipped if network namespaces are not
// allowed.
#include <boost/test/unit_test.hpp>
#include <string>

#include "tests/rpc/hosts.h"

BOOST_AUTO_TEST_SUITE(unplugged)

using tendril::test::contains;

BOOST_AUTO_TEST_CASE(unplugged_worker_fails_backward_and_collective) {
  const tendril::test::KeyFile key;
  const std::string path = key.path, keys = path + "," + path + "," + path + "," + path;
  const std::string said =
      tendril::test::run_on_hosts({TENDRIL_TEST_PROGRAMS "/dist_scenarios", "unplugged"}, {"10.7.0.1", keys, "60"});
  if (said.empty()) return;
  for (const char* start : {"w0 backward: ", "w0 reduces: ", "w1 reduces: ", "w2 reduces: ", "w3 reduces: "}) {
    const std::string line = said.substr(said.find(start)), outcome = line.substr(0, line.find('\n'));
    BOOST_TEST(contains(outcome, "PeerLostError"), said);
    if (start[1] != '1') BOOST_TEST(contains(outcome, "worker 'w1'"), said);
  }
  for (const char* line : {"w0: no error\n", "w1: no error\n", "w2: no error\n", "w3: no error\n"})
    BOOST_TEST(contains(said, line), said);
}

BOOST_AUTO_TEST_SUITE_END()
