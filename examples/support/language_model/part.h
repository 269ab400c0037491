#pragma once

#include <tendril/nn/module.h>
#include <tendril/tensor/random.h>

#include <cstdint>

namespace language_model {

using tendril::Tensor;
namespace nn = tendril::nn;

/// A part of the model, with a generator of its own that it draws from: its numbers are the same wherever it lives.
struct Part : nn::Module {
  explicit Part(std::int64_t seed) : generator(static_cast<std::uint64_t>(seed)) {}
  tendril::Generator generator;
};

}  // namespace language_model
