#pragma once

#include "tendril/tensor/tensor.h"

/// Checks of float32 and float64 results on the CPU that decide whether a computation is repeated with rescaled
/// numbers. On a device they always pass, because reading a result would wait for the device.
namespace tendril::autograd::detail {

/// Whether every element is in [least, most]; NaN is not.
bool within(const Tensor& x, double least, double most);

/// Whether every element is finite.
bool all_finite(const Tensor& x);

/// Whether sums of squares have neither overflowed nor lost digits because squares vanished.
bool squares_in_range(const Tensor& sums);

}  // namespace tendril::autograd::detail
