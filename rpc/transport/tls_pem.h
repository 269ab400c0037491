#pragma once

#include <memory>
#include <string>

namespace tendril::rpc::detail {

class TlsContext;

/// The contents of one of the TlsFiles. The destructor overwrites the text, because one of the files is a private key.
struct PemText {
  explicit PemText(std::string path);
  ~PemText();
  PemText(const PemText&) = delete;
  PemText& operator=(const PemText&) = delete;

  const std::string file;  ///< path
  std::string text;
};

/// Makes the context for `TlsCredentials::from_files`. Throws UsageError, which names the file, if a text is not valid
/// PEM of the expected kind, or if the certificate is not signed by the authority, has expired, or does not belong to
/// the key. Declared without Asio, so that the public layer does not include it.
std::shared_ptr<const TlsContext> make_tls_context(const PemText& certificate, const PemText& key,
                                                   const PemText& authority);

/// The names of the files in error texts.
std::string certificate_name(const std::string& file);
std::string private_key_name(const std::string& file);
std::string authority_name(const std::string& file);

}  // namespace tendril::rpc::detail
