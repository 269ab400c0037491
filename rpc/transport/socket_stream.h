#pragma once

#include <string>

#include "tendril/rpc/system/unique_fd.h"
#include "tendril/rpc/transport/stream.h"

namespace tendril::rpc::detail {

/// A TCP or Unix-domain socket.
class SocketStream final : public Stream {
 public:
  /// Makes the socket non-blocking. Throws std::system_error.
  SocketStream(UniqueFd socket, bool tcp);

  ssize_t read(const iovec* to, int count) noexcept override;
  ssize_t write(const iovec* from, int count) noexcept override;
  ssize_t peek(std::byte& first) noexcept override;
  bool takes_bytes() noexcept override;
  void end_writing() noexcept override;
  void end() noexcept override;
  void reset_at_end() noexcept override;
  int connection_error() noexcept override;
  int descriptor() const noexcept override { return socket_.get(); }
  const char* transport() const noexcept override { return tcp_ ? "tcp" : "unix"; }
  int peer_process() const noexcept override;
  bool peer_is_same_user() const noexcept override;
  std::optional<Ends> ends() const override;

 private:
  const UniqueFd socket_;
  const bool tcp_;
};

}  // namespace tendril::rpc::detail
