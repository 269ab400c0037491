#pragma once

#include <sys/socket.h>

#include <boost/asio/ip/address.hpp>
#include <string>

#include "tendril/rpc/transport/unique_fd.h"

namespace tendril::rpc::detail {

/// A stream socket that does not block, and that processes started from here do not inherit: a child that kept it would
/// keep the connection open after this worker's end. -1: an error, in errno.
UniqueFd new_socket(int family) noexcept;
/// Takes a connection from a socket that listens and does not block; the connection is as one of `new_socket`. Its
/// other end's address goes to `from`, as by accept(2).
UniqueFd accept_connection(int listening, sockaddr* from = nullptr, socklen_t* size = nullptr) noexcept;
/// TCP_NODELAY for TCP; buffers of 4 MiB for Unix-domain sockets, as far as the system allows.
void tune_socket(int socket, bool tcp) noexcept;
/// Throws std::system_error.
void make_non_blocking(int socket);
/// The address of a name or number: of several the first that a TCP socket can have, loopback for "localhost". Blocks
/// for as long as the system's resolver takes. Throws UsageError, which `what` begins.
boost::asio::ip::address address_of(const std::string& host, const std::string& what);
std::string last_error();  ///< of errno

}  // namespace tendril::rpc::detail
