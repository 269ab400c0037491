#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <boost/asio/ip/address.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <system_error>

namespace tendril::rpc::detail {

/// A connection that carries bytes in both directions: a socket (socket_stream.h), TLS over another stream
/// (tls_stream.h), or a connection of a simulation. No function blocks. One thread may read while another writes.
/// Destroying it closes the connection.
class Stream {
 public:
  virtual ~Stream() = default;

  /// Like readv and sendmsg on a non-blocking socket: return the number of bytes, or -1 and set errno. `read` returns
  /// 0 at the end of the stream.
  virtual ssize_t read(const iovec* to, int count) noexcept = 0;
  virtual ssize_t write(const iovec* from, int count) noexcept = 0;
  /// Like `read` of one byte, but does not consume it.
  virtual ssize_t peek(std::byte& first) noexcept = 0;
  /// Whether `write` would accept any bytes now.
  virtual bool takes_bytes() noexcept = 0;
  /// Ends writing: the other side reads the bytes already written, and then the end of the stream.
  virtual void end_writing() noexcept = 0;
  /// Ends reading and writing.
  virtual void end() noexcept = 0;
  /// Makes the destructor reset the connection, which leaves no state behind in the system.
  virtual void reset_at_end() noexcept {}
  /// The outcome of a connection that was in progress (network.h): an errno, or 0 if it is made.
  virtual int connection_error() noexcept = 0;

  /// The descriptor for Reactor::watch.
  virtual int descriptor() const noexcept = 0;
  /// Whether it may hold received bytes that the Reactor cannot see. Read such a stream until EAGAIN, and once before
  /// the first event.
  virtual bool holds_bytes() const noexcept { return false; }
  virtual const char* transport() const noexcept = 0;  ///< "unix", "tcp" or "tls"
  /// The text for an errno of `read` or `write`.
  virtual std::string describe(int error) const { return std::system_category().message(error); }

  /// The id of the process at the other end of a connection within this host; 0: unknown.
  virtual int peer_process() const noexcept { return 0; }
  /// Whether that process has the same user id as this one. False if unknown.
  virtual bool peer_is_same_user() const noexcept { return false; }
  /// The two ends of a TCP connection.
  struct Ends {
    boost::asio::ip::address local, remote;
    bool same = false;  ///< the socket is connected to itself
  };
  virtual std::optional<Ends> ends() const { return std::nullopt; }
};

}  // namespace tendril::rpc::detail
