// Task 1.2: the gradients of a matrix product. matmul.cpp, MatmulBackward.
#include <tendril/autograd/gradcheck.h>
#include <tendril/autograd/ops/matmul.h>
#include <tendril/tensor/creation.h>

#include "course.h"

using namespace tendril;
using course::check;

int main() {
  manual_seed(1);
  const auto draw = [](const Dims& sizes, bool requires_grad = true) {
    return randn(sizes, {.dtype = kFloat64, .requires_grad = requires_grad});
  };
  const auto agrees = [](const char* name, const auto& f, const std::vector<Tensor>& inputs) {
    check(name, [&]() -> std::string {
      const auto result = autograd::gradcheck([&](const auto& in) { return std::vector<Tensor>{f(in)}; }, inputs);
      return result.ok ? "" : result.message;
    });
  };
  const auto product = [](const auto& in) { return in[0].matmul(in[1]); };
  agrees("[2, 3] by [3, 4] agrees with finite differences", product, {draw({2, 3}), draw({3, 4})});
  agrees("[1, 1] by [1, 1]", product, {draw({1, 1}), draw({1, 1})});
  agrees("batches: [2, 2, 3] by [2, 3, 2]", product, {draw({2, 2, 3}), draw({2, 3, 2})});
  agrees("only the left operand requires a gradient", product, {draw({2, 3}), draw({3, 2}, false)});
  agrees("only the right operand requires a gradient", product, {draw({2, 3}, false), draw({3, 2})});
  check("second derivatives: the gradient of the gradient", []() -> std::string {
    const auto f = [](const auto& in) { return std::vector<Tensor>{in[0].matmul(in[1])}; };
    const auto make = [](const Dims& sizes) { return randn(sizes, {.dtype = kFloat64, .requires_grad = true}); };
    const auto result = autograd::gradgradcheck(f, {make({2, 3}), make({3, 2})});
    return result.ok ? "" : result.message;
  });
  return course::result();
}
