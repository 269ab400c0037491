#pragma once

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <string>

#include "tendril/rpc/agent.h"

/// The addresses that the workers of a group listen on and dial, if the group may span several hosts.
namespace tendril::rpc::detail {

using IpAddress = boost::asio::ip::address;

/// The address at which a group meets, as known before any connection has been made.
struct MeetingPoint {
  std::string name;              ///< as configured: an IP address or a host name
  IpAddress address;             ///< the address that `name` resolves to on this host
  bool has_credentials = false;  ///< a key or certificates; without them, the group stays on loopback

  /// Whether all workers must be on this host.
  bool is_this_host_only() const;
};

/// Throws UsageError if the address is unspecified, or if other hosts can reach it and neither a key nor certificates
/// were given. The latter error explains how to make a key.
void check_meeting_point(const MeetingPoint& point);

/// Returns the address on which rank 0's rendezvous listens: the point's address, or all interfaces if a host name
/// resolves to loopback here (/etc/hosts often does so for a host's own name) or if the address does not belong to this
/// host (the address of a service).
IpAddress rendezvous_address(const MeetingPoint& point);

/// Returns the options with which rank 0's agent listens at that address.
Agent::ListenOptions rank_0_listen_options(const MeetingPoint& point, uint16_t port);

/// Returns the options with which another worker's agent listens. `reached_by` is this host's end of the connection to
/// rank 0. A worker that reached rank 0 over loopback is on rank 0's host: if the group may span several hosts, it
/// listens on all interfaces and advertises loopback, which other workers interpret with `dialled_endpoint`. If
/// `interface` is not empty, the agent listens on that interface's address instead.
Agent::ListenOptions listen_options(const MeetingPoint& point, const IpAddress& reached_by,
                                    const std::string& interface);

/// Returns the endpoint at which to dial a peer that advertises `endpoint`. If a peer on another host advertises
/// loopback, it is on rank 0's host, whose address as seen from here is `master`.
Agent::Endpoint dialled_endpoint(Agent::Endpoint endpoint, const IpAddress& master);

/// Returns the first address of a network interface that is up, an IPv4 address if there is one. Throws UsageError,
/// which lists the interfaces.
IpAddress interface_address(const std::string& name);

}  // namespace tendril::rpc::detail
