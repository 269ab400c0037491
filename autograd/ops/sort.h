#pragma once

#include <cstdint>
#include <optional>
#include <tuple>

#include "tendril/tensor/tensor.h"

/// Putting elements in order, and counting them. Values are differentiable, places and counts are not. A device without
/// a kernel for it (CUDA) has the order found on the host, which waits for the device.
namespace tendril {

/// The elements along `dim` in order, and the int64 places they had. Equal elements keep their order (stable), NaN
/// counts as larger than all.
std::tuple<Tensor, Tensor> sort(const Tensor& x, int64_t dim = -1, bool descending = false);
/// The places alone.
Tensor argsort(const Tensor& x, int64_t dim = -1, bool descending = false);

/// The k largest (or smallest) along `dim`, in order, and their places. Error for a k outside of [0, size].
std::tuple<Tensor, Tensor> topk(const Tensor& x, int64_t k, int64_t dim = -1, bool largest = true);

/// The k-th smallest along `dim`, counted from 1, and its place. Error for a k outside of [1, size].
std::tuple<Tensor, Tensor> kthvalue(const Tensor& x, int64_t k, int64_t dim = -1, bool keepdim = false);

/// The middle element along `dim`, of an even number the lower of the two (as PyTorch), and its place. With a NaN among
/// them it is the first NaN.
std::tuple<Tensor, Tensor> median(const Tensor& x, int64_t dim, bool keepdim = false);
Tensor median(const Tensor& x);  ///< of all; those that tie share the gradient evenly

/// What `unique` found.
struct Unique {
  Tensor values;   ///< in order, each once: a vector of x's dtype
  Tensor inverse;  ///< int64, x's shape: x is values[inverse]
  Tensor counts;   ///< int64, how often each value is in x
};
/// What values there are. NaNs differ from one another. Waits for a device.
Unique unique(const Tensor& x);

/// How often each of 0, 1, 2, ... is among the int64 elements of a vector, up to the largest one and `minlength` - 1 at
/// least: int64. Error for negative elements.
Tensor bincount(const Tensor& x, int64_t minlength = 0);

/// How many elements fall into each of `bins` intervals of one width from low to high, of which the last has its upper
/// end too: float, in x's dtype. Elements outside are not counted. Without bounds those are x's smallest and largest.
Tensor histc(const Tensor& x, int64_t bins = 100, std::optional<double> low = {}, std::optional<double> high = {});

/// For each value the place in `sorted` (ascending, NaN last, a vector) before which it would keep it sorted: the first
/// such place, or with `right` the last. int64, like `values`. Found on the host.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false);

}  // namespace tendril
