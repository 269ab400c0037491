#pragma once

#include "tendril/rpc/launch/launcher.h"

namespace tendril::rpc::detail {

/// Describes how this process was launched: as spawn() or launch() has stated, or else according to the environment.
Launched process_launch();
/// Sets the description that process_launch() returns from now on.
void record_process_launch(Launched launched);

}  // namespace tendril::rpc::detail
