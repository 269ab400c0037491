#pragma once

#include <cstddef>
#include <vector>

#include "tendril/nn/sequential.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Chooses where to split a model into stages.
namespace tendril::dist::pipeline {

/// Splits a list of costs into `parts` consecutive, non-empty parts so that the most expensive part is as cheap as
/// possible. Exact, by dynamic programming over (first i costs, parts) in O(parts costs^2). Returns the index at which
/// each part begins, and costs.size() last. Among the best splits, chooses the one whose parts, from the last to the
/// first, begin earliest. Throws Error for fewer costs than parts, no parts, and a cost that is negative or not finite.
std::vector<std::size_t> partition(const std::vector<double>& costs, int parts);

/// The cost of a layer.
struct LayerCost {
  double forward = 0, backward = 0;  ///< in seconds, or in any other unit that all layers share

  double both() const noexcept { return forward + backward; }  ///< their sum
};

/// Measures the seconds that each layer of a model takes for `input`: its forward, and its backward to its parameters
/// and its input, each the fastest of `repeats` runs after one that is not counted. Restores the model's state,
/// including batch statistics, and changes no `.grad`; layers that draw from the default generator advance it. On a
/// CUDA device, only the launches are timed: measure on the CPU, or provide the costs yourself. Throws Error for
/// repeats below 1, and errors of the layers.
std::vector<LayerCost> measure_layers(nn::Sequential& model, const Tensor& input, int repeats = 3);

}  // namespace tendril::dist::pipeline

TENDRIL_API_END
