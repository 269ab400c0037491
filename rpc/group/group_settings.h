#pragma once

#include <cstdint>
#include <string>

#include "tendril/rpc/group.h"
#include "tendril/rpc/launch/launcher.h"

namespace tendril::rpc::detail {

/// The identity with which a worker joins a group, and the address at which the group meets.
struct GroupSettings {
  WorkerInfo self;
  int world_size = 0;
  std::string master_addr;  ///< an IP address, or a host name that has not been resolved yet
  uint16_t master_port = 0;
};

/// Merges the options with the launcher's settings; the options take precedence. Throws UsageError, which names the
/// setting that is missing or invalid, and the launcher that was detected.
GroupSettings group_settings(const std::string& name, const InitOptions& options, const Launched& launched);

/// Returns `option` or, if it is `automatic`, the transport that the environment variable's value names (null or empty:
/// unset). Throws UsageError for an unknown name.
Transport given_transport(Transport option, const char* variable);
/// Whether tensors may be sent as handles of device memory: true if the option is set or the variable is "1". Throws
/// UsageError unless the variable is unset, "0" or "1".
bool given_cuda_ipc(bool option, const char* variable);
/// Whether messages over TCP are encrypted: false if the option is false or the variable is "0". Throws like
/// `given_cuda_ipc`.
bool given_encrypt(bool option, const char* variable);

}  // namespace tendril::rpc::detail
