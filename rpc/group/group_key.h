#pragma once

#include <cstdint>

#include "tendril/rpc/group.h"
#include "tendril/rpc/shared_key.h"
#include "tendril/rpc/tls_credentials.h"

namespace tendril::rpc::detail {

/// The credentials with which the workers of a group authenticate each other over TCP: a key, certificates, or neither
/// if none were given.
struct Credentials {
  SharedKey key = {};
  TlsCredentials tls = {};

  explicit operator bool() const noexcept { return key || tls; }
};

/// Selects the credentials. In order of precedence: those in the options (a key, a key file or certificates); the
/// certificates that TENDRIL_TLS_*_FILE name; the key that spawn() made, for the group whose port it chose; the key in
/// the file that TENDRIL_KEY_FILE names. Throws UsageError, also for a key and certificates from the same source.
Credentials select_credentials(const InitOptions& options, uint16_t master_port);

}  // namespace tendril::rpc::detail
