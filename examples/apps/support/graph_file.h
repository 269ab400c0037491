#pragma once

#include <tendril/dist/autograd/graph.h>

#include <fstream>
#include <stdexcept>
#include <string>

namespace examples {

/// Writes the autograd graph of the loss on all workers, followed by each step of its backward, as a Graphviz file:
/// `dot -Tsvg -O FILE` draws one picture of each. An empty path writes nothing. Throws std::runtime_error if the file
/// cannot be written.
inline void write_graph(const std::string& path, const tendril::dist::autograd::Context& context,
                        const tendril::Tensor& loss) {
  if (path.empty()) return;
  namespace autograd = tendril::dist::autograd;
  const auto graph = autograd::graph(context, {loss});
  std::ofstream out(path);
  out << autograd::dot(graph) << autograd::dot_steps(graph, autograd::Mode::smart);
  out.close();
  if (!out) throw std::runtime_error("--graph: cannot write " + path);
}

}  // namespace examples
