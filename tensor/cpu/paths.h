#pragma once

#include <cstdint>

/// Which of several ways kernels go, counted for tests: a result alone does not say whether the fast one was taken. One
/// count a call, and of large calls alone, so that small operations pay nothing. (A convolution by oneDNN is counted
/// whatever its size: calling it costs a hundred times as much.)
namespace tendril::cpu {

enum class Path : uint8_t {
  shared,               ///< a call of parallel_for that had more threads than its caller's
  own_product,          ///< by our own kernel (level/gemm.cpp)
  onednn_product,       ///< in float32; each large part of one
  onednn_bfloat16,      ///< a product of bfloat16
  onednn_convolution,   ///< each part of one
  onednn_winograd,      ///< those among them in that form
  turned_image,         ///< an image or result that oneDNN wanted in another order
  turned_weight,        ///< a weight; one that is kept counts once
  own_winograd,         ///< a convolution in our own Winograd's form
  mapped_weight,        ///< a weight in that form; one that is kept counts once
  few_multiplications,  ///< a convolution that is too small for oneDNN
  tiles,                ///< operands that lie across each other
  streamed_tiles,       ///< a copy of such, past the caches
  pixels,               ///< batch normalisation and pooling in channels-last order
  half_pieces,          ///< a pointwise loop of float16 by that of float
  fused_gradient,       ///< of a pointwise operation
  batch_norm_relu,      ///< from here on: the fused kernel, forward and backward
  layer_norm,           ///< or that of RMSNorm
  cross_entropy,        ///< with classes as targets
  attention,            ///< by blocks
  lstm_cell,            ///< a step of a layer
  lstm_steps,           ///< all steps of one, rows of the batch shared out
  index_rows,           ///< index_select or index_add of whole rows that lie together
  own_rows,             ///< sums and writes by index, each thread's to rows of its own
  own_columns,          ///< ... to columns
  row_copies,           ///< sums by index, a piece of it at a time in a copy of the rows
  optimizer_step,       ///< over all parameters of one rule
  count_                ///< how many there are
};

/// Calls of fewer elements (or multiplications) are not counted.
constexpr int64_t kCounted = 32 * 1024;

/// Counts a call. Any thread may.
void took(Path path) noexcept;
/// ... if it is large.
inline void took(Path path, int64_t elements) noexcept {
  if (elements >= kCounted) [[unlikely]]
    took(path);
}

/// How many calls there have been.
uint64_t taken(Path path) noexcept;

}  // namespace tendril::cpu
