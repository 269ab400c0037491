// The addresses that workers listen on and dial.
#include "tendril/rpc/group/addresses.h"

#include <boost/test/unit_test.hpp>

#include "tendril/rpc/transport/network.h"
#include "tests/rpc/error_text.h"

BOOST_AUTO_TEST_SUITE(addresses)

using namespace tendril::rpc;
using namespace tendril::rpc::detail;
using tendril::test::contains;
using tendril::test::text_of_error;

namespace {

IpAddress ip(const char* text) { return boost::asio::ip::make_address(text); }

MeetingPoint point(const char* name, const char* address, bool has_credentials) {
  return {name, ip(address), has_credentials};
}

}  // namespace

BOOST_AUTO_TEST_CASE(groups_without_key_stay_on_loopback) {
  const std::string text = text_of_error([] { check_meeting_point(point("node1", "10.0.0.1", false)); });
  BOOST_TEST(contains(text, "master_addr (MASTER_ADDR) 'node1' is an address that other hosts can reach"));
  BOOST_TEST(contains(text, "Make one with `head -c 32 /dev/urandom > key; chmod 600 key`"));
  check_meeting_point(point("node1", "10.0.0.1", true));
  check_meeting_point(point("node1", "127.0.1.1", false));
  BOOST_CHECK_THROW(check_meeting_point(point("0.0.0.0", "0.0.0.0", true)), UsageError);
  BOOST_TEST(rendezvous_address(point("node1", "127.0.1.1", false)) == ip("127.0.1.1"));
  BOOST_TEST(listen_options(point("node1", "127.0.1.1", false), ip("127.0.0.1"), "").tcp_host == "127.0.0.1");
}

BOOST_AUTO_TEST_CASE(loopback_names_mean_this_host) {
  for (const char* name : {"127.0.0.1", "localhost", "::1"}) {
    const MeetingPoint here = point(name, name[0] == ':' ? "::1" : "127.0.0.1", true);
    BOOST_TEST(here.is_this_host_only());
    BOOST_TEST(rendezvous_address(here) == here.address);
    BOOST_TEST(listen_options(here, here.address, "").tcp_host == here.address.to_string());
  }
}

BOOST_AUTO_TEST_CASE(rank_0_may_listen_on_all_interfaces) {
  BOOST_TEST(rendezvous_address(point("node1", "127.0.1.1", true)) == ip("0.0.0.0"));  // /etc/hosts
  BOOST_TEST(rendezvous_address(point("service", "203.0.113.1", true)) == ip("0.0.0.0"));
  BOOST_TEST(rendezvous_address(point("service", "2001:db8::1", true)) == ip("::"));
  const auto listen = rank_0_listen_options(point("node1", "127.0.1.1", true), 5);
  BOOST_TEST(listen.tcp_host == "0.0.0.0");
  BOOST_TEST(listen.advertised_host == "127.0.0.1");  // other workers take it for rank 0's host
  BOOST_TEST(listen.tcp_port == 5);
  BOOST_TEST(rank_0_listen_options(point("node1", "127.0.1.1", false), 5).advertised_host == "");
  BOOST_TEST(network().is_of_this_host(ip("127.0.0.1")));
  BOOST_TEST(!network().is_of_this_host(ip("203.0.113.1")));
}

BOOST_AUTO_TEST_CASE(worker_listens_on_interface_towards_rank_0) {
  const MeetingPoint there = point("node1", "10.0.0.1", true);
  const Agent::ListenOptions far = listen_options(there, ip("10.0.0.7"), "");
  BOOST_TEST(far.tcp_host == "10.0.0.7");
  BOOST_TEST(far.advertised_host == "");
  // On rank 0's host, over loopback.
  const Agent::ListenOptions near = listen_options(there, ip("127.0.0.1"), "");
  BOOST_TEST(near.tcp_host == "0.0.0.0");
  BOOST_TEST(near.advertised_host == "127.0.0.1");
}

BOOST_AUTO_TEST_CASE(advertised_loopback_means_host_of_rank_0) {
  const auto dialled = [](const char* said, const char* master) {
    return dialled_endpoint(Agent::Endpoint::parse(said), ip(master)).to_string();
  };
  BOOST_TEST(dialled("unix:/x,tcp:127.0.0.1:5", "10.0.0.1") == "unix:/x,tcp:10.0.0.1:5");
  BOOST_TEST(dialled("tcp:127.0.0.1:5", "127.0.0.1") == "tcp:127.0.0.1:5");
  BOOST_TEST(dialled("tcp:10.0.0.9:5", "10.0.0.1") == "tcp:10.0.0.9:5");
  BOOST_TEST(dialled("unix:/x", "10.0.0.1") == "unix:/x");
}

BOOST_AUTO_TEST_CASE(interface_option_selects_the_address) {
  BOOST_TEST(interface_address("lo").is_loopback());
  const std::string text = text_of_error([] { interface_address("no-such"); });
  BOOST_TEST(contains(text, "the network interface 'no-such' (interface, TENDRIL_SOCKET_IFNAME) does not exist"));
  BOOST_TEST(contains(text, "interfaces of this host: "));
  BOOST_TEST(contains(text, "lo"));
  const MeetingPoint there = point("node1", "10.0.0.1", true);
  BOOST_TEST(listen_options(there, ip("10.0.0.7"), "lo").tcp_host == interface_address("lo").to_string());
}

BOOST_AUTO_TEST_SUITE_END()
