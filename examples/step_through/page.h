#pragma once

#include <string>

#include "graphs.h"

namespace step_through {

/// One HTML page, with no need of a network, that goes through the whole backward step by step: a picture of the graph
/// in which what has happened is coloured, what each worker did, and what is under way. `#7` behind its address shows
/// step 7, `#last` the last.
std::string page(const Example& example, tendril::dist::autograd::PassSimulation simulation);

}  // namespace step_through
