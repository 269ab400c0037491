#include "tendril/rpc/tls_credentials.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "tendril/rpc/error.h"
#include "tendril/rpc/transport/private_file.h"
#include "tendril/rpc/transport/tls_pem.h"

namespace tendril::rpc {
namespace {

constexpr std::size_t kMaxPemBytes = std::size_t{1} << 20;

void read_pem(int file, const std::string& name, std::string& text) {
  text.resize(kMaxPemBytes + 1);  // once: a string that grows leaves copies behind
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t n = ::read(file, text.data() + size, text.size() - size);
    if (n < 0 && errno == EINTR) continue;
    TENDRIL_CHECK_AS(UsageError, n >= 0, name, " cannot be read: ", std::generic_category().message(errno));
    if (n == 0) break;
    size += static_cast<std::size_t>(n);
  }
  TENDRIL_CHECK_AS(UsageError, size <= kMaxPemBytes, name, " has more than ", kMaxPemBytes, " bytes");
  text.resize(size);
}

}  // namespace

TlsCredentials TlsCredentials::from_files(const TlsFiles& files) {
  const std::string certificate_name = detail::certificate_name(files.certificate);
  const std::string key_name = detail::private_key_name(files.private_key);
  const std::string authority_name = detail::authority_name(files.authority);
  TENDRIL_CHECK_AS(UsageError, !files.certificate.empty() && !files.private_key.empty() && !files.authority.empty(),
                   "TLS needs three files (TlsFiles), got ", certificate_name, ", ", key_name, " and ", authority_name);
  const auto certificate_file = detail::open_to_read(files.certificate, certificate_name);
  const auto key_file = detail::open_to_read(files.private_key, key_name);
  const auto authority_file = detail::open_to_read(files.authority, authority_name);
  detail::check_private(key_file.get(), key_name);
  struct stat info {};
  TENDRIL_CHECK_AS(UsageError, ::fstat(authority_file.get(), &info) == 0 && (info.st_mode & 002) == 0, authority_name,
                   " can be written by everybody, who could let others in: chmod o-w");
  detail::PemText certificate(files.certificate), key(files.private_key), authority(files.authority);
  read_pem(certificate_file.get(), certificate_name, certificate.text);
  read_pem(key_file.get(), key_name, key.text);
  read_pem(authority_file.get(), authority_name, authority.text);
  TlsCredentials credentials;
  credentials.context_ = detail::make_tls_context(certificate, key, authority);
  return credentials;
}

}  // namespace tendril::rpc
