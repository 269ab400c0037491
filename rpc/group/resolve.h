#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <functional>
#include <string>
#include <vector>

#include "tendril/rpc/call_context.h"

namespace tendril::rpc::detail {

/// Looks up the addresses of a host once. Blocks for as long as the system's resolver takes.
using LookUp =
    std::function<std::vector<boost::asio::ip::address>(const std::string& host, boost::system::error_code& error)>;
std::vector<boost::asio::ip::address> look_up(const std::string& host, boost::system::error_code& error);

/// Returns `host` if it is an IP address, or else an address that it resolves to: the first IPv4 address, so that all
/// workers choose the same one, or else the first address. Retries until the deadline, with growing pauses, because a
/// cluster's DNS may list new hosts late. Throws TimeoutError, which ends with `advice`.
boost::asio::ip::address resolve(const std::string& host, Clock::time_point deadline, const std::string& advice,
                                 const LookUp& look_up = &detail::look_up);

}  // namespace tendril::rpc::detail
