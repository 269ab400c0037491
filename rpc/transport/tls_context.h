#pragma once

#include <array>
#include <boost/asio/ssl/context.hpp>
#include <cstddef>
#include <memory>
#include <string>

#include "tendril/rpc/shared_key.h"

namespace tendril::rpc::detail {

/// The settings of all TLS connections of a worker: certificates, or a pre-shared key.
class TlsContext {
 public:
  /// For certificates, which make_tls_context (tls_pem.h) adds.
  TlsContext();
  /// For a pre-shared key (RFC 8446, 4.2.11) that is derived from `key`. Throws UsageError if `key` is empty.
  explicit TlsContext(const SharedKey& key);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  bool has_key() const noexcept { return has_key_; }  ///< rather than certificates
  /// Where the shared key comes from, for errors.
  const std::string& key_origin() const noexcept { return key_origin_; }

  boost::asio::ssl::context context{boost::asio::ssl::context::tls};

 private:
  struct Callbacks;  // called by OpenSSL

  bool has_key_ = false;
  std::string key_origin_;
  std::array<unsigned char, 32> key_{};
};

}  // namespace tendril::rpc::detail
