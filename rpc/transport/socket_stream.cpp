#include "tendril/rpc/transport/socket_stream.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <utility>

#include "tendril/rpc/system/direct_calls.h"
#include "tendril/rpc/transport/sockets.h"

namespace tendril::rpc::detail {

SocketStream::SocketStream(UniqueFd socket, bool tcp) : socket_(std::move(socket)), tcp_(tcp) {
  make_non_blocking(socket_.get());
}

ssize_t SocketStream::read(const iovec* to, int count) noexcept { return direct::readv(socket_.get(), to, count); }

ssize_t SocketStream::write(const iovec* from, int count) noexcept {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(from);
  message.msg_iovlen = static_cast<std::size_t>(count);
  return direct::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

ssize_t SocketStream::peek(std::byte& first) noexcept {
  return ::recv(socket_.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
}

bool SocketStream::takes_bytes() noexcept {
  pollfd room{socket_.get(), POLLOUT, 0};
  return ::poll(&room, 1, 0) == 1;
}

void SocketStream::end_writing() noexcept { ::shutdown(socket_.get(), SHUT_WR); }
void SocketStream::end() noexcept { ::shutdown(socket_.get(), SHUT_RDWR); }

void SocketStream::reset_at_end() noexcept {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

int SocketStream::connection_error() noexcept {
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

namespace {

std::optional<ucred> credentials_of(int socket) noexcept {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return std::nullopt;
  return credentials;
}

}  // namespace

int SocketStream::peer_process() const noexcept {
  const auto peer = tcp_ ? std::nullopt : credentials_of(socket_.get());
  return peer ? peer->pid : 0;
}

bool SocketStream::peer_is_same_user() const noexcept {
  const auto peer = tcp_ ? std::nullopt : credentials_of(socket_.get());
  return peer && peer->uid == ::geteuid();
}

std::optional<Stream::Ends> SocketStream::ends() const {
  if (!tcp_) return std::nullopt;
  boost::asio::ip::tcp::endpoint local, remote;
  auto size = static_cast<socklen_t>(local.capacity());
  if (::getsockname(socket_.get(), local.data(), &size) != 0) return std::nullopt;
  local.resize(size);
  size = static_cast<socklen_t>(remote.capacity());
  if (::getpeername(socket_.get(), remote.data(), &size) != 0) return std::nullopt;
  remote.resize(size);
  return Ends{.local = local.address(), .remote = remote.address(), .same = local == remote};
}

}  // namespace tendril::rpc::detail
