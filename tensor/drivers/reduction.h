#pragma once

#include "tendril/tensor/drivers/record.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/raw.h"

TENDRIL_API_BEGIN

/// The driver of reductions: shape rule, dtype, allocation, kernel, recording, errors. The CPU's plan (dimensions
/// sorted by strides, merged, split over threads) is in tensor/cpu/reduce.cpp, a device's in
/// tensor/cuda/kernels/reduction_plan.h.
namespace tendril::drivers {

/// What is left of a shape. No `dims` means all of them. IndexError for a dimension that there is not, Error for one
/// given twice.
struct Reduced {
  Dims kept;          ///< with size 1 where reduced
  Dims squeezed;      ///< without those
  int64_t count = 1;  ///< elements that make one result

  Reduced(const Tensor& x, const Dims& dims, const char* op) {
    detail::check_defined(x, op);
    bool reduced[Dims::kMaxDims] = {};
    for (int64_t given : dims) {
      const int d = wrap_dim(given, x.dim(), op);
      TENDRIL_CHECK(!reduced[d], op, ": dim ", d, " appears multiple times in the list of dims");
      reduced[d] = true;
    }
    for (int d = 0; d < x.dim(); ++d) {
      const bool gone = dims.empty() || reduced[d];
      if (gone) count *= x.sizes()[d];
      kept.push_back(gone ? 1 : x.sizes()[d]);
      if (!gone) squeezed.push_back(x.sizes()[d]);
    }
  }
};

/// What the kernel takes: integers and bool add up and multiply in int64, all and any are of bool.
constexpr DType reduced_in(Reduction op, DType dtype) noexcept {
  const Reduction fold = fold_of(op);
  if (fold == Reduction::all || fold == Reduction::any) return kBool;
  return (fold == Reduction::sum || fold == Reduction::prod) && !is_floating(dtype) ? kInt64 : dtype;
}

/// x reduced to `kept`, as a tensor of `sizes` (as many elements): keep(out, x, kept). `name` is for errors. Inline: a
/// sum of four numbers is as long as a call.
template <class Gradient = Unrecorded>
[[gnu::always_inline]] inline Tensor reduce_to(Reduction op, const Tensor& x, const Dims& kept, const Dims& sizes,
                                               const char* name) {
  const DType dtype = reduced_in(op, x.dtype());
  const Tensor wide = x.dtype() == dtype ? Tensor()
                      : dtype == kBool   ? raw::compare(Compare::ne, x, 0)
                                         : raw::cast(x, dtype);
  const DeviceKernels table = kernels(x.device());
  Tensor out = raw::empty(sizes, dtype, x.device());
  const Dims strides = contiguous_strides(kept);
  const View to{out.raw_data(), kept.data(), strides.data(), out.numel(), kept.size(), dtype, true};
  require(table->reduce, name, *table)(op, to, raw::view_of(wide.defined() ? wide : x));
  if (auto* node = Gradient::record(out, x)) node->keep(out, x, kept);
  return out;
}

/// sum and prod of integers and bool are int64; max and min keep the dtype and refuse empty slices (ShapeError); all
/// and any take every dtype and give bool, of whether elements are not 0. Floating sums are accumulated in double,
/// those of float32 after sixteen numbers added in pairs (tensor/cpu/level/reduce.cpp).
template <class Gradient = Unrecorded>
Tensor reduce(Reduction op, const Tensor& x, const Dims& dims, bool keepdim, const char* name) {
  const Reduced to(x, dims, name);
  const bool needs_elements = fold_of(op) == Reduction::max || fold_of(op) == Reduction::min;
  TENDRIL_CHECK_AS(ShapeError, !needs_elements || to.count > 0, name, ": of no elements: shape ", x.sizes());
  return reduce_to<Gradient>(op, x, to.kept, keepdim ? to.kept : to.squeezed, name);
}
template <class Gradient = Unrecorded>
Tensor reduce(Reduction op, const Tensor& x, const Dims& dims = {}, bool keepdim = false) {
  return reduce<Gradient>(op, x, dims, keepdim, name_of(op));
}

}  // namespace tendril::drivers

TENDRIL_API_END
