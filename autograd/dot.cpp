#include "tendril/autograd/dot.h"

#include <algorithm>
#include <sstream>
#include <unordered_map>

#include "tendril/autograd/history.h"

namespace tendril::autograd {

namespace {

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string shape(const Dims& sizes) {
  std::ostringstream out;
  out << '(';
  for (int d = 0; d < sizes.size(); ++d) out << (d ? ", " : "") << sizes[d];
  out << ')';
  return out.str();
}

class Picture {
 public:
  explicit Picture(const DotOptions& options) : show_saved_(options.show_saved) {
    for (const auto& [name, tensor] : options.params) {
      TENDRIL_CHECK(tensor.defined(), "dot: the parameter '", name, "' is undefined");
      if (const Node* node = grad_fn(tensor)) names_.emplace(node, name);
    }
  }

  void add_result(const Tensor& tensor, const char* color) {
    if (!is_new(tensor.impl())) return;
    Node* const node = grad_fn(tensor);
    const auto found = node && node->is_leaf() ? names_.find(node) : names_.end();
    box(tensor.impl(), (found == names_.end() ? "" : found->second) + "\\n " + shape(tensor.sizes()), color);
    if (node) {
      add_graph(*node);
      arrow(node, tensor.impl());
    }
    if (const Ref<TensorImpl>& base = tensor.impl()->view_base) {
      add_result(Tensor(base), "darkolivegreen3");
      arrow(base.get(), tensor.impl(), " [style=dotted]");
    }
  }

  std::string text() const {
    return "digraph {\n  graph [size=\"12,12\"]\n  node [align=left fontname=monospace fontsize=10 height=0.2 "
           "ranksep=0.1 shape=box style=filled]\n" +
           out_.str() + "}\n";
  }

 private:
  bool is_new(const void* thing) { return numbers_.emplace(thing, numbers_.size()).second; }

  void box(const void* thing, const std::string& label, const char* color = nullptr) {
    out_ << "  n" << numbers_.at(thing) << " [label=\"" << label << '"';
    if (color) out_ << " fillcolor=" << color;
    out_ << "]\n";
  }
  void arrow(const void* from, const void* to, const char* style = "") {
    out_ << "  n" << numbers_.at(from) << " -> n" << numbers_.at(to) << style << '\n';
  }

  void add_graph(const Node& start) {
    std::vector<const Node*> waiting;
    const auto enter = [&](const Node& node) {
      if (is_new(&node)) waiting.push_back(&node);
    };
    enter(start);
    while (!waiting.empty()) {
      const Node& node = *waiting.back();
      waiting.pop_back();
      box(&node, escaped(node.name()));
      if (node.is_leaf()) add_leaf(node);
      if (show_saved_) add_saved(node);
      for (const Edge& edge : node.edges()) {
        if (!edge) continue;
        enter(*edge.node);
        arrow(edge.node.get(), &node);
      }
    }
  }

  /// A leaf's node does not hold the leaf: its box stands for whatever tensor it is.
  void add_leaf(const Node& node) {
    const void* const leaf = node.outputs().data();
    if (!is_new(leaf)) return;
    const auto found = names_.find(&node);
    box(leaf, (found == names_.end() ? "" : escaped(found->second)) + "\\n " + shape(node.outputs()[0].sizes),
        "lightblue");
    arrow(leaf, &node);
  }

  void add_saved(const Node& node) {
    for (std::size_t i = 0; i < node.saved_tensors().size(); ++i) {
      const TensorImpl* const saved = node.saved_tensors()[i].peek();
      if (!saved) continue;
      const void* const place = &node.saved_tensors()[i];
      is_new(place);
      box(place, "saved " + std::to_string(i) + "\\n " + shape(saved->sizes), "orange");
      arrow(&node, place, " [dir=none]");
    }
  }

  const bool show_saved_;
  std::unordered_map<const void*, std::size_t> numbers_;
  std::unordered_map<const Node*, std::string> names_;
  std::ostringstream out_;
};

}  // namespace

std::string dot(const std::vector<Tensor>& roots, const DotOptions& options) {
  for (std::size_t i = 0; i < roots.size(); ++i) TENDRIL_CHECK(roots[i].defined(), "dot: tensor ", i, " is undefined");
  Picture picture(options);
  for (const Tensor& root : roots) picture.add_result(root, "darkolivegreen1");
  return picture.text();
}
std::string dot(const Tensor& root, const DotOptions& options) { return dot(std::vector<Tensor>{root}, options); }

}  // namespace tendril::autograd
