// Draws how the engine runs a small graph: the number of gradients that each node waits for, and the order in which
// nodes run, recorded by hooks.
#include <tendril/autograd/history.h>
#include <tendril/tendril.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "pictures.h"

using namespace tendril;

std::string engine() {
  const Tensor x = ones({3}, {.requires_grad = true}), w = ones({3}, {.requires_grad = true});
  const Tensor h = x * w;
  const Tensor loss = (h * h.tanh()).sum();

  std::map<autograd::Node*, int> waits;  // number of edges that lead to a node
  std::vector<autograd::Node*> nodes{autograd::grad_fn(loss)};
  for (std::size_t i = 0; i < nodes.size(); ++i)  // the loop appends to nodes
    for (const autograd::Edge& edge : nodes[i]->edges())
      if (edge && ++waits[edge.node.get()] == 1) nodes.push_back(edge.node.get());

  std::map<autograd::Node*, std::size_t> turn;
  const auto note = [&turn](autograd::Node* node) { turn.emplace(node, turn.size() + 1); };
  for (autograd::Node* node : nodes)
    if (!node->is_leaf()) register_pre_hook(*node, [=](std::span<Tensor>) { note(node); });
  for (const Tensor& leaf : {x, w})
    autograd::register_hook(leaf, [=, node = autograd::grad_fn(leaf)](const Tensor&) { return note(node), Tensor(); });
  autograd::backward({loss}, {}, {.retain_graph = true});

  std::map<autograd::Node*, std::string> box;
  std::string picture =
      "digraph {\n  graph [rankdir=LR]\n  node [fontname=monospace fontsize=10 height=0.2 shape=box style=filled "
      "fillcolor=gray90]\n";
  for (autograd::Node* node : nodes) {
    box[node] = "n" + std::to_string(box.size());
    const bool leaf = node->is_leaf();
    picture += "  " + box[node] + " [label=\"" + std::to_string(turn.at(node)) + ". " +
               (leaf ? node == autograd::grad_fn(x) ? "x.grad()" : "w.grad()" : node->name()) + "\\nwaits for " +
               std::to_string(std::max(waits[node], 1)) + '"' + (leaf ? " fillcolor=lightblue" : "") +
               (node == nodes.front() ? " fillcolor=darkolivegreen1" : "") + "]\n";
  }
  for (autograd::Node* node : nodes)
    for (const autograd::Edge& edge : node->edges())
      if (edge) picture += "  " + box[node] + " -> " + box[edge.node.get()] + "\n";
  return picture + "}\n";
}
