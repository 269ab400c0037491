// Task 3.1: FAST's dependency counts. engine.cpp, GraphTask's constructor; docs/distributed_autograd.md.
#include <tendril/autograd/engine.h>
#include <tendril/autograd/history.h>
#include <tendril/autograd/ops/pointwise.h>
#include <tendril/tensor/creation.h>

#include <vector>

#include "course.h"

using namespace tendril;
using autograd::gradient_edge;
using autograd::GraphTask;
using course::check;
using course::same;

namespace {

Tensor leaf(double value) { return full({}, value, {.dtype = kFloat64, .requires_grad = true}); }
Tensor one() { return full({}, 1.0, {.dtype = kFloat64}); }
std::string no_gradient(const Tensor& x) { return x.grad().defined() ? "x received a gradient too early" : ""; }

}  // namespace

// Tensors that a worker sent are roots of its graph, like the loss. Each root receives its gradient in a separate
// message, at an unknown time.
int main() {
  check("a tensor sent in two messages waits for both gradients", [] {
    const Tensor x = leaf(3), y = x * 2.0;
    autograd::GradSink sink;
    GraphTask task({gradient_edge(y), gradient_edge(y)}, sink);
    task.add_root(0, one());
    if (task.run()) return std::string("run() returned true after the first of two gradients");
    const std::string early = no_gradient(x);
    task.add_root(1, one());
    const bool done = task.run();
    return course::all({early, same(done, true), same(x.grad().item<double>(), 4.0)});
  });
  check("a tensor sent from inside the graph waits for the graph's and the message's gradients", [] {
    const Tensor x = leaf(3), y = x * 2.0, loss = y * 5.0;
    autograd::GradSink sink;
    GraphTask task({gradient_edge(loss), gradient_edge(y)}, sink);
    task.add_root(0, one());
    if (task.run()) return std::string("run() returned true before the message's gradient arrived");
    const std::string early = no_gradient(x);
    task.add_root(1, one());
    const bool done = task.run();
    return course::all({early, same(done, true), same(x.grad().item<double>(), 2.0 * 5.0 + 2.0)});
  });
  check("a leaf that was sent directly waits, too", [] {
    const Tensor x = leaf(3), loss = x * 5.0;
    autograd::GradSink sink;
    GraphTask task({gradient_edge(loss), gradient_edge(x)}, sink);
    task.add_root(0, one());
    task.run();
    const std::string early = no_gradient(x);
    task.add_root(1, one());
    const bool done = task.run();
    return course::all({early, same(done, true), same(x.grad().item<double>(), 6.0)});
  });
  check("a message that no requested gradient depends on is not waited for", [] {
    const Tensor x = leaf(3), other = leaf(4), y = x * 2.0, aside = other * 2.0;
    autograd::GradSink sink;
    GraphTask task(std::vector{gradient_edge(y), gradient_edge(aside)}, sink, {.wanted = {gradient_edge(x)}});
    task.add_root(0, one());
    return same(task.run(), true);
  });
  check("SMART: after a message without a gradient is dropped, the nodes that waited for it run", [] {
    const Tensor x = leaf(3), y = x * 2.0, loss = y * 5.0;
    autograd::GradSink sink;
    GraphTask task({gradient_edge(loss), gradient_edge(y)}, sink);
    task.add_root(0, one());
    task.run();
    task.drop_root(1);
    const bool done = task.run();
    return same(done, true) + same(x.grad().item<double>(), 10.0);
  });
  return course::result();
}
