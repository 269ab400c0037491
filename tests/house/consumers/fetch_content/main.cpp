#include <cstdio>
#include <vector>

#include "tendril/autograd/gradcheck.h"
#include "tendril/tensor/creation.h"

int main() {
  using namespace tendril;
  Tensor x = ones({2, 3}, {.dtype = kFloat64, .requires_grad = true});
  autograd::gradcheck([](const std::vector<Tensor>& in) { return std::vector{in[0].tanh().sum()}; }, {x});
  std::puts("tendril works as a part of another project");
  return 0;
}
