#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tendril/tensor/dims.h"
#include "tendril/tensor/dtype.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/kernels.h"
#include "tendril/tensor/layout.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Operations that autograd never sees: their results have no history, and their operands' is not looked at. For use by
/// tensor/, rpc/ and envs/, and by autograd/ops as the forward half of an operation. They check shapes, dtypes and
/// devices, promote, broadcast and allocate; kernels.h does the work. Reductions, and what goes along a dimension or by
/// index, are in tensor/drivers.
namespace tendril::raw {

// ---- making tensors
Tensor empty(const Dims& sizes, DType dtype = kFloat32, Device device = kCPU);  ///< uninitialised
Tensor empty(const Dims& sizes, DType dtype, Device device, MemoryFormat format);
Tensor empty_strided(const Dims& sizes, const Dims& strides, DType dtype = kFloat32, Device device = kCPU);
Tensor empty_like(const Tensor& x);  ///< contiguous
/// ... in x's suggest_memory_format(), as results of pointwise operations are; `dtype` in place of x's.
Tensor empty_in_format_of(const Tensor& x);
Tensor empty_in_format_of(const Tensor& x, DType dtype);
Tensor full(const Dims& sizes, Scalar value, DType dtype = kFloat32, Device device = kCPU);
Tensor zeros(const Dims& sizes, DType dtype = kFloat32, Device device = kCPU);
Tensor ones(const Dims& sizes, DType dtype = kFloat32, Device device = kCPU);
Tensor scalar(Scalar value, DType dtype, Device device = kCPU);  ///< 0-d
/// start, start + step, ... up to but excluding end. Throws Error for step 0 or one that leads away from end.
Tensor arange(Scalar start, Scalar end, Scalar step = 1, DType dtype = kInt64, Device device = kCPU);
Tensor eye(int64_t rows, int64_t columns, DType dtype = kFloat32, Device device = kCPU);

/// A copy of `values`, on the CPU, in row-major order. ShapeError unless their number is the product of `sizes`.
template <class T>
Tensor from_data(std::span<const T> values, const Dims& sizes);
template <class T>
Tensor from_data(const std::vector<T>& values, const Dims& sizes) {
  return from_data(std::span<const T>(values), sizes);
}
Tensor from_data(const std::vector<bool>& values, const Dims& sizes);

/// A tensor on memory that is not ours; `deleter` (may be empty) runs when the last view is gone, on whichever thread.
Tensor from_blob(void* data, const Dims& sizes, DType dtype = kFloat32, std::function<void(void*)> deleter = {});
Tensor from_blob(void* data, const Dims& sizes, const Dims& strides, DType dtype,
                 std::function<void(void*)> deleter = {});
/// A window on `storage`. Throws ShapeError where it would reach outside of it.
Tensor on_storage(Ref<Storage> storage, const Dims& sizes, const Dims& strides, int64_t offset, DType dtype);

// ---- what kernels take. Valid while the tensor lives.
inline View view_of(const TensorImpl& x) {
  auto* const data = static_cast<char*>(x.storage->data()) + x.offset * static_cast<int64_t>(size_of(x.dtype));
  return {data, x.sizes.data(), x.strides.data(), x.numel, x.sizes.size(), x.dtype, x.contiguous};
}
inline View view_of(const Tensor& x) {
  detail::check_defined(x, "raw_data");
  return view_of(*x.impl());
}

// ---- copies
Tensor clone(const Tensor& x);       ///< contiguous, its own storage
Tensor contiguous(const Tensor& x);  ///< x itself if it is
Tensor contiguous(const Tensor& x, MemoryFormat format);
Tensor cast(const Tensor& x, DType dtype);  ///< x itself if it has that dtype; otherwise in suggest_memory_format()
/// Broadcasts, converts, and goes between devices; does not bump the version. Where the two overlap, `out` gets what x
/// was before. A copy to or from the host is waited for
/// unless `non_blocking`, which lets one between a device and pinned memory (cuda/runtime.h) run behind the caller's
/// back.
void copy_(const Tensor& out, const Tensor& x, bool non_blocking = false);
/// x itself if it is there; otherwise in suggest_memory_format().
Tensor to(const Tensor& x, Device device, bool non_blocking = false);
void fill_(const Tensor& out, Scalar value);  ///< does not bump the version

// ---- views: share elements (the shape rules are in layout.h)
Tensor viewed(const Tensor& x, const Layout& window);  ///< unchecked: `window` comes from a rule of layout.h
Tensor as_strided(const Tensor& x, const Dims& sizes, const Dims& strides, int64_t offset);
Tensor view(const Tensor& x, const Dims& sizes);
Tensor reshape(const Tensor& x, const Dims& sizes);
Tensor expand(const Tensor& x, const Dims& sizes);
Tensor permute(const Tensor& x, const Dims& dims);
Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1);
Tensor select(const Tensor& x, int64_t dim, int64_t index);
Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length);
Tensor squeeze(const Tensor& x, int64_t dim);
Tensor unsqueeze(const Tensor& x, int64_t dim);

// ---- PyTorch's type promotion: a 0-d tensor or a number counts only if its category is higher than the other's
DType result_type(const Tensor& x, const Tensor& y);
DType result_type(const Tensor& x, Scalar y);
DType result_type(const Tensor& x, const Tensor& y, const Tensor& z);
DType result_dtype(DTypeRule rule, DType promoted, const char* op);  ///< DTypeError for bool under kSame

// ---- pointwise (tensor/drivers/pointwise.cpp). Operands broadcast and promote; they must be on one device (0-d CPU
// tensors may join any).
Tensor unary(Unary op, const Tensor& x);
Tensor unary(Unary op, const Tensor& x, double p);  ///< of those that have a number
Tensor predicate(Predicate op, const Tensor& x);
Tensor binary(Binary op, const Tensor& x, const Tensor& y);
Tensor binary(Binary op, const Tensor& x, Scalar y);
Tensor binary(Binary op, Scalar x, const Tensor& y);
Tensor compare(Compare op, const Tensor& x, const Tensor& y);
Tensor compare(Compare op, const Tensor& x, Scalar y);
/// The table's fused gradients (kernels.h): g, what was kept, and the result have one shape, dtype and device. With
/// `in_place` the result is g itself.
Tensor unary_gradient(Unary op, const Tensor& g, const Tensor& kept, double p = 0, bool in_place = false);
/// x and y broadcast to g; undefined where the gradient does not read them. An undefined result: the operands are of
/// several dtypes or devices, which the formulas over tensors sort out.
Tensor binary_gradient(Binary op, int operand, const Tensor& g, const Tensor& x, const Tensor& y);
Tensor binary_gradient(Binary op, int operand, const Tensor& g, const Tensor& x, Scalar y);
Tensor binary_gradient(Binary op, int operand, const Tensor& g, Scalar x, const Tensor& y);
/// In place: out = op(out, y). y must broadcast to out's sizes, and the result convert to out's dtype without leaving
/// its category (float into int64 is a DTypeError). Does not bump the version.
void unary_(Unary op, const Tensor& out);
void unary_(Unary op, const Tensor& out, double p);
void binary_(Binary op, const Tensor& out, const Tensor& y);
void binary_(Binary op, const Tensor& out, Scalar y);
void add_scaled_(const Tensor& out, const Tensor& y, Scalar alpha);  ///< out += alpha * y
Tensor where(const Tensor& mask, const Tensor& x, const Tensor& y);
/// A NaN as bound makes all NaN. The bounds take part in promotion. DTypeError where no number of an integer dtype is
/// on the right side of a bound (uint8 above 300); a bound that none of its numbers is beyond does nothing.
Tensor clamp(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high);

// ---- products: dtypes must agree (DTypeError), as in PyTorch
/// [m, k] by [k, n], or [b, m, k] by [b, k, n]. Transposed operands are read in place. ShapeError otherwise.
Tensor matmul(const Tensor& a, const Tensor& b);

// ---- filling with random numbers: in row-major order, the stream of `generator` from where it stands
void uniform_(const Tensor& out, double low, double high, Generator& generator);    ///< floating; in [low, high)
void normal_(const Tensor& out, double mean, double stddev, Generator& generator);  ///< floating
void bernoulli_(const Tensor& out, double p, Generator& generator);                 ///< any dtype; 1 with probability p
void randint_(const Tensor& out, int64_t low, int64_t high,
              Generator& generator);               ///< integers in [low, high); not bool
Tensor randperm(int64_t n, Generator& generator);  ///< int64

/// Same sizes, dtype and elements. NaN differs from NaN unless `nan_equal`.
bool equal(const Tensor& x, const Tensor& y, bool nan_equal = false);

}  // namespace tendril::raw

TENDRIL_API_END
