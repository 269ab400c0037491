#pragma once

#include <memory>

#include "tendril/rpc/shared_key.h"
#include "tendril/rpc/tls_credentials.h"

namespace tendril::rpc::detail {

/// Returns a TLS context for TCP connections. It uses the certificates, the key, or, if both are empty, this user's
/// key on this host (SharedKey::of_this_user). Returns null in a simulation. Throws UsageError if this user's key can
/// neither be read nor created.
std::shared_ptr<const TlsContext> tls_context(const TlsCredentials& certificates, const SharedKey& key);

}  // namespace tendril::rpc::detail
