#pragma once

#include <optional>
#include <tuple>

#include "tendril/tensor/export.h"
#include "tendril/tensor/geometry.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Pooling of images x [..., height, width] with 3 or 4 dimensions, floating; max and avg_pool of integers, too, on the
/// CPU, where a mean loses its fraction, as in PyTorch. Errors: ShapeError for a window that does not fit or that sees
/// no pixel somewhere, Error for a geometry that makes no sense, DTypeError for other dtypes.
namespace tendril {

/// Of max_pool2d.
struct MaxPoolOptions {
  Size2 stride = 0;   ///< 0: the kernel
  Size2 padding = 0;  ///< at most half of the kernel; with nothing, not zeros
  Size2 dilation = 1;
  bool ceil_mode = false;  ///< windows may hang over the end, also where there is but one
};
/// The largest element of each window.
Tensor max_pool2d(const Tensor& x, Size2 kernel, const MaxPoolOptions& options = {});
/// And where it is: int64 places in the height x width elements of its plane.
std::tuple<Tensor, Tensor> max_pool2d_with_indices(const Tensor& x, Size2 kernel, const MaxPoolOptions& options = {});

/// Of avg_pool2d.
struct AvgPoolOptions {
  Size2 stride = 0;                              ///< 0: the kernel
  Size2 padding = 0;                             ///< at most half of the kernel
  bool ceil_mode = false;                        ///< windows may hang over the end
  bool count_include_pad = true;                 ///< padding is zeros that count, rather than nothing
  std::optional<int64_t> divisor_override = {};  ///< in place of the window's size
};
/// The mean of each window.
Tensor avg_pool2d(const Tensor& x, Size2 kernel, const AvgPoolOptions& options = {});

/// As many windows as `output` says, whatever x's size: window i is from floor(i size / output) to
/// ceil((i + 1) size / output).
Tensor adaptive_avg_pool2d(const Tensor& x, Size2 output);

/// The largest element of each of those windows.
Tensor adaptive_max_pool2d(const Tensor& x, Size2 output);
/// And where it is: int64 places in the height x width elements of its plane; the first of several.
std::tuple<Tensor, Tensor> adaptive_max_pool2d_with_indices(const Tensor& x, Size2 output);

// ---- of sequences [batch, channels, length] or [channels, length]: images of height 1

struct MaxPool1dOptions {
  int64_t stride = 0;   ///< 0: the kernel
  int64_t padding = 0;  ///< at most half of the kernel; with nothing, not zeros
  int64_t dilation = 1;
  bool ceil_mode = false;  ///< windows may hang over the end
};
/// The largest element of each window of a sequence.
Tensor max_pool1d(const Tensor& x, int64_t kernel, const MaxPool1dOptions& options = {});
/// And where it is: int64 places along the length.
std::tuple<Tensor, Tensor> max_pool1d_with_indices(const Tensor& x, int64_t kernel,
                                                   const MaxPool1dOptions& options = {});

struct AvgPool1dOptions {
  int64_t stride = 0;             ///< 0: the kernel
  int64_t padding = 0;            ///< at most half of the kernel
  bool ceil_mode = false;         ///< windows may hang over the end
  bool count_include_pad = true;  ///< padding is zeros that count, rather than nothing
};
/// The mean of each window of a sequence.
Tensor avg_pool1d(const Tensor& x, int64_t kernel, const AvgPool1dOptions& options = {});

/// The mean of each of `output` windows.
Tensor adaptive_avg_pool1d(const Tensor& x, int64_t output);
/// The largest element of each of `output` windows.
Tensor adaptive_max_pool1d(const Tensor& x, int64_t output);
/// And where it is: int64 places along the length.
std::tuple<Tensor, Tensor> adaptive_max_pool1d_with_indices(const Tensor& x, int64_t output);

}  // namespace tendril

TENDRIL_API_END
