#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <span>

#include "tendril/rpc/transport/stream_connection.h"

namespace tendril::rpc::detail {

/// A socket while both sides introduce themselves over it, plain or under TLS, before a link takes it over. Used by the
/// thread that runs `io`.
class HandshakeStream {
 public:
  /// How it went; null: well. boost::system::system_error where the connection has ended, or was closed here;
  /// ProofError and MessageError for what the other side said (tls_stream.h). It must keep this object, and is called
  /// later, never by the function that it was given to.
  using Done = std::function<void(const std::exception_ptr&)>;

  explicit HandshakeStream(boost::asio::io_context& io) : stream_(io) {}

  void open(UniqueFd socket);
  bool is_secured() const noexcept { return tls_ != nullptr; }  ///< or is being so
  bool is_open() const noexcept { return stream_.is_open(); }
  void close();
  /// Says no more, takes what has come already and closes: a socket closed with bytes unread resets the connection,
  /// which may take from the other side what it was told last.
  void close_after_last_word();
  int native_handle() { return stream_.native_handle(); }

  void wait_connected(Done done);  ///< of a socket that connects; its error is boost::system::system_error too
  void secure(const TlsCredentials& credentials, TlsStream::Side side, Done done);
  /// Exactly so many bytes: what follows them belongs to the link.
  void read(std::span<std::byte> to, Done done);
  /// False: it cannot be said. An empty socket buffer takes what is said here whole.
  bool send(std::span<const std::byte> bytes);
  StreamConnection release(bool tcp);

 private:
  void go_on_securing(Done done);
  void go_on_reading(std::span<std::byte> to, Done done);
  void wait(boost::asio::posix::stream_descriptor::wait_type what, std::function<void(const Done&)> then, Done done);
  void later(const Done& done, std::exception_ptr error = nullptr);

  boost::asio::posix::stream_descriptor stream_;
  std::unique_ptr<TlsStream> tls_;
  uint64_t generation_ = 0;  // of `stream_`: counts how often it was opened or closed
};

}  // namespace tendril::rpc::detail
