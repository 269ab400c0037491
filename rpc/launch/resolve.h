#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <functional>
#include <string>
#include <vector>

#include "tendril/rpc/call_context.h"

namespace tendril::rpc::detail {

/// The addresses of a host. One look-up; it lasts as long as the system's resolver takes.
using LookUp =
    std::function<std::vector<boost::asio::ip::address>(const std::string& host, boost::system::error_code& error)>;
std::vector<boost::asio::ip::address> look_up(const std::string& host, boost::system::error_code& error);

/// The address of an IP address or host name: of several the first of IPv4, so that all workers choose the same. Names
/// may come late (a cluster's DNS learns of new hosts while they start): it tries again, less and less often, until the
/// deadline. Throws TimeoutError with `advice`.
boost::asio::ip::address resolve(const std::string& host, Clock::time_point deadline, const std::string& advice,
                                 const LookUp& look_up = &detail::look_up);

}  // namespace tendril::rpc::detail
