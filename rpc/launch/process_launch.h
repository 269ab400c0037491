#pragma once

#include "tendril/rpc/launch/launcher.h"

namespace tendril::rpc::detail {

/// Who this process is: what spawn() or launch() has stated, or else what the environment says.
Launched process_launch();
/// From now on process_launch() says this.
void state_process_launch(Launched launched);

}  // namespace tendril::rpc::detail
