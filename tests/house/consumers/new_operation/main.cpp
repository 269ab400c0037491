// gradcheck holds the gradients against differences, and the fused ones against the recorded ones.
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include <tendril/autograd/gradcheck.h>
#include <tendril/autograd/ops/pointwise.h>
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
