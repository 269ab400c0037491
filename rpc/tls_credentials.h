#pragma once

#include <memory>
#include <string>

#include "tendril/tensor/export.h"

namespace tendril::rpc::detail {
class TlsContext;  // hidden
}

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// Paths of a worker's certificate files, in PEM format. docs/deploy.md describes how to make them.
struct TlsFiles {
  std::string certificate = {};  ///< this worker's certificate, then any between it and the authority's
  std::string private_key = {};  ///< not encrypted; only this user may read it (see SharedKey::from_file)
  std::string authority = {};    ///< one or more authorities that may have signed a member's certificate

  /// Whether no file was named.
  bool empty() const noexcept { return certificate.empty() && private_key.empty() && authority.empty(); }
};

/// Certificates for mutual TLS over TCP, which a group may use instead of a SharedKey. A worker's certificate must
/// contain its name (docs/deploy.md). Copies share the content of the files. Thread-safe.
class TlsCredentials {
 public:
  TlsCredentials() = default;  ///< no certificates
  /// Reads the files. Throws UsageError, naming the file, if a file cannot be read or is malformed, and for a
  /// certificate that the authority has not signed, that has expired, or that does not match the key. Files that change
  /// are read again, at most once a second. If the new content is invalid, the previous content stays in use.
  static TlsCredentials from_files(const TlsFiles& files);

  explicit operator bool() const noexcept { return files_ != nullptr; }  ///< whether certificates are set
  /// For internal use. Returns null if no certificates are set.
  std::shared_ptr<const detail::TlsContext> context() const;

 private:
  class Files;
  std::shared_ptr<Files> files_;
};

}  // namespace tendril::rpc

TENDRIL_API_END
