#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "tendril/rpc/shared_key.h"
#include "tests/contains.h"
#include "tests/rpc/process.h"
#include "tests/skip.h"

/// Groups on several hosts, which are namespaces of this machine (hosts.sh).
namespace tendril::test {

/// A file with a new random key.
struct KeyFile {
  KeyFile() {
    const int file = ::mkstemp(path);  // mode 0600
    const rpc::SharedKey key = rpc::SharedKey::random();
    BOOST_REQUIRE(::write(file, key.bytes().data(), key.bytes().size()) == 32);
    ::close(file);
  }
  ~KeyFile() { ::unlink(path); }
  KeyFile(const KeyFile&) = delete;
  KeyFile& operator=(const KeyFile&) = delete;

  char path[40] = "/tmp/tendril_key_test_XXXXXX";
};

/// Parameters of hosts.sh.
struct Hosts {
  std::string master, keys;
  std::string partition = "";     ///< HOSTS_PARTITION
  std::string cut_off = "node2";  ///< HOSTS_CUT
};

/// Runs `command` as four workers on three hosts and returns their output, or "" if this machine does not allow
/// namespaces.
inline std::string run_on_hosts(const std::vector<std::string>& command, const Hosts& hosts) {
  const auto path = [](const char* text) { return std::filesystem::path(text).lexically_normal().string(); };
  std::vector<std::string> arguments{"/bin/bash", path(TENDRIL_TEST_DATA "/../../rpc/hosts.sh"), hosts.master,
                                     hosts.keys};
  arguments.insert(arguments.end(), command.begin(), command.end());
  Process process(arguments, {"HOSTS_PARTITION=" + hosts.partition, "HOSTS_CUT=" + hosts.cut_off,
                              "HOSTS_BRIDGE=" + path(TENDRIL_TEST_PROGRAMS "/../rpc_programs/lossy_bridge")});
  std::string said = process.rest(std::chrono::seconds(150));
  if (process.wait().code == 77) {
    testing::skip_suite("users may not create network namespaces on this machine");
    return "";
  }
  if (contains(said, "network: no delay and no loss")) {
    BOOST_TEST_MESSAGE("delay and loss skipped: neither netem nor packet sockets are available");
  } else if (contains(said, "network: by bridge")) {  // the bridge counts frames
    const bool whole = hosts.partition.empty();
    BOOST_TEST(contains(said, " frames passed, "), said);
    BOOST_TEST(contains(said, " frames passed, 0 lost") == whole, said);
    BOOST_TEST(contains(said, " lost, 0 cut off") == (whole || hosts.cut_off != "node2"), said);
  } else {
    BOOST_TEST(contains(said, "network: by netem"), said);
  }
  return said;
}

}  // namespace tendril::test
