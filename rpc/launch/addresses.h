#pragma once

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <string>

#include "tendril/rpc/agent.h"

/// Which addresses the workers of a group listen on and dial, when they may be on several hosts.
namespace tendril::rpc::detail {

using IpAddress = boost::asio::ip::address;

/// Where a group meets, as far as it is known before anybody has connected.
struct MeetingPoint {
  std::string name;          ///< as somebody wrote it: an address or a host's name
  IpAddress address;         ///< what it means on this host
  bool proof_given = false;  ///< without one, everything stays on loopback

  /// Nobody on another host can be meant.
  bool is_this_host_only() const;
};

/// Throws UsageError, which says how to make a key, for an address that others can reach where no key was given.
void check_meeting_point(const MeetingPoint& point);

/// Where rank 0's rendezvous listens: at the point's address, or on all interfaces where a name stands for loopback
/// here
/// (/etc/hosts often says so of a host's own name), or where the address is none of this host (a service's).
IpAddress rendezvous_address(const MeetingPoint& point);

/// How rank 0's agent listens there.
Agent::ListenOptions rank_0_listen_options(const MeetingPoint& point, uint16_t port);

/// How an agent listens. `reached_by` is this host's end of the connection to rank 0. A worker that reached rank 0 over
/// loopback is on rank 0's host: it listens on all interfaces there and says "loopback", which others understand
/// (dialled_endpoint). `interface` (empty: none) wins: its address is used.
Agent::ListenOptions listen_options(const MeetingPoint& point, const IpAddress& reached_by,
                                    const std::string& interface);

/// What to dial where a peer said `endpoint`: loopback, said by somebody else, means rank 0's host, which is at
/// `master` as seen from here.
Agent::Endpoint dialled_endpoint(Agent::Endpoint endpoint, const IpAddress& master);

/// The first address of a network interface, of IPv4 if it has one. Throws UsageError that lists the interfaces.
IpAddress interface_address(const std::string& name);

}  // namespace tendril::rpc::detail
