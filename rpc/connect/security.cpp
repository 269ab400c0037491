#include "tendril/rpc/connect/security.h"

#include "tendril/rpc/transport/network.h"
#include "tendril/rpc/transport/tls_context.h"

namespace tendril::rpc::detail {

std::shared_ptr<const TlsContext> tls_context(const TlsCredentials& certificates, const SharedKey& key) {
  if (network().is_trusted()) return nullptr;
  if (certificates) return certificates.context();
  return std::make_shared<const TlsContext>(key ? key : SharedKey::of_this_user());
}

}  // namespace tendril::rpc::detail
