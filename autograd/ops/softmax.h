#pragma once

#include "tendril/tensor/tensor.h"

namespace tendril {

inline Tensor softmax(const Tensor& x, int64_t dim) { return x.softmax(dim); }
inline Tensor log_softmax(const Tensor& x, int64_t dim) { return x.log_softmax(dim); }
inline Tensor logsumexp(const Tensor& x, int64_t dim, bool keepdim = false) { return x.logsumexp(dim, keepdim); }
inline Tensor cumsum(const Tensor& x, int64_t dim) { return x.cumsum(dim); }

}  // namespace tendril
