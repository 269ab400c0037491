#pragma once

#include <tendril/dist/autograd/graph.h>

#include <string>

namespace examples {

/// Returns a recorded graph in the DOT language of Graphviz, with one cluster per worker. Dashed arrows are messages.
/// As in `autograd::dot`, arrows point in the direction of the forward computation, leaves are blue and roots green. A
/// dashed box is a received message that was not used.
std::string dot(const tendril::dist::autograd::RecordedGraph& graph);

/// Returns the steps of a backward over the graph's messages, one DOT graph per step. Marked send nodes are yellow,
/// nodes that have their gradient are green, and nodes that will get none are dashed; the events of the step are listed
/// below. The steps are those of the real protocol, in the order in which they become possible (PassSimulation). The
/// last step shows how the backward ends: `Mode::fast` waits forever if a message is not used.
std::string dot_steps(const tendril::dist::autograd::RecordedGraph& graph, tendril::dist::autograd::Mode mode);

/// Writes the autograd graph of the loss on all workers, followed by the steps of its backward, as a Graphviz file.
/// `dot -Tsvg -O FILE` draws one picture per graph. An empty path writes nothing. Throws std::runtime_error if the file
/// cannot be written.
void write_graph(const std::string& path, const tendril::dist::autograd::Context& context, const tendril::Tensor& loss);

}  // namespace examples
