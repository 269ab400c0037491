#include "tendril/tensor/layout.h"
#include "tendril/tensor/raw.h"

namespace tendril::raw {
namespace {

Layout layout_of(const Tensor& x, const char* op) {
  detail::check_defined(x, op);
  return {x.sizes(), x.strides(), x.storage_offset()};
}

}  // namespace

// A view rule maps windows inside a storage to such windows, so nothing is left to check.
Tensor viewed(const Tensor& x, const Layout& window) {
  detail::check_defined(x, "viewed");
  Ref<TensorImpl> impl = TensorImpl::make(x.storage());
  impl->sizes = window.sizes;
  impl->strides = window.strides;
  impl->offset = window.offset;
  impl->numel = numel_of(window.sizes);
  impl->dtype = x.dtype();
  impl->contiguous = layout::is_contiguous(window.sizes, window.strides);
  return Tensor(std::move(impl));
}

Tensor as_strided(const Tensor& x, const Dims& sizes, const Dims& strides, int64_t offset) {
  detail::check_defined(x, "as_strided");
  return on_storage(x.storage(), sizes, strides, offset, x.dtype());
}

Tensor view(const Tensor& x, const Dims& sizes) {
  detail::check_defined(x, "view");
  const Dims full = layout::infer_size(sizes, x.numel(), "view");
  const auto window = layout::view(layout_of(x, "view"), full);
  TENDRIL_CHECK_AS(ShapeError, window, "view: shape ", x.sizes(), " with strides ", x.strides(), " cannot be seen as ",
                   sizes, " without a copy; use reshape");
  return viewed(x, *window);
}

Tensor reshape(const Tensor& x, const Dims& sizes) {
  detail::check_defined(x, "reshape");
  const Dims full = layout::infer_size(sizes, x.numel(), "reshape");
  if (const auto window = layout::view(layout_of(x, "view"), full)) return viewed(x, *window);
  return view(clone(x), full);
}

Tensor expand(const Tensor& x, const Dims& sizes) { return viewed(x, layout::expand(layout_of(x, "expand"), sizes)); }
Tensor permute(const Tensor& x, const Dims& dims) { return viewed(x, layout::permute(layout_of(x, "permute"), dims)); }
Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1) {
  return viewed(x, layout::transpose(layout_of(x, "transpose"), dim0, dim1));
}
Tensor select(const Tensor& x, int64_t dim, int64_t index) {
  return viewed(x, layout::select(layout_of(x, "select"), dim, index));
}
Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length) {
  return viewed(x, layout::narrow(layout_of(x, "narrow"), dim, start, length));
}
Tensor squeeze(const Tensor& x, int64_t dim) { return viewed(x, layout::squeeze(layout_of(x, "squeeze"), dim)); }
Tensor unsqueeze(const Tensor& x, int64_t dim) { return viewed(x, layout::unsqueeze(layout_of(x, "unsqueeze"), dim)); }

}  // namespace tendril::raw
