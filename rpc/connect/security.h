#pragma once

#include <memory>

#include "tendril/rpc/shared_key.h"
#include "tendril/rpc/tls_credentials.h"

namespace tendril::rpc::detail {

/// Returns the TLS context for TCP connections: of the certificates, of the key, or, with neither, of this user's key
/// on this host (SharedKey::of_this_user). Null in a simulation, whose network needs none. Throws UsageError if there
/// is no key.
std::shared_ptr<const TlsContext> tls_context(const TlsCredentials& certificates, const SharedKey& key);

}  // namespace tendril::rpc::detail
