#include "graph_picture.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

#include "pass_simulation.h"

namespace examples {

using namespace tendril::dist::autograd;

namespace {

using Kind = RecordedNode::Kind;

constexpr const char* kHead =
    "  graph [rankdir=LR fontname=monospace fontsize=10]\n"
    "  node [align=left fontname=monospace fontsize=10 height=0.2 shape=box style=filled]\n";

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result;
}

std::string shapes_of(const RecordedNode& node) {
  std::ostringstream out;
  for (const auto& sizes : node.shapes) {
    out << "\\n(";
    for (std::size_t d = 0; d < sizes.size(); ++d) out << (d ? ", " : "") << sizes[d];
    out << ')';
  }
  return out.str();
}

std::string name_of(MessageId message) {
  return std::to_string(worker_of(message)) + "." + std::to_string(number_of(message));
}
/// Returns the DOT name of a message's box: s0_1 or r0_1.
std::string box_of(char kind, MessageId message) {
  return std::string(1, kind) + std::to_string(worker_of(message)) + "_" + std::to_string(number_of(message));
}
std::string box_of(const RecordedPart& part, std::size_t node) {
  const RecordedNode& one = part.nodes[node];
  if (one.kind == Kind::send) return box_of('s', one.message);
  if (one.kind == Kind::recv) return box_of('r', one.message);
  std::ostringstream box;
  box << 'w' << part.rank << '_' << node;
  return box.str();
}

void open_cluster(std::ostream& out, WorkerId rank, const std::string& label) {
  out << "  subgraph cluster_" << rank << " {\n  label=\"" << label << "\"\n";
}

std::string label_of(const RecordedPart& part) {
  return "rank " + std::to_string(part.rank) + ": " + escaped(part.worker);
}

/// Returns the messages to each worker that are not in its part, because they are not used there.
std::map<WorkerId, std::set<MessageId>> unused_messages(const RecordedGraph& graph) {
  std::map<WorkerId, std::set<MessageId>> unused;
  for (const RecordedPart& part : graph.parts) {
    for (const RecordedNode& node : part.nodes) {
      if (node.kind == Kind::send) unused[node.peer].insert(node.message);
    }
  }
  for (const RecordedPart& part : graph.parts) {
    for (const RecordedNode& node : part.nodes) {
      if (node.kind == Kind::recv) unused[part.rank].erase(node.message);
    }
  }
  return unused;
}

void draw_part(std::ostream& out, const RecordedPart& part, const std::set<MessageId>& unused) {
  open_cluster(out, part.rank, label_of(part));
  for (std::size_t i = 0; i < part.nodes.size(); ++i) {
    const RecordedNode& node = part.nodes[i];
    const std::string box = box_of(part, i);
    out << "  " << box << " [label=\"";
    switch (node.kind) {
      case Kind::send:
        out << "send " << name_of(node.message) << shapes_of(node) << "\" fillcolor=lightyellow]\n";
        break;
      case Kind::recv:
        out << "receive " << name_of(node.message) << shapes_of(node) << "\" fillcolor=lightyellow]\n";
        break;
      case Kind::leaf:
        out << escaped(node.name) << shapes_of(node) << "\" fillcolor=lightblue]\n";
        break;
      case Kind::operation:
        out << escaped(node.name) << "\"]\n";
        break;
    }
    if (node.root)
      out << "  root_" << box << " [label=\"root\" fillcolor=darkolivegreen1]\n  " << box << " -> root_" << box << '\n';
    for (const uint32_t next : node.next) out << "  " << box_of(part, next) << " -> " << box << '\n';
  }
  for (const MessageId message : unused)
    out << "  " << box_of('r', message) << " [label=\"receive " << name_of(message) << "\\nnot used\" style=dashed]\n";
  out << "  }\n";
}

// ---- steps

const char* style_of(const PassSimulation::SendState& state) {
  if (state.fed) return "fillcolor=palegreen";
  if (state.dropped) return "style=dashed";
  return state.marked ? "fillcolor=gold" : "fillcolor=gray90";
}

/// Draws the messages in their current state, above `caption`.
void draw_step(std::ostream& out, const RecordedGraph& graph, const SimulatedGraph& messages,
               const PassSimulation& simulation, const std::string& caption) {
  out << "digraph {\n" << kHead << "  label=\"" << caption << "\" labeljust=l\n";
  for (const RecordedPart& part : graph.parts) {
    open_cluster(out, part.rank, label_of(part));
    for (const auto& [id, message] : messages) {
      if (message.sender == part.rank)
        out << "  " << box_of('s', id) << " [label=\"send " << name_of(id) << "\" "
            << style_of(simulation.send_state(id)) << "]\n";
      if (message.receiver == part.rank)
        out << "  " << box_of('r', id) << " [label=\"receive " << name_of(id) << "\" "
            << (simulation.has_run(id) ? "fillcolor=palegreen" : "fillcolor=gray90") << "]\n";
    }
    if (part.rank == graph.root) out << "  root [label=\"root\" fillcolor=darkolivegreen1]\n";
    out << "  }\n";
  }
  for (const auto& [id, message] : messages) {
    out << "  " << box_of('s', id) << " -> " << box_of('r', id) << " [style=dashed]\n";
    for (const MessageId user : message.users) out << "  " << box_of('r', id) << " -> " << box_of('s', user) << '\n';
    if (message.used_by_root) out << "  " << box_of('r', id) << " -> root\n";
  }
  out << "}\n";
}

}  // namespace

std::string dot(const RecordedGraph& graph) {
  std::ostringstream out;
  out << "digraph {\n" << kHead;
  const auto unused = unused_messages(graph);
  for (const RecordedPart& part : graph.parts) {
    const auto found = unused.find(part.rank);
    draw_part(out, part, found == unused.end() ? std::set<MessageId>() : found->second);
  }
  for (const RecordedPart& part : graph.parts) {
    for (const RecordedNode& node : part.nodes) {
      if (node.kind == Kind::send)
        out << "  " << box_of('s', node.message) << " -> " << box_of('r', node.message) << " [style=dashed]\n";
    }
  }
  out << "}\n";
  return out.str();
}

std::string dot_steps(const RecordedGraph& graph, Mode mode) {
  const SimulatedGraph messages = messages_of(graph);
  WorkerId last = graph.root;
  for (const RecordedPart& part : graph.parts) last = std::max(last, part.rank);
  PassSimulation simulation(messages, {.workers = last + 1, .fast = mode == Mode::fast, .root = graph.root});
  std::ostringstream out;
  std::size_t written = 0, step = 0;
  const auto draw = [&](const std::string& end) {
    std::string caption = "step " + std::to_string(step++) + "\\l";
    for (; written < simulation.transcript().size(); ++written)
      caption += escaped(simulation.transcript()[written]) + "\\l";
    draw_step(out, graph, messages, simulation, caption + end);
  };
  const auto end = [&] {
    if (!simulation.events().empty()) return "";
    return simulation.finished() ? "backward returns\\l" : "nothing happens any more: FAST waits for ever\\l";
  };
  simulation.start();
  draw(end());
  while (!simulation.events().empty()) {
    simulation.happen(0);
    draw(end());
  }
  return out.str();
}

void write_graph(const std::string& path, const Context& context, const tendril::Tensor& loss) {
  if (path.empty()) return;
  const RecordedGraph graph = tendril::dist::autograd::graph(context, {loss});
  std::ofstream out(path);
  out << dot(graph) << dot_steps(graph, Mode::smart);
  out.close();
  if (!out) throw std::runtime_error("--graph: cannot write " + path);
}

}  // namespace examples
