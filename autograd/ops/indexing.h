#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <variant>
#include <vector>

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Several dimensions at once, as NumPy and PyTorch index: `x[{slice(1, 5), None, mask}]`.
namespace tendril {

/// Elements start, start + step, ... below stop. Negative positions count from the end; what lies outside is cut off.
struct Slice {
  std::optional<int64_t> start, stop;  ///< from, and up to but without; negative: from the end; none: all
  int64_t step = 1;                    ///< 1 or more
};
/// A whole dimension: PyTorch's `:`.
inline Slice slice() { return {}; }
/// PyTorch's `start:stop:step`; either end may be missing.
inline Slice slice(std::optional<int64_t> start, std::optional<int64_t> stop = {}, int64_t step = 1) {
  return {start, stop, step};
}

struct NewDimension {};                   ///< the type of None
struct AllDimensions {};                  ///< the type of Ellipsis
inline constexpr NewDimension None;       ///< puts in a dimension of size 1
inline constexpr AllDimensions Ellipsis;  ///< all dimensions that the other indices leave

/// One place between the brackets: a number (also as a 0-d int64 or int32 tensor), a slice, None, Ellipsis, or a
/// tensor: int64 (or int32) positions, or a bool mask, which takes as many dimensions as it has (one of none puts one
/// in, of size 1 or 0).
class Index {
 public:
  Index(std::integral auto number) : value_(static_cast<int64_t>(number)) {}
  Index(bool) = delete;  ///< nearly always a mistake; a 0-d mask is a tensor
  Index(Slice slice) : value_(slice) {}
  Index(NewDimension) : value_(NewDimension{}) {}
  Index(AllDimensions) : value_(AllDimensions{}) {}
  Index(const Tensor& tensor) : value_(tensor) {}

  /// What it was made of.
  const std::variant<int64_t, Slice, NewDimension, AllDimensions, Tensor>& value() const noexcept { return value_; }

 private:
  std::variant<int64_t, Slice, NewDimension, AllDimensions, Tensor> value_;
};

/// What `indices` choose: a view where none of them is a tensor with dimensions or a mask, else a copy. Dimensions
/// without an index are taken whole. Index tensors broadcast together and become the dimensions of the result that the
/// first of them stood for, or its first ones where something stands between them (as in NumPy). Differentiable.
/// IndexError for a position outside of its dimension and for more indices than dimensions; ShapeError for a mask whose
/// sizes are not those of the dimensions it takes; DTypeError for an index tensor of another dtype.
Tensor index(const Tensor& x, const std::vector<Index>& indices);

/// Writes `values`, which broadcast to what the indices choose, in place; with `accumulate` adds them, each as often as
/// its place is named. Without it and where a place is named several times, one of its values is kept. Returns x.
const Tensor& index_put_(const Tensor& x, const std::vector<Index>& indices, const Tensor& values,
                         bool accumulate = false);

/// What `x[{...}]` is: the chosen elements, which may be read like any tensor and written to by = and by +=, -=, *= and
/// /=, also where they are a copy. DTypeError for += and its like where the result's category is above the tensor's, as
/// in place: an int64 takes no 0.5. A variable, `auto y = x[{...}]`, is a tensor like any other: = makes it refer to
/// something else, += changes what it refers to.
class Indexed : public Tensor {
 public:
  Indexed(const Tensor& base, std::vector<Index> indices)
      : Tensor(tendril::index(base, indices)), base_(base), indices_(std::move(indices)) {}
  Indexed(const Indexed&) = delete;
  /// A name that holds `x[{...}]` is a tensor like others: it becomes another one, and x stays.
  Indexed& operator=(const Indexed& values) & { return *this = static_cast<const Tensor&>(values); }
  Indexed& operator=(const Tensor& values) & {
    static_cast<Tensor&>(*this) = values;
    return *this;
  }
  const Tensor& operator+=(const Tensor& other) & { return add_(other); }
  const Tensor& operator-=(const Tensor& other) & { return sub_(other); }
  const Tensor& operator*=(const Tensor& other) & { return mul_(other); }
  const Tensor& operator/=(const Tensor& other) & { return div_(other); }
  const Tensor& operator+=(Scalar other) & { return add_(other); }
  const Tensor& operator-=(Scalar other) & { return sub_(other); }
  const Tensor& operator*=(Scalar other) & { return mul_(other); }
  const Tensor& operator/=(Scalar other) & { return div_(other); }
  /// Writes into x, in place: `x[{...}] = values`.
  const Tensor& operator=(const Indexed& values) && { return tendril::index_put_(base_, indices_, values); }
  const Tensor& operator=(const Tensor& values) && { return tendril::index_put_(base_, indices_, values); }
  const Tensor& operator=(Scalar value) &&;  ///< ... the same number everywhere
  /// Adds to these elements of x, in place: `x[{...}] += values`. Where an index comes several times, one of
  /// its results stays; so of the three below.
  const Tensor& operator+=(const Tensor& other) && { return put(add(other), "+="); }
  /// Subtracts from these elements of x, in place.
  const Tensor& operator-=(const Tensor& other) && { return put(sub(other), "-="); }
  /// Multiplies these elements of x, in place.
  const Tensor& operator*=(const Tensor& other) && { return put(mul(other), "*="); }
  /// Divides these elements of x, in place.
  const Tensor& operator/=(const Tensor& other) && { return put(div(other), "/="); }
  /// ... the same number everywhere.
  const Tensor& operator+=(Scalar other) && { return put(add(other), "+="); }
  /// ... the same number everywhere.
  const Tensor& operator-=(Scalar other) && { return put(sub(other), "-="); }
  /// ... the same number everywhere.
  const Tensor& operator*=(Scalar other) && { return put(mul(other), "*="); }
  /// ... the same number everywhere.
  const Tensor& operator/=(Scalar other) && { return put(div(other), "/="); }

 private:
  const Tensor& put(const Tensor& values, const char* op) const;
  Tensor base_;
  std::vector<Index> indices_;
};

/// Positions of the elements that are not zero, in row-major order: [count, x.dim()], int64. Waits for a device.
Tensor nonzero(const Tensor& x);

/// The elements of x where `mask` (bool) is true, as a vector. Both broadcast. Differentiable. Waits for a device.
Tensor masked_select(const Tensor& x, const Tensor& mask);

/// As gather, but x and `index` broadcast along all other dimensions.
Tensor take_along_dim(const Tensor& x, const Tensor& index, int64_t dim);

/// A 1 at each class, zeros elsewhere: int64 [..., num_classes] for int64 classes of shape [...]. IndexError for one
/// outside of [0, num_classes).
Tensor one_hot(const Tensor& classes, int64_t num_classes);

}  // namespace tendril

TENDRIL_API_END
