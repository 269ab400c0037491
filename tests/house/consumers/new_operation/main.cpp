// gradcheck holds the gradients against differences, and the fused ones against the recorded ones.
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include <tendril/autograd/gradcheck.h>
#include <tendril/autograd/ops/pointwise.h>
#include <tendril/autograd/ops/reduce.h>
#include <tendril/nn/optim/signum.h>
#include <tendril/tensor/creation.h>

using namespace tendril;

namespace {

int failures = 0;

void check(const std::string& name, const autograd::DifferentiableFunction& f) {
  const Tensor x = tensor({-1.9, -0.6, 0.3, 1.7}, {.dtype = kFloat64, .requires_grad = true});
  for (const auto& result : {autograd::gradcheck(f, {x}), autograd::gradgradcheck(f, {x})}) {
    if (result) continue;
    std::cerr << name << ": " << result.message << "\n";
    ++failures;
  }
}

}  // namespace

int main() {
  check("gaussian", [](const auto& x) { return std::vector{x[0].gaussian()}; });
  check("snake", [](const auto& x) { return std::vector{snake(x[0], 0.7)}; });
  if (zeros({2}, {.dtype = kBFloat16}).gaussian()[1].item<double>() != 1) ++failures;
  if (std::abs(tensor({3.0, -2.0}).snake()[0].item<double>() - (3 + std::sin(3.0) * std::sin(3.0))) > 1e-6) ++failures;
  check("sum_of_cubes", [](const auto& x) {
    const Tensor rows = x[0].reshape({2, 2});
    return std::vector{sum_of_cubes(rows), sum_of_cubes(rows, {1}), sum_of_cubes(rows, {0}, true)};
  });
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kInt32}) {  // by pieces of rows and of columns, too
    const Tensor x = tensor({2, -1, 1, 3}).to(dtype).reshape({2, 2});
    if (sum_of_cubes(x, {0}).to_vector<double>() != std::vector<double>{9, 26}) ++failures;
    if (sum_of_cubes(x.expand({40, 2, 2}), {1, 2}).to_vector<double>() != std::vector<double>(40, 35)) ++failures;
    const Tensor many = full({200'000}, 2, {.dtype = dtype == kFloat16 ? kFloat32 : dtype});
    if (sum_of_cubes(many).item<double>() != 1'600'000) ++failures;
    if (sum_of_cubes(many.reshape({100'000, 2}), {0})[1].item<double>() != 800'000) ++failures;
  }
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
    const Tensor p = tensor({1.0, 2.0, 3.0}, {.dtype = dtype, .requires_grad = true});
    optim::Signum signum({p}, {.lr = 0.5, .momentum = 0.75});
    signum.step({tensor({4.0, -1.0, 0.0}, {.dtype = dtype})});
    signum.step({tensor({-1.0, -1.0, 0.0}, {.dtype = dtype})});  // not enough to turn the first around
    if (p.to_vector<double>() != std::vector<double>{0, 3, 3}) ++failures;
    if (signum.state_dict().at("state.0.momentum_buffer").to_vector<double>()[0] != 0.5) ++failures;
  }
  return failures;
}
