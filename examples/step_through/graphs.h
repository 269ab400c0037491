#pragma once

#include <string>
#include <vector>

#include "tendril/dist/autograd/pass_simulation.h"

namespace step_through {

/// A small program over several workers, as what it has recorded.
struct Example {
  std::string name, program;  ///< what the workers computed, for people
  int workers = 2;
  tendril::dist::autograd::SimulatedGraph graph;
};

const std::vector<Example>& examples();

}  // namespace step_through
