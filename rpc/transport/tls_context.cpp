// The setup of OpenSSL, partly through Asio. tls_credentials.cpp reads the files.
#include "tendril/rpc/transport/tls_context.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <boost/asio/buffer.hpp>
#include <cstring>
#include <utility>

#include "tendril/rpc/error.h"
#include "tendril/rpc/transport/tls_pem.h"

namespace tendril::rpc::detail {
namespace {

namespace asio = boost::asio;

void check_read(const boost::system::error_code& error, const std::string& name, const char* what) {
  TENDRIL_CHECK_AS(UsageError, !error, name, " holds no ", what, " in PEM format: ", error.message());
}

/// Verifies this worker's certificate as a peer will, so that one that peers would refuse is reported now.
void verify_own(SSL_CTX* context, const PemText& certificate, const PemText& authority) {
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
    TENDRIL_CHECK_AS(UsageError, good, certificate_name(certificate.file), " would be refused by workers whose ",
                     "authority is '", authority.file,
                     "': ", X509_verify_cert_error_string(X509_STORE_CTX_get_error(check.get())),
                     " (it must be good for servers and clients)");
  }
}

/// The cipher suite of connections with a pre-shared key. TLS 1.3 ties the key to the suite's hash, SHA-256.
constexpr unsigned char kKeyCipher[] = {0x13, 0x01};
constexpr const char* kKeyCipherName = "TLS_AES_128_GCM_SHA256";
/// The identity of the pre-shared key. It is sent unencrypted, so it contains nothing about the group.
constexpr char kKeyIdentity[] = "tendril 1";
constexpr std::size_t kKeyIdentityBytes = sizeof kKeyIdentity - 1;
/// OpenSSL treats a pre-shared key as a session to resume, and resumes sessions only within one session id context.
constexpr unsigned char kSessionContext[] = "tendril";

}  // namespace

TlsContext::TlsContext() {
  SSL_CTX* const native = context.native_handle();
  context.set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert);
  constexpr std::size_t kReadAhead = 64 * 1024;     // four records: fewer system calls for tensors
  constexpr long kMaxCertificateBytes = 16 * 1024;  // of a peer's chain
  const bool set = SSL_CTX_set_min_proto_version(native, TLS1_3_VERSION) == 1 &&
                   SSL_CTX_set_num_tickets(native, 0) == 1;  // sessions resume above TLS, by new connections
  TENDRIL_CHECK_AS(RpcError, set, "OpenSSL does not support TLS 1.3");
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_max_cert_list(native, kMaxCertificateBytes);
  SSL_CTX_set_mode(native, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                               SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
  SSL_CTX_set_default_read_buffer_len(native, kReadAhead);  // for TlsStream::read_ahead
}

struct TlsContext::Callbacks {
  /// Returns the index under which an SSL_CTX stores its TlsContext. (Asio uses that of SSL_CTX_set_app_data.)
  static int index() {
    static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
    return index;
  }

  /// Returns a new session that represents the pre-shared key, or null on failure.
  static SSL_SESSION* session(SSL* ssl) {
    const auto& self = *static_cast<const TlsContext*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), index()));
    const SSL_CIPHER* const cipher = SSL_CIPHER_find(ssl, kKeyCipher);
    std::unique_ptr<SSL_SESSION, void (*)(SSL_SESSION*)> made(SSL_SESSION_new(), &SSL_SESSION_free);
    const bool set = made && cipher != nullptr &&
                     SSL_SESSION_set1_master_key(made.get(), self.key_.data(), self.key_.size()) == 1 &&
                     SSL_SESSION_set_cipher(made.get(), cipher) == 1 &&
                     SSL_SESSION_set_protocol_version(made.get(), TLS1_3_VERSION) == 1 &&
                     SSL_SESSION_set1_id_context(made.get(), kSessionContext, sizeof kSessionContext) == 1;
    return set ? made.release() : nullptr;
  }
  /// Called in the client. Offers the key.
  static int offer(SSL* ssl, const EVP_MD* hash, const unsigned char** identity, std::size_t* identity_bytes,
                   SSL_SESSION** made) {
    *made = nullptr;
    if (hash != nullptr && EVP_MD_get_type(hash) != NID_sha256) return 1;
    *made = session(ssl);
    *identity = reinterpret_cast<const unsigned char*>(kKeyIdentity);
    *identity_bytes = kKeyIdentityBytes;
    return *made != nullptr ? 1 : 0;
  }
  /// Called in the server. Returns the key if the client offers its identity.
  static int find(SSL* ssl, const unsigned char* identity, std::size_t identity_bytes, SSL_SESSION** made) {
    const bool known =
        identity_bytes == kKeyIdentityBytes && std::memcmp(identity, kKeyIdentity, kKeyIdentityBytes) == 0;
    *made = known ? session(ssl) : nullptr;
    return !known || *made != nullptr ? 1 : 0;
  }
};

TlsContext::TlsContext(const SharedKey& key) : TlsContext() {
  TENDRIL_CHECK_AS(UsageError, key, "TlsContext: key: expected a shared key, got an empty one");
  has_key_ = true;
  key_origin_ = key.origin();
  SSL_CTX* const native = context.native_handle();
  constexpr char kLabel[] = "tendril tls psk 1";  // not used to derive any other key
  unsigned int bytes = 0;
  const bool derived =
      HMAC(EVP_sha256(), key.bytes().data(), static_cast<int>(key.bytes().size()),
           reinterpret_cast<const unsigned char*>(kLabel), sizeof kLabel - 1, key_.data(), &bytes) != nullptr &&
      bytes == key_.size();
  TENDRIL_CHECK_AS(RpcError,
                   derived && SSL_CTX_set_ciphersuites(native, kKeyCipherName) == 1 &&
                       SSL_CTX_set_session_id_context(native, kSessionContext, sizeof kSessionContext) == 1,
                   "OpenSSL does not support HMAC-SHA256 or ", kKeyCipherName);
  TENDRIL_CHECK_AS(RpcError, SSL_CTX_set_ex_data(native, Callbacks::index(), this) == 1, "OpenSSL is out of memory");
  SSL_CTX_set_psk_use_session_callback(native, &Callbacks::offer);
  SSL_CTX_set_psk_find_session_callback(native, &Callbacks::find);
}

TlsContext::~TlsContext() { OPENSSL_cleanse(key_.data(), key_.size()); }

PemText::PemText(std::string path) : file(std::move(path)) {}
PemText::~PemText() { OPENSSL_cleanse(text.data(), text.size()); }

std::string certificate_name(const std::string& file) { return "the certificate '" + file + "'"; }
std::string private_key_name(const std::string& file) { return "the private key '" + file + "'"; }
std::string authority_name(const std::string& file) { return "the authority's certificate '" + file + "'"; }

std::shared_ptr<const TlsContext> make_tls_context(const PemText& certificate, const PemText& key,
                                                   const PemText& authority) {
  auto made = std::make_shared<TlsContext>();
  asio::ssl::context& context = made->context;
  SSL_CTX* const native = context.native_handle();
  boost::system::error_code error;
  // Without this, OpenSSL asks for a password at the terminal.
  context.set_password_callback([](std::size_t, asio::ssl::context::password_purpose) { return std::string(); });
  context.use_certificate_chain(asio::buffer(certificate.text), error);
  check_read(error, certificate_name(certificate.file), "certificate");
  context.use_private_key(asio::buffer(key.text), asio::ssl::context::pem, error);
  check_read(error, private_key_name(key.file), "private key that fits the certificate and is not encrypted");
  context.add_certificate_authority(asio::buffer(authority.text), error);
  check_read(error, authority_name(authority.file), "certificate");
  TENDRIL_CHECK_AS(UsageError, SSL_CTX_check_private_key(native) == 1, private_key_name(key.file),
                   " does not belong to ", certificate_name(certificate.file));
  verify_own(native, certificate, authority);
  return made;
}

}  // namespace tendril::rpc::detail
