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

/// What a worker has in place of a SharedKey where connections over TCP are to be encrypted: mutual TLS 1.3. Whoever
/// has a certificate of the authority belongs to the group, whatever name is in it (docs/THREAT_MODEL.md). Copies share
/// what was read from the files, once; safe to use from any thread.
class TlsCredentials {
 public:
  TlsCredentials() = default;  ///< none
  /// Throws UsageError, naming the file, for one that cannot be read or is not what it should be, and for a certificate
  /// that the authority has not signed, that has expired, or that does not belong to the key.
  static TlsCredentials from_files(const TlsFiles& files);

  explicit operator bool() const noexcept { return context_ != nullptr; }   ///< whether there are any
  const detail::TlsContext& context() const noexcept { return *context_; }  ///< for the library's own parts

 private:
  std::shared_ptr<const detail::TlsContext> context_;
};

}  // namespace tendril::rpc

TENDRIL_API_END
