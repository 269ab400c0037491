#pragma once

#include <string>

#include "graphs.h"

namespace step_through {

/// Returns one HTML page that steps through the whole backward pass and needs no network. It shows the graph with the
/// progress in colours, each worker's actions, and the messages in transit. `#7` after its address opens step 7,
/// `#last` the last step.
std::string page(const Example& example, ::examples::PassSimulation simulation);

}  // namespace step_through
