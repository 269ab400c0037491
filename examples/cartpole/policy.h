#pragma once

#include <tendril/autograd/ops/dropout.h>
#include <tendril/nn/dropout.h>
#include <tendril/nn/linear.h>
#include <tendril/nn/module.h>

namespace cartpole {

/// Four numbers in, a score for each of the two actions out. The tutorial's network: 4 - 128 - 2, dropout 0.6 and ReLU.
struct Policy : tendril::nn::Module {
  tendril::nn::Linear affine1;
  tendril::nn::Dropout dropout{0.6};
  tendril::nn::Linear affine2;

  explicit Policy(tendril::Generator& generator)
      : affine1(4, 128, {.generator = generator}), affine2(128, 2, {.generator = generator}) {
    register_module("affine1", affine1);
    register_module("dropout", dropout);
    register_module("affine2", affine2);
  }

  /// States (n, 4) to the logarithms of probabilities, up to a constant a row (n, 2). Dropout draws from the caller's
  /// generator, so that several observers can be served at a time, each with its own stream.
  tendril::Tensor forward(const tendril::Tensor& states, tendril::Generator& generator) const {
    tendril::Tensor hidden = affine1(states);
    if (is_training()) hidden = tendril::dropout(hidden, dropout.p(), generator);
    return affine2(hidden.relu());
  }
};

}  // namespace cartpole
