#pragma once

#include <memory>
#include <string>

namespace tendril::rpc::detail {

class TlsContext;

/// What one of TlsFiles holds. Its text is overwritten when it goes: one of them is a key.
struct PemText {
  explicit PemText(std::string path);
  ~PemText();
  PemText(const PemText&) = delete;
  PemText& operator=(const PemText&) = delete;

  const std::string file;  ///< its path
  std::string text;
};

/// What `TlsCredentials::from_files` makes of the texts. Throws UsageError, naming the file, for one that is not what
/// it should be, and for a certificate that the authority has not signed, that has expired, or that does not belong to
/// the key. No Asio here, so that the public layer needs none.
std::shared_ptr<const TlsContext> make_tls_context(const PemText& certificate, const PemText& key,
                                                   const PemText& authority);

/// How messages call them.
std::string certificate_name(const std::string& file);
std::string private_key_name(const std::string& file);
std::string authority_name(const std::string& file);

}  // namespace tendril::rpc::detail
