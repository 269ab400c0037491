#pragma once

#include <boost/asio/ip/address.hpp>
#include <string>

namespace tendril::rpc::detail {

/// TCP_NODELAY for TCP; buffers of 4 MiB for Unix-domain sockets, as far as the system allows.
void tune_socket(int socket, bool tcp) noexcept;
/// Throws std::system_error.
void make_non_blocking(int socket);
/// True if the process at the other end of a Unix-domain socket has this process's user id.
bool peer_is_same_user(int socket) noexcept;
/// The address of a name or number: of several the first that a TCP socket can have, loopback for "localhost". Blocks
/// for as long as the system's resolver takes. Throws UsageError, which `what` begins.
boost::asio::ip::address address_of(const std::string& host, const std::string& what);
std::string last_error();  ///< of errno

}  // namespace tendril::rpc::detail
