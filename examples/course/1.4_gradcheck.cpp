// Task 1.4: derivatives by finite differences. gradcheck.cpp, Checker::differences.
#include <tendril/autograd/gradcheck.h>
#include <tendril/autograd/ops/pointwise.h>
#include <tendril/tensor/creation.h>

#include <algorithm>
#include <vector>

#include "course.h"

using namespace tendril;
using course::check;
using course::same;
using Tensors = std::vector<Tensor>;

int main() {
  manual_seed(1);
  const auto draw = [](const Dims& sizes) { return rand(sizes, {.dtype = kFloat64, .requires_grad = true}) + 0.5; };
  const auto leaf = [&](const Dims& sizes) { return draw(sizes).detach().requires_grad_(); };
  const auto accepts = [](const char* name, const autograd::DifferentiableFunction& f, const Tensors& inputs) {
    check(name, [&]() -> std::string {
      const auto result = autograd::gradcheck(f, inputs);
      return result.ok ? "" : result.message;
    });
  };
  accepts("x * x", [](const Tensors& in) { return Tensors{in[0] * in[0]}; }, {leaf({3})});
  accepts("two inputs and two outputs, with broadcasting",
          [](const Tensors& in) {
            return Tensors{in[0] * in[1], in[0].exp() + in[1].sum()};
          },
          {leaf({2, 3}), leaf({2, 1})});
  accepts("no elements", [](const Tensors& in) { return Tensors{in[0] * 2.0}; }, {leaf({0})});
  check("rejects a wrong gradient: x * x with one x as a constant", []() -> std::string {
    const Tensor x = full({2}, 3.0, {.dtype = kFloat64, .requires_grad = true});
    const auto result = autograd::gradcheck([](const Tensors& in) { return Tensors{in[0].detach() * in[0]}; }, {x});
    if (result.ok) return "it was accepted";
    // The derivative of x * x at 3 is 6. The message has the analytical and the numerical derivative.
    return result.message.find('6') != std::string::npos || result.message.find("5.9") != std::string::npos
               ? ""
               : "expected the numerical derivative, 6, in the message: " + result.message;
  });
  check("changes one element at a time, and restores it", [&]() -> std::string {
    const Tensor x = leaf({4});
    const std::vector<double> start = x.to_vector<double>();
    std::ptrdiff_t most = 0;
    const auto result = autograd::gradcheck(
        [&](const Tensors& in) {
          const std::vector<double> now = in[0].to_vector<double>();
          std::ptrdiff_t moved = 0;
          for (std::size_t i = 0; i < now.size(); ++i) moved += now[i] != start[i];
          most = std::max(most, moved);
          return Tensors{in[0] * in[0]};
        },
        {x});
    return result.ok ? same(most, std::ptrdiff_t{1}) : result.message;
  });
  return course::result();
}
