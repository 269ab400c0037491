#include "tendril/autograd/backward.h"

#include <algorithm>

#include "tendril/autograd/engine.h"
#include "tendril/autograd/history.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/raw.h"

namespace tendril::autograd {

namespace {

Tensor root_gradient(const Tensor& root, const Tensor& given, std::size_t i) {
  if (!given.defined()) {
    TENDRIL_CHECK_AS(AutogradError, root.numel() == 1,
                     "grad can be implicitly created only for scalar outputs, output ", i, " has shape ", root.sizes());
    return raw::ones(root.sizes(), root.dtype(), root.device());
  }
  TENDRIL_CHECK_AS(ShapeError, given.sizes() == root.sizes(), "Mismatch in shape: grad_output[", i, "] has a shape of ",
                   given.sizes(), " and output[", i, "] has a shape of ", root.sizes(), ".");
  TENDRIL_CHECK_AS(DTypeError, given.dtype() == root.dtype(), "Mismatch in dtype: grad_output[", i, "] is ",
                   given.dtype(), " and output[", i, "] is ", root.dtype(), ".");
  return given;
}

void run(std::span<const Tensor> roots, std::span<const Tensor> gradients, GradientSink& sink,
         GraphTask::Options options, const char* op) {
  TENDRIL_CHECK_AS(AutogradError, gradients.empty() || gradients.size() == roots.size(), "got ", roots.size(),
                   " tensors and ", gradients.size(), " gradients");
  std::vector<Edge, memory::Allocator<Edge>> entries;
  std::vector<Tensor, memory::Allocator<Tensor>> values;
  entries.reserve(roots.size());
  values.reserve(roots.size());
  for (std::size_t i = 0; i < roots.size(); ++i) {
    TENDRIL_CHECK(roots[i].defined(), op, ": tensor ", i, " is undefined");
    TENDRIL_CHECK_AS(AutogradError, requires_grad(roots[i]), "element ", i,
                     " of tensors does not require grad and does not have a grad_fn");
    entries.push_back(gradient_edge(roots[i]));
    values.push_back(root_gradient(roots[i], gradients.empty() ? Tensor() : gradients[i], i));
  }
  GraphTask task(entries, sink, std::move(options));
  for (std::size_t i = 0; i < entries.size(); ++i) task.add_root(i, std::move(values[i]));
  task.run();
}

void run_to_leaves(std::span<const Tensor> roots, std::span<const Tensor> gradients, const BackwardOptions& options) {
  GradSink sink;
  std::vector<Edge> wanted;
  for (const Tensor& input : options.inputs) {
    TENDRIL_CHECK(input.defined(), "backward: input ", wanted.size(), " is undefined");
    TENDRIL_CHECK_AS(AutogradError, input.requires_grad() && input.is_leaf(), "backward: input ", wanted.size(),
                     input.requires_grad() ? " is no leaf" : " does not require grad",
                     ", expected a leaf that requires a gradient");
    wanted.push_back(gradient_edge(input));
  }
  run(roots, gradients, sink,
      {.retain_graph = options.retain_graph || options.create_graph,
       .create_graph = options.create_graph,
       .wanted = std::move(wanted)},
      "backward");
}

struct CaptureSink final : GradientSink {
  explicit CaptureSink(const std::vector<Edge>& wanted) : targets(wanted), captured(wanted.size()) {
    places.reserve(wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) places.push_back(i);
    std::sort(places.begin(), places.end(),
              [&](std::size_t a, std::size_t b) { return EdgeOrder()(targets[a], targets[b]); });
  }

  void accumulate(const Edge& target, Tensor gradient) override {
    auto found = std::lower_bound(places.begin(), places.end(), target, [&](std::size_t place, const Edge& sought) {
      return EdgeOrder()(targets[place], sought);
    });
    for (; found != places.end() && targets[*found] == target; ++found) captured[*found] = gradient;
  }

  const std::vector<Edge>& targets;
  std::vector<Tensor> captured;
  std::vector<std::size_t> places;  // in `targets`, in their EdgeOrder
};

}  // namespace

void backward(const std::vector<Tensor>& roots, const std::vector<Tensor>& gradients, BackwardOptions options) {
  run_to_leaves(roots, gradients, options);
}

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& grad_outputs, GradOptions options) {
  TENDRIL_CHECK_AS(AutogradError, !inputs.empty(), "grad requires non-empty inputs.");
  std::vector<Edge> targets;
  for (const Tensor& input : inputs) {
    TENDRIL_CHECK(input.defined(), "grad: input ", targets.size(), " is undefined");
    TENDRIL_CHECK_AS(AutogradError, requires_grad(input), "One of the differentiated Tensors does not require grad");
    targets.push_back(gradient_edge(input));
  }
  CaptureSink sink(targets);
  run(outputs, grad_outputs, sink,
      {.retain_graph = options.retain_graph || options.create_graph,
       .create_graph = options.create_graph,
       .wanted = targets},
      "grad");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Tensor& gradient = sink.captured[i];
    if (options.materialize_grads && !gradient.defined()) gradient = zeros_like(inputs[i]);
    TENDRIL_CHECK_AS(AutogradError, options.allow_unused || gradient.defined(),
                     "One of the differentiated Tensors appears to not have been used in the graph. Set "
                     "allow_unused = true if this is the desired behavior.");
  }
  return std::move(sink.captured);
}

}  // namespace tendril::autograd

namespace tendril {

void Tensor::backward(const Tensor& gradient) const { backward(gradient, autograd::BackwardOptions()); }
// NOLINTNEXTLINE(performance-unnecessary-value-param): by value, so that braces name it
void Tensor::backward(const Tensor& gradient, autograd::BackwardOptions options) const {
  autograd::run_to_leaves({this, 1}, {&gradient, 1}, options);
}
void Tensor::backward(autograd::BackwardOptions options) const { backward(Tensor(), std::move(options)); }

}  // namespace tendril
