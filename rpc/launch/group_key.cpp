#include "tendril/rpc/launch/group_key.h"

#include <cstdlib>

#include "tendril/rpc/error.h"
#include "tendril/rpc/spawn.h"

namespace tendril::rpc::detail {

SharedKey given_key(const InitOptions& options, uint16_t master_port) {
  TENDRIL_CHECK_AS(UsageError, !options.key || options.key_file.empty(), "both a key and a key_file ('",
                   options.key_file, "') are given, expected one of them");
  if (options.key) return options.key;
  if (!options.key_file.empty()) return SharedKey::from_file(options.key_file);
  const SpawnContext* spawned = SpawnContext::current();
  if (spawned != nullptr && spawned->master_port == master_port) return spawned->key;
  const char* path = std::getenv("TENDRIL_KEY_FILE");
  return path != nullptr && *path != '\0' ? SharedKey::from_file(path) : SharedKey();
}

}  // namespace tendril::rpc::detail
