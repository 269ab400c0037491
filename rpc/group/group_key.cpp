#include "tendril/rpc/group/group_key.h"

#include <cstdlib>
#include <string>

#include "tendril/rpc/error.h"
#include "tendril/rpc/spawn.h"

namespace tendril::rpc::detail {

namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Credentials select_credentials(const InitOptions& options, uint16_t master_port) {
  TENDRIL_CHECK_AS(UsageError, !options.key || options.key_file.empty(), "both a key and a key_file ('",
                   options.key_file, "') are given, expected one of them");
  const bool key_given = options.key || !options.key_file.empty();
  TENDRIL_CHECK_AS(UsageError, !key_given || options.tls.empty(), "both a key and certificates ('",
                   options.tls.certificate, "') are given, expected one of them");
  if (options.key) return {.key = options.key};
  if (!options.key_file.empty()) return {.key = SharedKey::from_file(options.key_file)};
  if (!options.tls.empty()) return {.tls = TlsCredentials::from_files(options.tls)};

  const std::string key_file = variable("TENDRIL_KEY_FILE");
  const TlsFiles tls{.certificate = variable("TENDRIL_TLS_CERTIFICATE_FILE"),
                     .private_key = variable("TENDRIL_TLS_PRIVATE_KEY_FILE"),
                     .authority = variable("TENDRIL_TLS_AUTHORITY_FILE")};
  TENDRIL_CHECK_AS(UsageError, key_file.empty() || tls.empty(),
                   "TENDRIL_KEY_FILE and TENDRIL_TLS_*_FILE are both set, expected a key or certificates");
  if (!tls.empty()) {
    TENDRIL_CHECK_AS(UsageError, !tls.certificate.empty() && !tls.private_key.empty() && !tls.authority.empty(),
                     "TLS needs all of TENDRIL_TLS_CERTIFICATE_FILE, TENDRIL_TLS_PRIVATE_KEY_FILE and "
                     "TENDRIL_TLS_AUTHORITY_FILE, got '",
                     tls.certificate, "', '", tls.private_key, "' and '", tls.authority, "'");
    return {.tls = TlsCredentials::from_files(tls)};
  }
  const SpawnContext* spawned = SpawnContext::current();
  if (spawned != nullptr && spawned->master_port == master_port) return {.key = spawned->key};
  return {.key = key_file.empty() ? SharedKey() : SharedKey::from_file(key_file)};
}

}  // namespace tendril::rpc::detail
