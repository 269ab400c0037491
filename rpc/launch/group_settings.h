#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tendril/rpc/group.h"

namespace tendril::rpc::detail {

/// Where and as whom a worker joins.
struct GroupSettings {
  WorkerInfo self;
  int world_size = 0;
  std::string master_addr;  ///< an IP address, checked to be of this host's loopback
  uint16_t master_port = 0;
};

/// `environment` returns a variable's value, or null. Throws UsageError naming what is missing, malformed or refused.
GroupSettings group_settings(const std::string& name, const InitOptions& options,
                             const std::function<const char*(const char*)>& environment);

}  // namespace tendril::rpc::detail
