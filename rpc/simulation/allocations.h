#pragma once

namespace tendril::rpc::detail {

class World;

/// Makes allocations fail for a simulation. This library replaces the program's operators new and delete, unless the
/// program defines its own. Each operator new calls `World::allocation_fails` on the world that is set here.
class Allocations {
 public:
  static void fail_for(World* world) noexcept;  ///< null: no allocation fails
  /// Returns whether the program uses this library's operators.
  static bool can_fail();
};

}  // namespace tendril::rpc::detail
