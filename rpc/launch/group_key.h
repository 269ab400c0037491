#pragma once

#include <cstdint>

#include "tendril/rpc/group.h"
#include "tendril/rpc/shared_key.h"
#include "tendril/rpc/tls_credentials.h"

namespace tendril::rpc::detail {

/// What this group's workers prove to each other over TCP: one of the two, or neither where nobody gave any.
struct GivenProof {
  SharedKey key = {};
  TlsCredentials tls = {};

  explicit operator bool() const noexcept { return key || tls; }
};

/// In this order: what the options give (a key, a key's file or certificates), the certificates that TENDRIL_TLS_*_FILE
/// name, the key of spawn() for the group whose port it chose, the file that TENDRIL_KEY_FILE names. Throws UsageError,
/// also for a key and certificates from the same source.
GivenProof given_proof(const InitOptions& options, uint16_t master_port);

}  // namespace tendril::rpc::detail
