#include "tendril/rpc/group/resolve.h"

#include <boost/asio/error.hpp>
#include <boost/test/unit_test.hpp>

#include "tendril/rpc/error.h"

BOOST_AUTO_TEST_SUITE(resolve)

using namespace tendril::rpc;
using namespace std::chrono_literals;
using boost::asio::ip::address;
using boost::asio::ip::make_address;
using boost::system::error_code;

namespace {
// Far in the future: no test depends on it.
Clock::time_point far_off() { return Clock::now() + 100s; }
}  // namespace

BOOST_AUTO_TEST_CASE(ip_address_needs_no_look_up) {
  const detail::LookUp none = [](const std::string&, error_code&) -> std::vector<address> {
    throw std::logic_error("looked up");
  };
  BOOST_TEST(detail::resolve("127.0.0.2", far_off(), "", none) == make_address("127.0.0.2"));
  BOOST_TEST(detail::resolve("::1", far_off(), "", none) == make_address("::1"));
}

BOOST_AUTO_TEST_CASE(resolve_waits_for_late_names) {
  int tries = 0;
  const detail::LookUp late = [&](const std::string& host, error_code& error) -> std::vector<address> {
    BOOST_TEST(host == "job-0.peers");
    if (++tries < 4) error = boost::asio::error::host_not_found;
    return tries < 4 ? std::vector<address>{} : std::vector<address>{make_address("127.0.0.3")};
  };
  BOOST_TEST(detail::resolve("job-0.peers", far_off(), "", late) == make_address("127.0.0.3"));
  BOOST_TEST(tries == 4);
}

BOOST_AUTO_TEST_CASE(first_ipv4_address_is_preferred) {
  const detail::LookUp several = [](const std::string&, error_code&) {
    return std::vector<address>{make_address("::1"), make_address("127.0.0.4"), make_address("127.0.0.5")};
  };
  BOOST_TEST(detail::resolve("h", far_off(), "", several) == make_address("127.0.0.4"));
  const detail::LookUp six = [](const std::string&, error_code&) { return std::vector<address>{make_address("::1")}; };
  BOOST_TEST(detail::resolve("h", far_off(), "", six) == make_address("::1"));
}

BOOST_AUTO_TEST_CASE(timeout_error_gives_host_reason_and_advice) {
  const detail::LookUp never = [](const std::string&, error_code& error) {
    error = boost::asio::error::host_not_found;
    return std::vector<address>{};
  };
  try {
    detail::resolve("job-0.peers", Clock::now() + 100ms, "a `subdomain` is needed", never);
    BOOST_ERROR("no error");
  } catch (const TimeoutError& e) {
    BOOST_TEST(std::string(e.what()) ==
               "the host of rank 0, 'job-0.peers' (master_addr, MASTER_ADDR), has no address: Host not found "
               "(authoritative); a `subdomain` is needed");
  }
}

BOOST_AUTO_TEST_CASE(default_is_the_system_resolver) {
  BOOST_TEST(detail::resolve("localhost", far_off(), "").is_loopback());
}

BOOST_AUTO_TEST_SUITE_END()
