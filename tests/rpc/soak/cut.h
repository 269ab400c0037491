#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <system_error>
#include <vector>

namespace soak {

/// A connected socket of this process.
struct Socket {
  int fd;
  sa_family_t family;
  uint16_t port;  ///< the peer's TCP port, 0 for other families
};

inline std::vector<Socket> connected_sockets() {
  std::vector<Socket> sockets;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) continue;
    const bool tcp = address.ss_family == AF_INET;
    const uint16_t port = tcp ? ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port) : 0;
    sockets.push_back({fd, address.ss_family, port});
  }
  return sockets;
}

/// Ends both directions. A raw system call: another connection may have got this number since the sockets were listed.
/// That is intended, but ThreadSanitizer would report it.
inline bool cut(const Socket& socket) { return ::syscall(SYS_shutdown, socket.fd, SHUT_RDWR) == 0; }

/// Like `cut`, but data in transit is lost and the other side is reset.
inline bool reset(const Socket& socket) {
  const sockaddr nobody{.sa_family = AF_UNSPEC, .sa_data = {}};
  return ::syscall(SYS_connect, socket.fd, &nobody, sizeof nobody) == 0;
}

/// Breaks a random connection of this process as a network would. Returns false if it has none.
inline bool cut_one(std::mt19937_64& random) {
  const std::vector<Socket> sockets = connected_sockets();
  if (sockets.empty()) return false;
  const Socket& one = sockets[random() % sockets.size()];
  return one.family == AF_INET && random() % 2 == 0 ? reset(one) : cut(one);
}

/// Breaks all TCP connections except those to this port.
inline void cut_all_but(uint16_t port) {
  for (const Socket& one : connected_sockets())
    if (one.family == AF_INET && one.port != port) cut(one);
}

}  // namespace soak
