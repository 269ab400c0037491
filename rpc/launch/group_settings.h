#pragma once

#include <cstdint>
#include <string>

#include "tendril/rpc/group.h"
#include "tendril/rpc/launch/launcher.h"

namespace tendril::rpc::detail {

/// Where and as whom a worker joins.
struct GroupSettings {
  WorkerInfo self;
  int world_size = 0;
  std::string master_addr;  ///< an IP address, or a name that has yet to be resolved
  uint16_t master_port = 0;
};

/// The options win over what the launcher says. Throws UsageError naming what is missing, malformed or refused, and who
/// was taken for the launcher.
GroupSettings group_settings(const std::string& name, const InitOptions& options, const Launched& launched);

/// What the options say, or, where they leave it open, the environment (null: nothing). Throws UsageError.
Transport given_transport(Transport option, const char* variable);
/// Likewise, whether tensors may go as handles of device memory: "1" or "0". Throws UsageError.
bool given_cuda_ipc(bool option, const char* variable);
/// Likewise, whether messages over TCP are encrypted.
bool given_encrypt(bool option, const char* variable);

}  // namespace tendril::rpc::detail
