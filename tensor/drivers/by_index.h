#pragma once

#include "tendril/tensor/drivers/record.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/raw.h"

TENDRIL_API_BEGIN

/// The driver of operations by index: shape rule, dtypes, allocation, kernel, recording, errors. A 0-d tensor is one of
/// one element.
///
/// An index is an int64 tensor on the device of the others; one of whole slices (index_select, index_add) may be int32,
/// too, and has one dimension or none. Its values lie in [0, size): IndexError in the words of `use`, before anything
/// is written; on CUDA devices when the work is waited for (docs/cuda.md). DTypeError, ShapeError, or Error for
/// another device, likewise before anything is written. Functions with `_` write into `out`, which may lie anyhow, do
/// not bump its version, and record nothing.
namespace tendril::drivers {

/// x at [.., index[i], ..] along dim: the index's sizes, of which none but that of `dim` is above x's.
Tensor gather(const Tensor& x, int64_t dim, const Tensor& index, IndexUse use = IndexUse::gather);
/// The slices of x along dim that the index names.
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index, IndexUse use = IndexUse::index_select);

/// Adds source to out at the places that gather would read. source has the index's sizes and out's dtype. Sums of the
/// half types are kept in float32 and rounded once.
void scatter_add_(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& source);
/// ... writes it there; where indices meet, one of them remains.
void scatter_(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& source);
/// Writes slice i of source, or for IndexUse::index_fill the one element of source, to slice index[i] of out. As
/// index_add_, otherwise.
void index_copy_(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& source,
                 IndexUse use = IndexUse::index_copy);

/// Adds slice i of source to slice index[i] of out: of out's sizes but for `dim`, and of its dtype. As scatter_add_,
/// otherwise.
void index_add_(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& source);

/// The two that read, recorded: keep(x, dim, index)
template <class Gradient>
Tensor gather(const Tensor& x, int64_t dim, const Tensor& index) {
  Tensor out = drivers::gather(x, dim, index);
  if (auto* node = Gradient::record(out, x)) node->keep(x, wrap_dim(dim, x.dim(), "gather"), index);
  return out;
}
template <class Gradient>
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index) {
  Tensor out = drivers::index_select(x, dim, index);
  if (auto* node = Gradient::record(out, x)) node->keep(x, wrap_dim(dim, x.dim(), "index_select"), index);
  return out;
}

/// A copy of x with `write` (one of the functions with `_`) done to it. The operands of the node are x and source:
/// keep(x, dim, index)
template <class Gradient, class Write>
Tensor written(Write write, const char* op, const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  detail::check_defined(x, op);
  Tensor out = raw::clone(x);
  write(out, dim, index, source);
  if (auto* node = Gradient::record(out, x, source)) node->keep(x, wrap_dim(dim, x.dim(), op), index);
  return out;
}

}  // namespace tendril::drivers

TENDRIL_API_END
