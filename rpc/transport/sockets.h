#pragma once

#include <string>

namespace tendril::rpc::detail {

/// TCP_NODELAY for TCP; buffers of 4 MiB for Unix-domain sockets, as far as the system allows.
void tune_socket(int socket, bool tcp) noexcept;
/// True if the process at the other end of a Unix-domain socket has this process's user id.
bool peer_is_same_user(int socket) noexcept;
/// True for addresses that only this host can reach; false for routable ones and for names.
bool is_loopback(const std::string& host) noexcept;
std::string last_error();  ///< of errno

}  // namespace tendril::rpc::detail
