// A step of training: enough to link with what Tendril needs and to run.
#include <tendril/nn/linear.h>
#include <tendril/nn/optim/sgd.h>
#include <tendril/tensor/creation.h>

#include <iostream>

int main() {
  tendril::nn::Linear layer(3, 1);
  tendril::optim::SGD optimizer(layer.parameters(), {.lr = 0.1});
  layer(tendril::ones({2, 3})).sum().backward();
  optimizer.step();
  std::cout << layer.weight << "\n";
}
