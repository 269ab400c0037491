// Task 1.3: when a node may run. engine.cpp, GraphTask::visit.
#include <tendril/autograd/backward.h>
#include <tendril/autograd/ops/pointwise.h>
#include <tendril/tensor/creation.h>

#include "course.h"

using namespace tendril;
using course::check;
using course::same;

int main() {
  const auto leaf = [](double value) { return full({}, value, {.dtype = kFloat64, .requires_grad = true}); };
  check("a chain: d(x * 2 + 1)", [&] {
    const Tensor x = leaf(3);
    (x * 2.0 + 1.0).backward();
    return same(x.grad().item<double>(), 2.0);
  });
  check("a leaf used twice receives the sum: d(x * x)", [&] {
    const Tensor x = leaf(3);
    (x * x).backward();
    return same(x.grad().item<double>(), 6.0);
  });
  check("a result used twice waits for both gradients: d(y + y * y), y = 2 x", [&] {
    const Tensor x = leaf(3);
    const Tensor y = x * 2.0;
    (y + y * y).backward();
    return same(x.grad().item<double>(), 2.0 + 8.0 * 3.0);
  });
  check("a diamond inside a diamond", [&] {
    const Tensor x = leaf(2);
    const Tensor a = x * x, b = a + a * x, c = b * a + b;
    c.backward();  // c = (x^2 + x^3)(x^2 + 1) = x^5 + x^4 + x^3 + x^2
    return same(x.grad().item<double>(), 5 * 16.0 + 4 * 8.0 + 3 * 4.0 + 2 * 2.0);
  });
  check("only the requested gradient: grad of one of two leaves", [&] {
    const Tensor x = leaf(3), y = leaf(4);
    const Tensor gradient = autograd::grad({x * y}, {y})[0];
    return same(gradient.item<double>(), 3.0) + (x.grad().defined() ? "x also received a gradient" : "");
  });
  check("2^40 paths, 80 nodes: each node is visited once", [&] {
    const Tensor x = leaf(1);
    Tensor y = x;
    for (int i = 0; i < 40; ++i) y = (y + y) * 0.5;
    y.backward();
    return same(x.grad().item<double>(), 1.0);
  });
  check("a chain of 200000 nodes: no recursion", [&] {
    const Tensor x = leaf(1);
    Tensor y = x;
    for (int i = 0; i < 200000; ++i) y = y * 1.0;
    y.backward();
    return same(x.grad().item<double>(), 1.0);
  });
  return course::result();
}
