#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tendril/rpc/tls_credentials.h"
#include "tendril/rpc/transport/stream.h"

struct ssl_st;

namespace tendril::rpc::detail {

/// Mutual TLS 1.3 over another stream, which it owns.
///
/// asio::ssl::stream is not used: only one thread at a time may use it, and it moves bytes by composed operations,
/// whereas a link makes the system calls itself (socket_link.h).
class TlsStream final : public Stream {
 public:
  enum class Side { dialler, acceptor };

  /// Of each direction, after so many bytes the key is replaced: RFC 8446, 5.5 gives AES-GCM some 380 GB.
  static constexpr uint64_t kBytesPerKey = uint64_t{64} << 30;

  TlsStream(const TlsCredentials& credentials, std::unique_ptr<Stream> below, Side side,
            uint64_t bytes_per_key = kBytesPerKey);
  ~TlsStream() override;

  enum class Progress { done, wait_to_read, wait_to_write, closed };
  /// Goes on with the handshake. Once it is done the other side's certificate is known to be good; the dialler's own
  /// may yet be refused, which the first `read` reports. Throws ProofError where a certificate is refused, here or
  /// there, and where the other side is a worker that does not speak TLS; MessageError where it fails otherwise.
  Progress handshake();
  /// In the handshake the other side turned out not to speak TLS: what is said to it is said in the clear.
  bool other_side_is_plain() const noexcept;
  std::unique_ptr<Stream> give_back() noexcept;  ///< the stream below; this object must not be used afterwards

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

  [[noreturn]] void throw_handshake_error();
  ssize_t failed_locked(int result) noexcept;
  void renew_key_locked() noexcept;

  const std::unique_ptr<Transfer> transfer_;
  const uint64_t bytes_per_key_;

  mutable std::mutex mutex_;  // OpenSSL wants one thread at a time; held for a record at most
  const std::unique_ptr<ssl_st, void (*)(ssl_st*)> ssl_;
  std::string error_;
  int errno_ = 0;                  // that goes with it
  std::size_t unfinished_ = 0;     // the writer's: bytes of a record that the socket has not taken whole
  uint64_t written_ = 0;           // under the present key
  std::vector<std::byte> staged_;  // the writer's: small parts become one record
};

}  // namespace tendril::rpc::detail
