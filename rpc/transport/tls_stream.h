#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tendril/rpc/error.h"
#include "tendril/rpc/transport/stream.h"

struct ssl_st;

namespace tendril::rpc::detail {

class TlsContext;

/// Thrown if one side has not authenticated: it does not hold the key, or its certificate is refused.
class AuthenticationError : public UsageError {
 public:
  using UsageError::UsageError;
};

/// TLS 1.3 over another stream, which it owns. Both sides authenticate, with certificates or with a pre-shared key.
///
/// asio::ssl::stream is not used: only one thread at a time may use it, and it moves bytes by composed operations,
/// whereas a link makes the system calls itself (socket_link.h).
class TlsStream final : public Stream {
 public:
  enum class Side { dialler, acceptor };

  /// The key of each direction is replaced after this many bytes. RFC 8446, 5.5 allows AES-GCM about 380 GB.
  static constexpr uint64_t kBytesPerKey = uint64_t{64} << 30;

  TlsStream(std::shared_ptr<const TlsContext> context, std::unique_ptr<Stream> below, Side side,
            uint64_t bytes_per_key = kBytesPerKey);
  ~TlsStream() override;

  enum class Progress { done, wait_to_read, wait_to_write, closed };
  /// Continues the handshake. After `done`, the other side has authenticated. With certificates, an acceptor may still
  /// refuse the dialler's, which the dialler's first `read` reports. Throws AuthenticationError if either side
  /// rejects a key or a certificate, and MessageError if the handshake fails for another reason.
  Progress handshake();
  /// Whether the other side may use this worker name. With certificates, its certificate must contain the name, as a
  /// DNS name or, if it has no DNS names, as its common name. Call it after the handshake.
  bool peer_may_be(const std::string& worker) const;
  /// Allows reading more than one record at a time from the stream below. Before this call, no byte after the last
  /// record is taken from it.
  void read_ahead() noexcept;
  /// Releases the stream below, without ending TLS on it. This object must not be used afterwards.
  std::unique_ptr<Stream> give_back() noexcept;

  /// errno may also be EPROTO (bytes were changed) or EACCES (the other side refused this side's certificate). After a
  /// partial `write`, pass the rest again. After EAGAIN, pass the same bytes again; more bytes may follow them.
  ssize_t read(const iovec* to, int count) noexcept override;
  ssize_t write(const iovec* from, int count) noexcept override;
  std::string describe(int error) const override;
  bool holds_bytes() const noexcept override { return true; }
  const char* transport() const noexcept override { return "tls"; }

  /// Forwarded to the stream below.
  ssize_t peek(std::byte& first) noexcept override;
  bool takes_bytes() noexcept override;
  void end_writing() noexcept override;
  void end() noexcept override;
  int connection_error() noexcept override;
  int descriptor() const noexcept override;
  std::optional<Ends> ends() const override;

 private:
  struct Transfer;  // OpenSSL's BIO over the stream below

  std::string key_differs() const;

  [[noreturn]] void throw_handshake_error();
  ssize_t failed_locked(int result) noexcept;
  void renew_key_locked() noexcept;

  const std::shared_ptr<const TlsContext> context_;
  const std::unique_ptr<Transfer> transfer_;
  const uint64_t bytes_per_key_;

  mutable std::mutex mutex_;  // OpenSSL allows one thread at a time; held for one record at most
  const std::unique_ptr<ssl_st, void (*)(ssl_st*)> ssl_;
  std::string error_;
  int errno_ = 0;                  // errno that belongs to error_
  std::size_t unfinished_ = 0;     // used by the writer only: size of a record that the socket has not fully taken
  uint64_t written_ = 0;           // bytes written under the current key
  std::vector<std::byte> staged_;  // used by the writer only: joins small buffers into one record
};

}  // namespace tendril::rpc::detail
