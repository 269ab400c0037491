#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>

#include "tendril/rpc/threads/reactor.h"
#include "tendril/rpc/transport/tls_stream.h"

namespace tendril::rpc::detail {

/// Reports that the other side has closed the connection.
struct ConnectionClosed : std::runtime_error {
  ConnectionClosed() : std::runtime_error("the other side closed the connection") {}
};

/// Reports that a system call on the connection has failed.
struct ConnectionFailed : std::system_error {
  explicit ConnectionFailed(int error) : std::system_error(error, std::system_category()) {}
};

/// A stream during the handshake, plain or under TLS, before a link takes it over. Used on the reactor's thread, with
/// one pending operation at a time.
class HandshakeStream {
 public:
  /// Completion handler. Its argument is null on success, ConnectionClosed or ConnectionFailed if the connection has
  /// ended, and AuthenticationError or MessageError if the TLS handshake fails (tls_stream.h). The handler must keep
  /// this object alive. It is not called before the function that received it returns, and not after `close`.
  using Done = std::function<void(const std::exception_ptr&)>;

  explicit HandshakeStream(Reactor& reactor) : reactor_(reactor) {}
  ~HandshakeStream() { close(); }
  HandshakeStream(const HandshakeStream&) = delete;
  HandshakeStream& operator=(const HandshakeStream&) = delete;

  /// Throws std::system_error.
  void open(std::unique_ptr<Stream> stream);
  bool is_open() const noexcept { return stream_ != nullptr; }
  void close() noexcept;
  /// Ends writing, discards the bytes already received and closes. Closing a socket with unread bytes would reset the
  /// connection, and the other side might lose the last bytes sent to it.
  void close_gracefully() noexcept;
  bool peer_closed() noexcept;
  Stream& stream() noexcept { return *stream_; }

  // The following functions need an open stream.
  void wait_connected(Done done);  ///< for a connection in progress (network.h)
  void secure(std::shared_ptr<const TlsContext> context, TlsStream::Side side, Done done);
  bool peer_may_be(const std::string& worker) const;  ///< TlsStream::peer_may_be; true for a stream without TLS
  /// Fills `to`, and reads no byte beyond it: later bytes belong to the link.
  void read(std::span<std::byte> to, Done done);
  /// Returns false if it could not be sent. An empty socket buffer has room for everything sent here.
  bool send(std::span<const std::byte> bytes) noexcept;
  /// Releases the stream to a link. `plain`: ends TLS, if there is any, and releases the underlying stream.
  std::unique_ptr<Stream> release(bool plain) noexcept;

 private:
  class Readiness;

  void go_on_securing(Done done);
  void go_on_reading(std::span<std::byte> to, Done done);
  void later(Done done, std::exception_ptr error = nullptr);
  void stop_watching() noexcept;

  Reactor& reactor_;
  std::unique_ptr<Stream> stream_;
  int descriptor_ = -1;                   // descriptor of `stream_`
  TlsStream* tls_ = nullptr;              // `stream_`, if it is a TlsStream
  std::shared_ptr<Readiness> readiness_;  // receives the events of `stream_`
};

}  // namespace tendril::rpc::detail
