#include "tendril/rpc/group/addresses.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>
#include <cstring>
#include <memory>
#include <optional>
#include <set>

#include "tendril/rpc/error.h"
#include "tendril/rpc/system/system_failure.h"
#include "tendril/rpc/transport/network.h"
#include "tendril/rpc/transport/sockets.h"

namespace tendril::rpc::detail {

namespace asio = boost::asio;

namespace {

std::optional<IpAddress> literal(const std::string& text) {
  boost::system::error_code error;
  const auto address = asio::ip::make_address(text, error);
  return error ? std::nullopt : std::optional(address);
}

IpAddress everywhere(const IpAddress& like) {
  if (like.is_v6()) return asio::ip::address_v6::any();
  return asio::ip::address_v4::any();
}

IpAddress loopback(const IpAddress& like) {
  if (like.is_v6()) return asio::ip::address_v6::loopback();
  return asio::ip::address_v4::loopback();
}

}  // namespace

bool MeetingPoint::is_this_host_only() const {
  if (!has_credentials || name == "localhost") return true;
  const auto written = literal(name);
  return written && written->is_loopback();
}

void check_meeting_point(const MeetingPoint& point) {
  TENDRIL_CHECK_AS(UsageError, !point.address.is_unspecified(), "master_addr (MASTER_ADDR) '", point.name,
                   "' is not an address that other workers can dial, expected rank 0's address");
  TENDRIL_CHECK_AS(
      UsageError, point.address.is_loopback() || point.has_credentials, "master_addr (MASTER_ADDR) '", point.name,
      "' is an address that other hosts can reach, which requires a shared key or certificates. ", kHowToMakeAKey);
}

IpAddress rendezvous_address(const MeetingPoint& point) {
  if (point.is_this_host_only()) return point.address;
  return point.address.is_loopback() || !network().is_of_this_host(point.address) ? everywhere(point.address)
                                                                                  : point.address;
}

Agent::ListenOptions rank_0_listen_options(const MeetingPoint& point, uint16_t port) {
  const IpAddress address = rendezvous_address(point);
  Agent::ListenOptions options;
  options.tcp_host = address.to_string();
  options.tcp_port = port;
  if (address.is_unspecified()) options.advertised_host = loopback(address).to_string();
  return options;
}

Agent::ListenOptions listen_options(const MeetingPoint& point, const IpAddress& reached_by,
                                    const std::string& interface) {
  Agent::ListenOptions options;
  if (!interface.empty()) {
    options.tcp_host = interface_address(interface).to_string();
  } else if (reached_by.is_loopback() && !point.is_this_host_only()) {
    options.tcp_host = everywhere(reached_by).to_string();
    options.advertised_host = reached_by.to_string();
  } else {
    options.tcp_host = reached_by.to_string();
  }
  return options;
}

Agent::Endpoint dialled_endpoint(Agent::Endpoint endpoint, const IpAddress& master) {
  const auto said = literal(endpoint.tcp_host);
  if (endpoint.tcp_port != 0 && said && said->is_loopback() && !master.is_loopback()) {
    endpoint.tcp_host = master.to_string();
  }
  return endpoint;
}

IpAddress interface_address(const std::string& name) {
  ifaddrs* raw = nullptr;
  TENDRIL_CHECK_AS(UsageError, ::getifaddrs(&raw) == 0, "the network interfaces cannot be listed: ", last_error());
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(raw, &::freeifaddrs);
  std::optional<IpAddress> v4, v6;
  std::set<std::string> names;
  for (const ifaddrs* one = all.get(); one != nullptr; one = one->ifa_next) {
    names.insert(one->ifa_name);
    if (one->ifa_addr == nullptr || name != one->ifa_name || (one->ifa_flags & IFF_UP) == 0) continue;
    asio::ip::tcp::endpoint endpoint;
    if (one->ifa_addr->sa_family == AF_INET && !v4) {
      std::memcpy(endpoint.data(), one->ifa_addr, sizeof(sockaddr_in));
      v4 = endpoint.address();
    } else if (one->ifa_addr->sa_family == AF_INET6 && !v6) {
      endpoint = asio::ip::tcp::endpoint(asio::ip::tcp::v6(), 0);
      std::memcpy(endpoint.data(), one->ifa_addr, sizeof(sockaddr_in6));
      v6 = endpoint.address();
    }
  }
  std::string list;
  for (const std::string& one : names) list += (list.empty() ? "" : ", ") + one;
  TENDRIL_CHECK_AS(
      UsageError, v4 || v6, "the network interface '", name,
      "' (interface, TENDRIL_SOCKET_IFNAME) does not exist, is down or has no address; interfaces of this host: ",
      list);
  return v4 ? *v4 : *v6;
}

}  // namespace tendril::rpc::detail
