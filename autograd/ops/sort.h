#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

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
std::tuple<Tensor, Tensor> kthvalue(const Tensor& x, int64_t k, int64_t dim = -1, Flag keepdim = false);

/// The middle element along `dim`, of an even number the lower of the two (as PyTorch), and its place. With a NaN among
/// them it is the first NaN.
std::tuple<Tensor, Tensor> median(const Tensor& x, int64_t dim, Flag keepdim = false);
Tensor median(const Tensor& x);  ///< of all; those that tie share the gradient evenly. NaN of none, if floating

/// What `unique` found.
struct Unique {
  Tensor values;  ///< in order, each once: a vector of x's dtype; with a dim x's shape but for that one
  Tensor
      inverse;  ///< int64, x's shape: x is values[inverse]; with a dim a vector: x is values.index_select(dim, inverse)
  Tensor counts;  ///< int64, how often each value is in x
};
/// What values there are. NaNs differ from one another. With `dim`, what is at one place of it, all other dimensions in
/// row-major order, counts as one value (ShapeError where that is no element). No gradients. Waits for a device.
Unique unique(const Tensor& x, std::optional<int64_t> dim = {});
/// As unique, of neighbours: a value that comes again after another one is there twice. Nothing is put in order.
Unique unique_consecutive(const Tensor& x, std::optional<int64_t> dim = {});

/// How often each of 0, 1, 2, ... is among the int64 elements of a vector, up to the largest one and `minlength` - 1 at
/// least: int64. Error for negative elements.
Tensor bincount(const Tensor& x, int64_t minlength = 0);

/// How many elements fall into each of `bins` intervals of one width from low to high, of which the last has its upper
/// end too: float, in x's dtype. Elements outside are not counted. Without bounds those are x's smallest and largest.
Tensor histc(const Tensor& x, int64_t bins = 100, std::optional<double> low = {}, std::optional<double> high = {});

/// Of `histogram`.
struct HistogramOptions {
  std::optional<std::pair<double, double>> range = {};  ///< from low to high; without one x's smallest and largest
  Tensor weight = {};                                   ///< what each element counts, of x's shape and dtype: else 1
  bool density = false;                                 ///< counts divided by their sum and by each bin's width
};
/// What `histogram` found, in x's dtype.
struct Histogram {
  Tensor hist;       ///< [bins]
  Tensor bin_edges;  ///< [bins + 1]
};
/// How much falls between each two neighbours of the edges, the upper one not included but for the last; NaN and what
/// lies outside are left out. As many bins of one width, or between the given edges, a vector of x's dtype that
/// increases. Counted on the host in float64; no gradients. Error for bounds that are not finite (a NaN in x, without a
/// range) or the wrong way round.
Histogram histogram(const Tensor& x, int64_t bins, const HistogramOptions& options = {});
Histogram histogram(const Tensor& x, const Tensor& bins, const HistogramOptions& options = {});

/// For each value the place in `sorted` (ascending, NaN last, a vector) before which it would keep it sorted: the first
/// such place, or with `right` the last. int64, like `values`. Found on the host.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false);

}  // namespace tendril

TENDRIL_API_END
