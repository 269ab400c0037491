#pragma once

#include <cstdint>
#include <vector>

#include "tendril/tensor/export.h"
#include "tendril/tensor/scalar.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Operations that move elements to other places, or repeat them. All are differentiable, take every dtype and work on
/// every device; results are tensors of their own but where a view is said.
namespace tendril {

/// x with the order of elements reversed along each of `dims`.
Tensor flip(const Tensor& x, const Dims& dims);

/// x with its elements moved on by `shift` places along `dim`; those that leave at one end come in at the other.
Tensor roll(const Tensor& x, int64_t shift, int64_t dim);
/// ... of all elements in row-major order.
Tensor roll(const Tensor& x, int64_t shift);
/// ... along each of `dims`, by the shift that stands at its place. ShapeError unless there are as many of each.
Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims);

/// x times[d] times after itself along dimension d. Where there are more times than dimensions, dimensions of size 1
/// are put in front. ShapeError for fewer times than dimensions, or negative ones.
Tensor repeat(const Tensor& x, const Dims& times);
/// As `repeat`, but with fewer times than dimensions the last ones are meant.
Tensor tile(const Tensor& x, const Dims& times);
/// Each element `times` times, one copy behind the other, along `dim`.
Tensor repeat_interleave(const Tensor& x, int64_t times, int64_t dim);
/// ... of all elements in row-major order: a vector.
Tensor repeat_interleave(const Tensor& x, int64_t times);

/// What `pad` adds.
enum class PadMode : uint8_t {
  constant,   ///< with a value
  reflect,    ///< with what lies beside the edge, mirrored there: fewer elements than x has along that dimension
  replicate,  ///< with the element at the edge
  circular    ///< with what lies at the other end: at most as many elements as x has along that dimension
};
/// x with elements added. `sizes` are how many before and after, of the last dimension first: {left, right, top,
/// bottom, ...}, as in PyTorch; a negative number takes elements away (constant only). ShapeError for an odd number of
/// sizes, for more than x has dimensions, and for those that a mode does not allow.
Tensor pad(const Tensor& x, const std::vector<int64_t>& sizes, PadMode mode = PadMode::constant, Scalar value = 0);

/// The lower triangle of the last two dimensions, zeros elsewhere: elements [i, j] with j - i <= diagonal.
Tensor tril(const Tensor& x, int64_t diagonal = 0);
/// The upper triangle: elements [i, j] with j - i >= diagonal.
Tensor triu(const Tensor& x, int64_t diagonal = 0);

/// Of a vector the square matrix that has it on a diagonal (`diagonal` places above the main one), of a matrix that
/// diagonal.
Tensor diag(const Tensor& x, int64_t diagonal = 0);
/// The diagonal of dimensions dim0 and dim1, as a last dimension. A view: `x.diagonal().fill_(0)` changes x.
inline Tensor diagonal(const Tensor& x, int64_t offset = 0, int64_t dim0 = 0, int64_t dim1 = 1) {
  return x.diagonal(offset, dim0, dim1);
}
/// The sum of the main diagonal of a matrix.
Tensor trace(const Tensor& x);

/// One tensor for each of the vectors, of all their sizes: element [i, j, ...] of the k-th is the k-th vector's element
/// number i, j, ... (PyTorch's indexing "ij"). Views of the vectors.
std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors);

/// Dimension `from` moved to place `to`; the others keep their order. A view.
Tensor movedim(const Tensor& x, int64_t from, int64_t to);

}  // namespace tendril

TENDRIL_API_END
