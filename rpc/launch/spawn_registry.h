#pragma once

#include <string>
#include <vector>

#include "tendril/rpc/spawn.h"

namespace tendril::rpc::detail {

/// Throws UsageError if two functions were registered under this id.
void check_spawn_entry(const char* id);
/// Returns null if no function is registered under this id.
SpawnEntry find_spawn_entry(const std::string& id);
/// Returns the program's arguments as passed to worker_main; empty before that.
const std::vector<std::string>& saved_arguments();

}  // namespace tendril::rpc::detail
