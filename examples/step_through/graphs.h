#pragma once

#include <string>
#include <vector>

#include "../apps/graphs/pass_simulation.h"

namespace step_through {

/// A small program on several workers, as its recorded graph.
struct Example {
  std::string name, program;  ///< `program` describes the workers' computation to the reader
  int workers = 2;
  ::examples::SimulatedGraph graph;
};

const std::vector<Example>& examples();

}  // namespace step_through
