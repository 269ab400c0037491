#pragma once

#include <sys/socket.h>

#include <boost/asio/ip/address.hpp>
#include <string>

#include "tendril/rpc/system/unique_fd.h"

namespace tendril::rpc::detail {

/// Creates a non-blocking stream socket that child processes do not inherit: a child would keep the connection open
/// after this worker's end. Returns -1 on an error, which is in errno.
UniqueFd new_socket(int family) noexcept;
/// Accepts a connection from a non-blocking listening socket, with the same properties as in `new_socket`. `from`
/// receives the address of its other end, as by accept(2).
UniqueFd accept_connection(int listening, sockaddr* from = nullptr, socklen_t* size = nullptr) noexcept;
/// Sets TCP_NODELAY for TCP, and buffers of 4 MiB for Unix-domain sockets as far as the system allows.
void tune_socket(int socket, bool tcp) noexcept;
/// Throws std::system_error.
void make_non_blocking(int socket);
/// Resolves a host name or numeric address: loopback for "localhost", otherwise the first address that a TCP socket can
/// use. Blocks for as long as the system's resolver takes. Throws UsageError, whose text begins with `what`.
boost::asio::ip::address address_of(const std::string& host, const std::string& what);

}  // namespace tendril::rpc::detail
