#pragma once

#include <cstdint>

#include "tendril/tensor/export.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Drawing by weights, and tensors of random numbers like another. Filling a tensor with them is a method:
/// `x.uniform_(0, 1)`, `normal_`, `trunc_normal_`, `exponential_`, `bernoulli_`.
/// Thread-safety: a generator's.
namespace tendril {

/// `samples` places 0, 1, ..., n - 1, each drawn as often as its weight says: int64, of shape [samples] for weights of
/// shape [n], [m, samples] for [m, n]. Without `replacement` all of a row differ (the largest of weights over
/// exponential numbers, Efraimidis and Spirakis 2006); with it they are found in the running sum. Weights need not sum
/// to 1.
/// DTypeError for weights that are not floating; ShapeError for another number of dimensions; Error for a weight that
/// is negative or not finite, a row of zeros, or, without replacement, fewer weights above 0 than samples. Waits for a
/// device.
Tensor multinomial(const Tensor& weights, int64_t samples, bool replacement = false);
Tensor multinomial(const Tensor& weights, int64_t samples, bool replacement, Generator& generator);

// Of another tensor's sizes, dtype (floating: DTypeError) and device.
Tensor rand_like(const Tensor& x);   ///< uniform in [0, 1)
Tensor randn_like(const Tensor& x);  ///< normal, of mean 0 and variance 1

}  // namespace tendril

TENDRIL_API_END
