#include "tendril/rpc/tls_credentials.h"

#include <openssl/crypto.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cerrno>

#include "tendril/rpc/error.h"
#include "tendril/rpc/transport/private_file.h"
#include "tendril/rpc/transport/sockets.h"
#include "tendril/rpc/transport/tls_context.h"

namespace tendril::rpc {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kMaxPemBytes = std::size_t{1} << 20;

/// Overwritten at the end: one of them is a key.
struct PemText {
  std::string text;
  PemText() = default;
  ~PemText() { OPENSSL_cleanse(text.data(), text.size()); }
  PemText(const PemText&) = delete;
  PemText& operator=(const PemText&) = delete;
};

void read_pem(int file, const std::string& name, std::string& text) {
  text.resize(kMaxPemBytes + 1);  // once: a string that grows leaves copies behind
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t n = ::read(file, text.data() + size, text.size() - size);
    if (n < 0 && errno == EINTR) continue;
    TENDRIL_CHECK_AS(UsageError, n >= 0, name, " cannot be read: ", detail::last_error());
    if (n == 0) break;
    size += static_cast<std::size_t>(n);
  }
  TENDRIL_CHECK_AS(UsageError, size <= kMaxPemBytes, name, " has more than ", kMaxPemBytes, " bytes");
  text.resize(size);
}

void check_read(const boost::system::error_code& error, const std::string& name, const char* what) {
  TENDRIL_CHECK_AS(UsageError, !error, name, " holds no ", what, " in PEM format: ", error.message());
}

/// As a peer will: a certificate that others would refuse is better known now.
void verify_own(SSL_CTX* context, const TlsFiles& files) {
  for (const char* purpose : {"ssl_server", "ssl_client"}) {
    const std::unique_ptr<X509_STORE_CTX, void (*)(X509_STORE_CTX*)> check(X509_STORE_CTX_new(), &X509_STORE_CTX_free);
    STACK_OF(X509)* chain = nullptr;
    SSL_CTX_get_extra_chain_certs(context, &chain);
    if (chain == nullptr) SSL_CTX_get0_chain_certs(context, &chain);
    TENDRIL_CHECK_AS(RpcError,
                     check &&
                         X509_STORE_CTX_init(check.get(), SSL_CTX_get_cert_store(context),
                                             SSL_CTX_get0_certificate(context), chain) == 1 &&
                         X509_STORE_CTX_set_default(check.get(), purpose) == 1,
                     "OpenSSL cannot check a certificate");
    const bool good = X509_verify_cert(check.get()) == 1;
    TENDRIL_CHECK_AS(UsageError, good, "the certificate '", files.certificate, "' would be refused by workers whose ",
                     "authority is '", files.authority,
                     "': ", X509_verify_cert_error_string(X509_STORE_CTX_get_error(check.get())),
                     " (it must be good for servers and clients)");
  }
}

}  // namespace

TlsCredentials TlsCredentials::from_files(const TlsFiles& files) {
  const std::string certificate_name = "the certificate '" + files.certificate + "'";
  const std::string key_name = "the private key '" + files.private_key + "'";
  const std::string authority_name = "the authority's certificate '" + files.authority + "'";
  TENDRIL_CHECK_AS(UsageError, !files.certificate.empty() && !files.private_key.empty() && !files.authority.empty(),
                   "TLS needs three files (TlsFiles), got ", certificate_name, ", ", key_name, " and ", authority_name);
  const auto certificate_file = detail::open_to_read(files.certificate, certificate_name);
  const auto key_file = detail::open_to_read(files.private_key, key_name);
  const auto authority_file = detail::open_to_read(files.authority, authority_name);
  detail::check_private(key_file.get(), key_name);
  struct stat info {};
  TENDRIL_CHECK_AS(UsageError, ::fstat(authority_file.get(), &info) == 0 && (info.st_mode & 002) == 0, authority_name,
                   " can be written by everybody, who could let others in: chmod o-w");
  PemText certificate, key, authority;
  read_pem(certificate_file.get(), certificate_name, certificate.text);
  read_pem(key_file.get(), key_name, key.text);
  read_pem(authority_file.get(), authority_name, authority.text);

  auto made = std::make_shared<detail::TlsContext>();
  asio::ssl::context& context = made->context;
  SSL_CTX* const native = context.native_handle();
  boost::system::error_code error;
  // Without this OpenSSL asks at the terminal.
  context.set_password_callback([](std::size_t, asio::ssl::context::password_purpose) { return std::string(); });
  context.use_certificate_chain(asio::buffer(certificate.text), error);
  check_read(error, certificate_name, "certificate");
  context.use_private_key(asio::buffer(key.text), asio::ssl::context::pem, error);
  check_read(error, key_name, "private key that fits the certificate and is not encrypted");
  context.add_certificate_authority(asio::buffer(authority.text), error);
  check_read(error, authority_name, "certificate");
  TENDRIL_CHECK_AS(UsageError, SSL_CTX_check_private_key(native) == 1, key_name, " does not belong to ",
                   certificate_name);
  context.set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert);
  constexpr std::size_t kReadAhead = 64 * 1024;     // four records: fewer system calls for tensors
  constexpr long kMaxCertificateBytes = 16 * 1024;  // of a peer's chain
  const bool set = SSL_CTX_set_min_proto_version(native, TLS1_3_VERSION) == 1 &&
                   SSL_CTX_set_num_tickets(native, 0) == 1;  // a connection is never resumed; a session is, above it
  TENDRIL_CHECK_AS(RpcError, set, "OpenSSL has no TLS 1.3");
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_max_cert_list(native, kMaxCertificateBytes);
  SSL_CTX_set_mode(native, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                               SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
  SSL_CTX_set_read_ahead(native, 1);
  SSL_CTX_set_default_read_buffer_len(native, kReadAhead);
  verify_own(native, files);
  TlsCredentials credentials;
  credentials.context_ = std::move(made);
  return credentials;
}

}  // namespace tendril::rpc
