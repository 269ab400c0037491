#pragma once

#include "tendril/autograd/ops/attention.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::detail {

/// scaled_dot_product_attention of [b, h, L, E] each, which are all[:, :, 0], all[:, :, 1] and all[:, :, 2],
/// transposed, of one tensor [b, L, 3, h, E] as a linear layer gives it: its gradient is written as a whole, where a
/// kernel does it.
Tensor self_attention(const Tensor& all, const AttentionOptions& options);

}  // namespace tendril::detail

TENDRIL_API_END
