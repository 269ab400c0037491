#pragma once

#include <memory>
#include <string>

#include "tendril/tensor/export.h"

namespace tendril::rpc::detail {
class TlsContext;  // hidden
}

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// Where a worker's certificate lies: three files in PEM format (docs/deploy.md says how to make them).
struct TlsFiles {
  std::string certificate = {};  ///< this worker's, then those between it and the authority, if any
  std::string private_key = {};  ///< not encrypted; nobody but this user may read it (as SharedKey::from_file)
  std::string authority = {};    ///< who may have signed a member's certificate: one or more

  /// Whether no file was named.
  bool empty() const noexcept { return certificate.empty() && private_key.empty() && authority.empty(); }
};

/// Certificates for mutual TLS over TCP, which a group may use in place of a SharedKey. A worker's certificate must
/// contain its name (docs/deploy.md). Copies share the content of the files. Thread-safe.
class TlsCredentials {
 public:
  TlsCredentials() = default;  ///< none
  /// Throws UsageError, naming the file, for one that cannot be read or is not what it should be, and for a certificate
  /// that the authority has not signed, that has expired, or that does not belong to the key. Files that change are
  /// read again, at most once a second. If the new content is invalid, the previous content stays in use.
  static TlsCredentials from_files(const TlsFiles& files);

  explicit operator bool() const noexcept { return files_ != nullptr; }  ///< whether there are any
  /// Internal. Returns null if there are no certificates.
  std::shared_ptr<const detail::TlsContext> context() const;

 private:
  class Files;
  std::shared_ptr<Files> files_;
};

}  // namespace tendril::rpc

TENDRIL_API_END
