#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tendril/rpc/tls_credentials.h"

struct ssl_st;

namespace tendril::rpc::detail {

/// Mutual TLS 1.3 over a connected socket. Never blocks. After the handshake one thread may read while another writes.
///
/// Not asio::ssl::stream: that may be used by one thread at a time, and moves bytes by composed operations where a link
/// does so by system calls of its own (socket_link.h). `read` and `write` here stand in for readv and sendmsg there.
class TlsStream {
 public:
  enum class Side { dialler, acceptor };

  /// Of each direction, after so many bytes the key is replaced: RFC 8446, 5.5 gives AES-GCM some 380 GB.
  static constexpr uint64_t kBytesPerKey = uint64_t{64} << 30;

  /// The socket stays the caller's, and outlives this.
  TlsStream(const TlsCredentials& credentials, int socket, Side side, uint64_t bytes_per_key = kBytesPerKey);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  enum class Progress { done, wait_to_read, wait_to_write, closed };
  /// Goes on with the handshake. Once it is done the other side's certificate is known to be good; the dialler's own
  /// may yet be refused, which the first `read` reports. Throws ProofError where a certificate is refused, here or
  /// there, and where the other side is a worker that does not speak TLS; MessageError where it fails otherwise.
  Progress handshake();
  /// In the handshake the other side turned out not to speak TLS: what is said to it is said in the clear.
  bool other_side_is_plain() const noexcept;

  /// As readv and sendmsg on a non-blocking socket: the number of bytes; 0 from `read`: the end; -1, and errno.
  /// EPROTO (bytes were changed) and
  /// EACCES (the other side refused this one's certificate): `error` says more. What `read` has not delivered may be
  /// here rather than in the socket: read until EAGAIN before waiting for the socket. A `write` that took less than it
  /// was given is to be given the rest again, and one that failed with EAGAIN the same, with more behind it if there is
  /// more.
  ssize_t read(const iovec* to, int count) noexcept;
  ssize_t write(const iovec* from, int count) noexcept;
  std::string error() const;  ///< what is wrong, after EPROTO and EACCES

 private:
  struct Transfer;  // OpenSSL's way to the socket

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
