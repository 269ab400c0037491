#pragma once

#include <cstddef>
#include <vector>

#include "tendril/nn/sequential.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Where to cut a model into stages.
namespace tendril::dist::pipeline {

/// Cuts a row of costs into `parts` parts, none of them empty, so that the most expensive part costs as little as can
/// be: exactly, by dynamic programming over (first i costs, parts), O(parts costs^2). Returns where each part begins,
/// and costs.size() last. Among the best cuts the one whose parts, from the last to the first, begin earliest. Throws
/// Error for fewer costs than parts, no parts, and a cost that is negative or not finite.
std::vector<std::size_t> partition(const std::vector<double>& costs, int parts);

/// Seconds that a layer takes.
struct LayerCost {
  double forward = 0, backward = 0;  ///< in any unit, the same for all

  double both() const noexcept { return forward + backward; }  ///< their sum
};

/// What each layer of a model takes for `input`, the fastest of `repeats` runs after one that is not counted: forward,
/// and backward to its parameters and its input. The model is as before (batch statistics too), no `.grad` is touched;
/// the default generator goes on where layers draw from it. On a CUDA device it is the launches that are timed: measure
/// on the CPU, or say the costs yourself. Throws Error for repeats below 1, and what the layers throw.
std::vector<LayerCost> measure_layers(nn::Sequential& model, const Tensor& input, int repeats = 3);

}  // namespace tendril::dist::pipeline

TENDRIL_API_END
