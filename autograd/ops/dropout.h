#pragma once

#include "tendril/tensor/export.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril {

/// Each element zeroed with probability p in [0, 1], the others scaled by 1 / (1 - p). The mask is not kept: backward
/// draws it again from where the generator stood. Throws Error for p out of range, DTypeError unless x is floating.
Tensor dropout(const Tensor& x, double p, Generator& generator = default_generator());

}  // namespace tendril

TENDRIL_API_END
