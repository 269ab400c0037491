#pragma once

#include <initializer_list>
#include <vector>

#include "tendril/tensor/creation.h"

/// What tests of gradients begin and end with.
namespace tendril::testing {

using Values = std::vector<double>;

/// float64 [n], requires a gradient.
inline Tensor leaf(std::initializer_list<double> values) {
  return tensor(values, {.dtype = kFloat64, .requires_grad = true});
}
inline Values values(const Tensor& x) { return x.to_vector<double>(); }

}  // namespace tendril::testing
