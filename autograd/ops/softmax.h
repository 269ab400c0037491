#pragma once

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril {

/// e^x / sum(e^x) along `dim`, without overflow. Floating.
inline Tensor softmax(const Tensor& x, int64_t dim) { return x.softmax(dim); }
/// log(softmax(x)), exact also where softmax(x) is tiny. Floating.
inline Tensor log_softmax(const Tensor& x, int64_t dim) { return x.log_softmax(dim); }
/// log(sum(e^x)) along `dim`, without overflow. Floating.
inline Tensor logsumexp(const Tensor& x, int64_t dim, Flag keepdim = false) { return x.logsumexp(dim, keepdim); }

}  // namespace tendril

TENDRIL_API_END
