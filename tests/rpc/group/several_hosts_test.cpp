// Groups on several hosts, which are network namespaces of this one (hosts.sh). Skipped if namespaces are not allowed.
#include <boost/test/unit_test.hpp>
#include <string>

#include "tests/contains.h"
#include "tests/rpc/hosts.h"

BOOST_AUTO_TEST_SUITE(several_hosts)

using tendril::test::contains;
using tendril::test::KeyFile;

/// Returns the output of four workers on three hosts, or "" if this machine does not allow namespaces.
std::string run(const std::string& master, const std::string& keys, const std::string& scenario = "member",
                const std::string& partition = "", const std::string& cut_off = "node2") {
  const std::string program = contains(scenario, "partition") ? "/partition_scenarios" : "/group_scenarios";
  return tendril::test::run_on_hosts({TENDRIL_TEST_PROGRAMS + program, scenario}, {master, keys, partition, cut_off});
}

std::string four_times(const std::string& key) { return key + "," + key + "," + key + "," + key; }

BOOST_AUTO_TEST_CASE(hosts_with_shared_key_call_each_other) {
  const KeyFile key;
  // By address, and by a name that resolves to loopback on its own host, where two of the workers are.
  for (const char* master : {"10.7.0.1", "node1"}) {
    const std::string said = run(master, four_times(key.path));
    if (said.empty()) return;
    for (const char* line : {"w0: no error\n", "w1: no error\n", "w2: no error\n", "w3: no error\n"})
      BOOST_TEST(contains(said, line), master << ": " << said);
  }
}

BOOST_AUTO_TEST_CASE(worker_with_another_key_is_refused) {
  const KeyFile key, other;
  std::string keys(key.path);
  keys.append(",").append(key.path).append(",").append(other.path).append(",").append(key.path);
  const std::string said = run("10.7.0.1", keys);
  if (said.empty()) return;
  BOOST_TEST(contains(said,
                      "w2: error: init_rpc ('w2', rank 2): rank 0 at 10.7.0.1:29500: the other side does not hold "
                      "this worker's key (the key file '" +
                          std::string(other.path)),
             said);
  BOOST_TEST(contains(said,
                      "have not joined: rank 2 (of world size 4); refused: a connection from 10.7.0.3: the other side "
                      "does not hold this worker's key"),
             said);
}

BOOST_AUTO_TEST_CASE(error_without_key_explains_the_remedy) {
  const std::string said = run("10.7.0.1", four_times("-"));
  if (said.empty()) return;
  for (const char* who : {"w0", "w1", "w2", "w3"}) BOOST_TEST(contains(said, who), said);
  BOOST_TEST(contains(said, "head -c 32 /dev/urandom > key; chmod 600 key"), said);
  BOOST_TEST(!contains(said, "no error"), said);
}

BOOST_AUTO_TEST_CASE(short_partition_only_delays_calls) {
  const KeyFile key;
  const std::string said = run("10.7.0.1", four_times(key.path), "short_partition", "2");
  if (said.empty()) return;
  for (const char* line : {"w0: no error\n", "w1: no error\n", "w2: no error\n", "w3: no error\n"})
    BOOST_TEST(contains(said, line), said);
}

BOOST_AUTO_TEST_CASE(long_partition_fails_calls_of_lost_worker) {
  const KeyFile key;
  const std::string said = run("10.7.0.1", four_times(key.path), "long_partition", "60");
  if (said.empty()) return;
  for (const char* who : {"w0", "w1", "w2", "w3"}) {
    const std::string name(who), other(name == "w1" ? "w0" : "w1");
    BOOST_TEST(
        contains(said, name + " calls: PeerLostError (may have run): call of partition_scenarios::count: worker '" +
                           other + "'"),
        said);
    BOOST_TEST(contains(said, name + ": no error\n"), said);
    if (name == "w1") continue;
    BOOST_TEST(contains(said, name + " meets: "), said);
    BOOST_TEST(!contains(said, name + " meets: no error"), said);
    BOOST_TEST(contains(said, name + " calls others: no error\n"), said);
  }
  BOOST_TEST(contains(said.substr(said.find("w0 meets: ")), "w1"), said);
}

BOOST_AUTO_TEST_CASE(unplugged_worker_fails_init_rpc) {
  const KeyFile key;
  const std::string said = run("10.7.0.1", four_times(key.path), "joining_partition", "60");
  if (said.empty()) return;
  for (const char* line : {"w0 joins: TimeoutError: ", "w1 joins: PeerLostError", "w2 joins: TimeoutError: ",
                           "w0: no error\n", "w1: no error\n", "w2: no error\n", "w3: no error\n"})
    BOOST_TEST(contains(said, line), said);
  for (const char* who : {"w0", "w2"}) {
    const std::string line = said.substr(said.find(std::string(who) + " joins: "));
    BOOST_TEST(contains(line.substr(0, line.find('\n')),
                        "have not joined: rank 1, rank 3 (of world size 4); lost: worker 'w1' (rank 1): it has given "
                        "no sign of life"),
               said);
  }
}

BOOST_AUTO_TEST_CASE(idle_group_notices_unplugged_host) {
  const KeyFile key;
  const std::string said = run("10.7.0.1", four_times(key.path), "idle_partition", "60");
  if (said.empty()) return;
  for (const char* line :
       {"w0 sees w1 lost\n", "w2 sees w1 lost\n", "w3 sees w1 lost\n", "w1 waits: PeerLostError",
        "w2 holds nothing for others\n", "w0: no error\n", "w1: no error\n", "w2: no error\n", "w3: no error\n"})
    BOOST_TEST(contains(said, line), said);
}

BOOST_AUTO_TEST_CASE(shutdown_names_unplugged_worker) {
  const KeyFile key;
  const std::string said = run("10.7.0.1", four_times(key.path), "shutdown_in_partition", "60");
  if (said.empty()) return;
  for (const char* who : {"w0", "w1", "w2", "w3"}) {
    const std::string line = said.substr(said.find(std::string(who) + " leaves: "));
    BOOST_TEST(contains(line.substr(0, line.find('\n')), who == std::string("w1") ? "rank 0 is gone" : "'w1'"), said);
    BOOST_TEST(contains(said, std::string(who) + ": no error\n"), said);
  }
}

BOOST_AUTO_TEST_CASE(hosts_reconnect_after_partial_partition) {
  const KeyFile key;
  const std::string said = run("10.7.0.1", four_times(key.path), "partial_partition", "60", "node2 from node3");
  if (said.empty()) return;
  for (const char* who : {"w0", "w1", "w2", "w3"}) {
    for (const char* callee : {"w0", "w1", "w2", "w3"})
      BOOST_TEST(contains(said, std::string(who) + " calls " + callee + ": no error\n"), said);
    BOOST_TEST(contains(said, std::string(who) + ": no error\n"), said);
  }
  for (const char* line : {"w1 calls: PeerLostError (may have run)", "w2 calls: PeerLostError (may have run)",
                           "w1 fetches: PeerLostError"})
    BOOST_TEST(contains(said, line), said);
}

BOOST_AUTO_TEST_SUITE_END()
