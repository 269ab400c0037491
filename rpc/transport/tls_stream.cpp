#include "tendril/rpc/transport/tls_stream.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tendril/rpc/transport/tls_context.h"

namespace tendril::rpc::detail {

namespace {

constexpr std::size_t kRecord = 16 * 1024;                 // maximum payload of one record
constexpr std::size_t kReadAtOnce = std::size_t{1} << 20;  // then other links get their turn
constexpr std::size_t kMaxHandshakeBytes = 32 * 1024;      // from an unauthenticated peer: mostly certificates

/// Returns OpenSSL's reason why its last call on this thread failed.
std::string reason_text() {
  unsigned long code = ERR_peek_last_error();
#ifdef SSL_R_RECORD_LAYER_FAILURE  // OpenSSL 3.2 and later queue this unspecific error after the actual reason
  if (ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) == SSL_R_RECORD_LAYER_FAILURE) code = ERR_peek_error();
#endif
  const char* const reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : "unknown error";
}

/// Whether OpenSSL's last call on this thread failed because the other side sent an alert about this certificate.
bool certificate_was_refused() {
  const unsigned long code = ERR_peek_last_error();
  if (ERR_GET_LIB(code) != ERR_LIB_SSL) return false;
  switch (ERR_GET_REASON(code)) {
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      return true;
    default:
      return false;
  }
}

constexpr const char* kRefusedThere = "the other side refused this worker's certificate: ";
constexpr const char* kKeyAndCertificates = ": give all workers certificates, or none";

}  // namespace

struct TlsStream::Transfer {
  std::unique_ptr<Stream> below;
  bool established = false, at_end = false;
  int error = 0;
  std::size_t received = 0;  // during the handshake

  static int read(BIO* bio, char* to, int size) {
    auto& self = *static_cast<Transfer*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    const ssize_t n = self.receive(to, static_cast<std::size_t>(size));
    if (n == 0) self.at_end = true;
    if (n < 0) self.note(bio, BIO_FLAGS_READ);
    if (n > 0 && !self.established) {
      self.received += static_cast<std::size_t>(n);
      if (self.received > kMaxHandshakeBytes) {
        self.error = EMSGSIZE;
        return -1;
      }
    }
    return static_cast<int>(n);
  }
  static int write(BIO* bio, const char* from, int size) {
    auto& self = *static_cast<Transfer*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    ssize_t n = 0;
    const iovec all{const_cast<char*>(from), static_cast<std::size_t>(size)};
    do n = self.below->write(&all, 1);
    while (n < 0 && errno == EINTR);
    if (n < 0) self.note(bio, BIO_FLAGS_WRITE);
    return static_cast<int>(n);
  }
  static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  void note(BIO* bio, int direction) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      BIO_set_flags(bio, direction | BIO_FLAGS_SHOULD_RETRY);
    } else {
      error = errno;
    }
  }

  ssize_t receive(char* to, std::size_t size) const {
    const iovec all{to, size};
    ssize_t n = 0;
    do n = below->read(&all, 1);
    while (n < 0 && errno == EINTR);
    return n;
  }

  static BIO_METHOD* method() {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "a connected socket");
      if (made != nullptr) {
        BIO_meth_set_read(made, &read);
        BIO_meth_set_write(made, &write);
        BIO_meth_set_ctrl(made, &control);
      }
      return made;
    }();
    return method;
  }
};

TlsStream::TlsStream(std::shared_ptr<const TlsContext> context, std::unique_ptr<Stream> below, Side side,
                     uint64_t bytes_per_key)
    : context_(std::move(context)),
      transfer_(std::make_unique<Transfer>(Transfer{.below = std::move(below)})),
      bytes_per_key_(bytes_per_key),
      // native_handle is not const: OpenSSL counts references there, under its own locks.
      ssl_(SSL_new(const_cast<TlsContext&>(*context_).context.native_handle()), &SSL_free) {
  BIO* const bio = Transfer::method() != nullptr ? BIO_new(Transfer::method()) : nullptr;
  if (!ssl_ || bio == nullptr) throw std::bad_alloc();
  BIO_set_data(bio, transfer_.get());
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);  // takes ownership of it
  side == Side::dialler ? SSL_set_connect_state(ssl_.get()) : SSL_set_accept_state(ssl_.get());
}

TlsStream::~TlsStream() = default;

void TlsStream::read_ahead() noexcept { SSL_set_read_ahead(ssl_.get(), 1); }
std::unique_ptr<Stream> TlsStream::give_back() noexcept { return std::move(transfer_->below); }

bool TlsStream::peer_may_be(const std::string& worker) const {
  if (context_->has_key()) return true;
  const std::lock_guard lock(mutex_);
  const std::unique_ptr<X509, void (*)(X509*)> certificate(SSL_get1_peer_certificate(ssl_.get()), &X509_free);
  if (!certificate) return false;
  char* found = nullptr;  // compared below: X509_check_host ignores case and accepts wildcards
  const bool good = X509_check_host(certificate.get(), worker.data(), worker.size(), 0, &found) == 1 && worker == found;
  OPENSSL_free(found);
  return good;
}

ssize_t TlsStream::peek(std::byte& first) noexcept { return transfer_->below->peek(first); }
bool TlsStream::takes_bytes() noexcept { return transfer_->below->takes_bytes(); }
void TlsStream::end_writing() noexcept { transfer_->below->end_writing(); }
void TlsStream::end() noexcept { transfer_->below->end(); }
int TlsStream::connection_error() noexcept { return transfer_->below->connection_error(); }
int TlsStream::descriptor() const noexcept { return transfer_->below->descriptor(); }
std::optional<Stream::Ends> TlsStream::ends() const { return transfer_->below->ends(); }

TlsStream::Progress TlsStream::handshake() {
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  if (result == 1) {
    TENDRIL_CHECK_AS(AuthenticationError, !context_->has_key() || SSL_session_reused(ssl_.get()) == 1, key_differs());
    transfer_->established = true;
    return Progress::done;
  }
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return Progress::wait_to_read;
    case SSL_ERROR_WANT_WRITE:
      return Progress::wait_to_write;
    case SSL_ERROR_SSL:
      throw_handshake_error();
    default:
      if (transfer_->error == EMSGSIZE) throw MessageError("bad TLS handshake: it is too long");
      return Progress::closed;
  }
}

std::string TlsStream::key_differs() const {
  return "the other side does not hold this worker's key (" + context_->key_origin() + ")";
}

void TlsStream::throw_handshake_error() {
  const std::string reason = reason_text();
  const int code = ERR_GET_REASON(ERR_peek_last_error());
  if (context_->has_key()) {
    // RFC 8446 requires decrypt_error, but OpenSSL 3.0 sends illegal_parameter.
    if (code == SSL_R_BINDER_DOES_NOT_VERIFY || code == SSL_R_TLSV1_ALERT_DECRYPT_ERROR ||
        code == SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER)
      throw AuthenticationError(key_differs());
    // The client offered no key, or the server did not accept it, so the server would have to present a certificate.
    const bool certificates = code == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM || code == SSL_R_CERTIFICATE_VERIFY_FAILED;
    if (certificates) {
      throw AuthenticationError(std::string("the other side does not use a shared key, but this worker does") +
                                kKeyAndCertificates);
    }
  }
  const long verified = context_->has_key() ? X509_V_OK : SSL_get_verify_result(ssl_.get());
  if (verified != X509_V_OK) {
    throw AuthenticationError(std::string("the other side's certificate is refused: ") +
                              X509_verify_cert_error_string(verified));
  }
  if (certificate_was_refused()) throw AuthenticationError(kRefusedThere + reason);
  if (code == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) throw AuthenticationError("the other side sent no certificate");
  if (code == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE && !context_->has_key()) {
    throw AuthenticationError("the other side refused this worker's handshake (" + reason +
                              "): it may use a shared key in place of certificates" + kKeyAndCertificates);
  }
  throw MessageError("bad TLS handshake: " + reason);
}

/// Returns the result of `read` or `write` after a failed OpenSSL call, and sets errno.
ssize_t TlsStream::failed_locked(int result) noexcept {
  const int kind = SSL_get_error(ssl_.get(), result);
  errno = EAGAIN;
  if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) return -1;
  if (kind == SSL_ERROR_ZERO_RETURN || transfer_->at_end) return 0;
  // An alert of the other side takes precedence over a socket error: the socket may have been reset right after it.
  errno = transfer_->error;
  if (errno != 0 && kind != SSL_ERROR_SSL) return -1;
  if (errno_ == 0) {  // keep the first reason: later calls report only that an error occurred
    errno_ = certificate_was_refused() ? EACCES : EPROTO;
    try {
      error_ = (errno_ == EACCES ? kRefusedThere : "TLS: ") + reason_text();
    } catch (...) {  // out of memory
    }
  }
  errno = errno_;
  return -1;
}

/// Changes the key for writing, but only while the socket has room for the message that announces it: if that message
/// is only partly written, OpenSSL makes the reader finish it, which then waits for the socket although it has bytes to
/// read.
void TlsStream::renew_key_locked() noexcept {
  if (!transfer_->below->takes_bytes() || SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return;
  written_ = 0;
  SSL_do_handshake(ssl_.get());  // the next write reports any error
}

std::string TlsStream::describe(int error) const {
  if (error != EPROTO && error != EACCES) return Stream::describe(error);
  const std::lock_guard lock(mutex_);
  return error_;
}

ssize_t TlsStream::read(const iovec* to, int count) noexcept {
  std::size_t total = 0;
  for (int i = 0; i < count; ++i) {
    for (std::size_t filled = 0; filled < to[i].iov_len && total < kReadAtOnce;) {
      const std::lock_guard lock(mutex_);
      ERR_clear_error();
      std::size_t n = 0;
      const int result =
          SSL_read_ex(ssl_.get(), static_cast<char*>(to[i].iov_base) + filled, to[i].iov_len - filled, &n);
      if (result != 1) {
        ssize_t failed = failed_locked(result);
        if (SSL_want_write(ssl_.get())) errno = ENOBUFS;          // a key change was cut short: reconnect
        return total > 0 ? static_cast<ssize_t>(total) : failed;  // the next call fails, too
      }
      filled += n;
      total += n;
    }
  }
  return static_cast<ssize_t>(total);
}

ssize_t TlsStream::write(const iovec* from, int count) noexcept try {
  std::size_t total = 0, offset = 0;  // of from[0]
  while (count > 0) {
    // An unfinished record is completed first, and alone, so that only bytes that the socket has taken are counted.
    const std::size_t most = unfinished_ > 0 ? unfinished_ : kRecord;
    const void* record = static_cast<const char*>(from->iov_base) + offset;
    std::size_t size = std::min(from->iov_len - offset, most);
    if (size < most && count > 1) {
      staged_.resize(kRecord);
      size = 0;
      for (int i = 0; i < count && size < most; ++i) {
        const std::size_t skip = i == 0 ? offset : 0;
        const std::size_t part = std::min(from[i].iov_len - skip, most - size);
        std::memcpy(staged_.data() + size, static_cast<const char*>(from[i].iov_base) + skip, part);
        size += part;
      }
      record = staged_.data();
    }
    std::size_t n = 0;
    if (size > 0) {
      const std::lock_guard lock(mutex_);
      if (written_ >= bytes_per_key_) renew_key_locked();  // fails during an unfinished record; retried later
      ERR_clear_error();
      const int result = SSL_write_ex(ssl_.get(), record, size, &n);
      if (result != 1) {
        unfinished_ = size;
        if (total > 0) return static_cast<ssize_t>(total);
        const ssize_t failed = failed_locked(result);
        if (failed == 0) errno = EPIPE;
        return -1;
      }
      unfinished_ = 0;
      written_ += n;
    }
    total += n;
    offset += n;
    while (count > 0 && offset >= from->iov_len) {
      offset -= from->iov_len;
      ++from;
      --count;
    }
  }
  return static_cast<ssize_t>(total);
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return -1;
}

}  // namespace tendril::rpc::detail
