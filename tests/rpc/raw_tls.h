#pragma once

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <memory>
#include <string>

#include "tendril/rpc/tls_credentials.h"
#include "tendril/rpc/transport/tls_context.h"

namespace rpc_test {

/// A TLS peer that uses OpenSSL directly, and so need not follow the library's protocol. Each read waits for at most a
/// minute.
class RawTls {
 public:
  /// Presents this certificate, or none if `files` is null.
  RawTls(int socket, bool dials, const tendril::rpc::TlsFiles* files, int highest_version = TLS1_3_VERSION)
      : context_(SSL_CTX_new(TLS_method()), &SSL_CTX_free), ssl_(nullptr, &SSL_free) {
    SSL_CTX_set_max_proto_version(context_.get(), highest_version);
    if (files != nullptr) {
      SSL_CTX_use_certificate_file(context_.get(), files->certificate.c_str(), SSL_FILETYPE_PEM);
      SSL_CTX_use_PrivateKey_file(context_.get(), files->private_key.c_str(), SSL_FILETYPE_PEM);
    }
    ssl_.reset(SSL_new(context_.get()));
    shake_hands(socket, dials);
  }
  /// Uses the shared key of `context`.
  RawTls(int socket, bool dials, tendril::rpc::detail::TlsContext& context)
      : context_(nullptr, &SSL_CTX_free), ssl_(SSL_new(context.context.native_handle()), &SSL_free) {
    shake_hands(socket, dials);
  }
  bool connected() const noexcept { return good_; }
  SSL* ssl() const noexcept { return ssl_.get(); }
  /// Reads until the connection ends. Returns OpenSSL's reason, or an empty string.
  std::string why_it_ends() {
    char byte = 0;
    while (good_ && SSL_read(ssl_.get(), &byte, 1) > 0) {
    }
    const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
    return reason != nullptr ? reason : "";
  }

 private:
  void shake_hands(int socket, bool dials) {
    const timeval minute{.tv_sec = 60, .tv_usec = 0};
    ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &minute, sizeof minute);
    SSL_set_fd(ssl_.get(), socket);
    ERR_clear_error();
    good_ = (dials ? SSL_connect(ssl_.get()) : SSL_accept(ssl_.get())) == 1;
  }

  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_;
  std::unique_ptr<SSL, void (*)(SSL*)> ssl_;
  bool good_ = false;
};

}  // namespace rpc_test
