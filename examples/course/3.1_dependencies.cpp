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
std::string no_gradient(const Tensor& x) { return x.grad().defined() ? "x got a gradient too early" : ""; }

}  // namespace

// What a worker sent to others stands in its graph as entries, as the loss does: each gets its gradient in a message of
// its own, and when is not known.
int main() {
  check("two messages of one tensor: its node waits for both gradients", [] {
    const Tensor x = leaf(3), y = x * 2.0;
    autograd::GradSink sink;
    GraphTask task({gradient_edge(y), gradient_edge(y)}, sink);
    task.add_root(0, one());
    if (task.run()) return std::string("the run says that all is done after the first of two gradients");
    const std::string early = no_gradient(x);
    task.add_root(1, one());
    const bool done = task.run();
    return course::all({early, same(done, true), same(x.grad().item<double>(), 4.0)});
  });
  check("a message in the middle of a graph: what lies behind it waits for the graph and for the message", [] {
    const Tensor x = leaf(3), y = x * 2.0, loss = y * 5.0;
    autograd::GradSink sink;
    GraphTask task({gradient_edge(loss), gradient_edge(y)}, sink);
    task.add_root(0, one());
    if (task.run()) return std::string("the run says that all is done before the message has its gradient");
    const std::string early = no_gradient(x);
    task.add_root(1, one());
    const bool done = task.run();
    return course::all({early, same(done, true), same(x.grad().item<double>(), 2.0 * 5.0 + 2.0)});
  });
  check("a leaf that was sent as it is waits, too", [] {
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
  check("a message that nothing wanted lies behind is not waited for", [] {
    const Tensor x = leaf(3), other = leaf(4), y = x * 2.0, aside = other * 2.0;
    autograd::GradSink sink;
    GraphTask task(std::vector{gradient_edge(y), gradient_edge(aside)}, sink, {.wanted = {gradient_edge(x)}});
    task.add_root(0, one());
    return same(task.run(), true);
  });
  check("SMART: a message that will get no gradient is dropped, and what waited for it runs", [] {
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
