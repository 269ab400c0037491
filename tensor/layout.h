#pragma once

#include <cstdint>
#include <optional>

#include "tendril/tensor/dims.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/memory_format.h"

TENDRIL_API_BEGIN

/// The shape rules of views: pure functions from one layout to another. Strides and offsets are in elements.
/// Errors name the operation and everything that it was given.
namespace tendril {

struct Layout {
  Dims sizes;
  Dims strides;
  int64_t offset = 0;

  friend bool operator==(const Layout&, const Layout&) = default;
};

namespace layout {

/// Row-major without gaps. Dimensions of size 1 may have any stride, and so may all if there are no elements.
bool is_contiguous(const Dims& sizes, const Dims& strides) noexcept;
/// Four dimensions that are row-major without gaps in the order 0, 2, 3, 1. One channel or one pixel is both.
bool is_channels_last(const Dims& sizes, const Dims& strides) noexcept;
/// Of elements without gaps. ShapeError naming `op` for channels_last of other than four dimensions.
Dims strides_of(const Dims& sizes, MemoryFormat format, const char* op);

/// `sizes` with a single -1 replaced by what makes the product `numel`. ShapeError naming `op`.
Dims infer_size(const Dims& sizes, int64_t numel, const char* op);

/// The strides under which elements laid out as `x` are seen with `sizes` (no -1), if there are such.
std::optional<Layout> view(const Layout& x, const Dims& sizes);

/// Sizes after merging dimensions start_dim..end_dim (inclusive) into one; a 0-d tensor becomes [1]. ShapeError
/// where their product is over 2^63 - 1.
Dims flatten_sizes(const Dims& sizes, int64_t start_dim, int64_t end_dim);

/// -1 keeps a size; new dimensions appear at the front.
Layout expand(const Layout& x, const Dims& sizes);
/// `dims` is a permutation of all dimensions (negative ones count from the end).
Layout permute(const Layout& x, const Dims& dims);
Layout transpose(const Layout& x, int64_t dim0, int64_t dim1);
/// Drops `dim`, keeping the part at `index` in [-size, size): IndexError.
Layout select(const Layout& x, int64_t dim, int64_t index);
/// Python's x[start:end:step] along `dim`: bounds count from the end when negative and are clipped; step > 0.
Layout slice(const Layout& x, int64_t dim, int64_t start, int64_t end, int64_t step);
/// `length` elements from `start` along `dim`; nothing is clipped: IndexError.
Layout narrow(const Layout& x, int64_t dim, int64_t start, int64_t length);
/// The places i, i + offset of dimensions dim0 and dim1, which differ, as a last dimension.
Layout diagonal(const Layout& x, int64_t offset, int64_t dim0, int64_t dim1);
Layout squeeze(const Layout& x);                 ///< drops every dimension of size 1
Layout squeeze(const Layout& x, int64_t dim);    ///< drops `dim` if its size is 1
Layout unsqueeze(const Layout& x, int64_t dim);  ///< `dim` in [-ndim - 1, ndim]

}  // namespace layout
}  // namespace tendril

TENDRIL_API_END
