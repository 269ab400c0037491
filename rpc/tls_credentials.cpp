#include "tendril/rpc/tls_credentials.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <exception>
#include <mutex>
#include <system_error>
#include <utility>

#include "tendril/rpc/clock.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/system/log.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/system/private_file.h"
#include "tendril/rpc/transport/tls_pem.h"

namespace tendril::rpc {
namespace {

constexpr std::size_t kMaxPemBytes = std::size_t{1} << 20;

void read_pem(int file, const std::string& name, std::string& text) {
  text.resize(kMaxPemBytes + 1);  // a growing string would leave copies of the key in freed memory
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

std::shared_ptr<const detail::TlsContext> read_files(const TlsFiles& files) {
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
                   " is writable by every user, who could add an authority: chmod o-w");
  detail::PemText certificate(files.certificate), key(files.private_key), authority(files.authority);
  read_pem(certificate_file.get(), certificate_name, certificate.text);
  read_pem(key_file.get(), key_name, key.text);
  read_pem(authority_file.get(), authority_name, authority.text);
  return detail::make_tls_context(certificate, key, authority);
}

/// Identifies the current content of the files: changes if a file is replaced or written to.
using Version = std::array<std::array<int64_t, 5>, 3>;

Version version_of(const TlsFiles& files) {
  Version version{};
  std::size_t at = 0;
  for (const std::string* file : {&files.certificate, &files.private_key, &files.authority}) {
    struct stat info {};
    if (::stat(file->c_str(), &info) == 0) {
      version[at] = {static_cast<int64_t>(info.st_dev), static_cast<int64_t>(info.st_ino), info.st_size,
                     info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
    }
    ++at;
  }
  return version;
}

}  // namespace

class TlsCredentials::Files {
 public:
  explicit Files(TlsFiles names)
      : names_(std::move(names)), version_(version_of(names_)), context_(read_files(names_)) {}

  std::shared_ptr<const detail::TlsContext> context() {
    const Clock::time_point now = Clock::now();
    const std::lock_guard lock(mutex_);
    if (now < next_look_) return context_;
    next_look_ = now + kInterval;
    const Version version = version_of(names_);
    if (version == version_) return context_;
    try {
      context_ = read_files(names_);
      version_ = version;
    } catch (const std::exception& e) {  // retried later, because a certificate may not be valid yet
      if (std::exchange(logged_, version) != version) {
        detail::log(detail::LogLevel::warn, "",
                    std::string("rpc: changed TLS files are invalid, the previous content stays in use: ") + e.what());
      }
    }
    return context_;
  }

 private:
  static constexpr std::chrono::seconds kInterval{1};  // limits how often connections wait for the file system

  const TlsFiles names_;
  detail::Mutex mutex_;
  Version version_, logged_{};
  Clock::time_point next_look_{};
  std::shared_ptr<const detail::TlsContext> context_;
};

TlsCredentials TlsCredentials::from_files(const TlsFiles& files) {
  TlsCredentials credentials;
  credentials.files_ = std::make_shared<Files>(files);
  return credentials;
}

std::shared_ptr<const detail::TlsContext> TlsCredentials::context() const {
  return files_ ? files_->context() : nullptr;
}

}  // namespace tendril::rpc
