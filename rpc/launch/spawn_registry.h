#pragma once

#include <string>
#include <vector>

#include "tendril/rpc/spawn.h"

namespace tendril::rpc::detail {

/// Throws UsageError if two functions were registered under this id.
void check_spawn_entry(const char* id);
/// Null if there is none.
SpawnEntry find_spawn_entry(const std::string& id);
/// The program's arguments as worker_main saw them; empty before.
const std::vector<std::string>& saved_arguments();

}  // namespace tendril::rpc::detail
