#pragma once

#include <span>

#include "tendril/autograd/node.h"
#include "tendril/tensor/tensor.h"

namespace tendril::mutants {

/// Called by a copy of the engine on what a node gave for its inputs.
void change(const autograd::Node& node, std::span<Tensor> input_grads);

}  // namespace tendril::mutants
