#include "tendril/autograd/detail/heads_layout.h"

#include "tendril/tensor/kernels.h"
#include "tendril/tensor/raw.h"

namespace tendril::detail {

namespace {

HeadsLayout settled(HeadsLayout layout) {
  const Dims contiguous = contiguous_strides(layout.sizes);
  for (int d = 0; d < 4; ++d) {
    if (layout.sizes[d] == 1) layout.strides[d] = contiguous[d];
  }
  return layout;
}

bool takes(const HeadsLayout& layout, void* data, Device device) {
  if (layout.contiguous()) return true;
  const DeviceKernels table = kernels(device);
  return table->attention_takes && table->attention_takes(layout.view(data));
}

/// As x lies; where it has more first dimensions than two, as if it had no gaps.
HeadsLayout present_layout(const Tensor& x) {
  const Dims sizes = in_heads(x.sizes());
  if (x.is_contiguous() || x.dim() > 4) return {sizes, contiguous_strides(sizes), x.dtype()};
  Dims strides = contiguous_strides(sizes);
  const int last = x.dim() - 1;
  strides[3] = x.strides()[last];
  strides[2] = x.strides()[last - 1];
  if (x.dim() > 3) strides[1] = x.strides()[1];
  if (x.dim() > 2) strides[0] = x.strides()[0];
  return settled({sizes, strides, x.dtype()});
}

}  // namespace

View HeadsLayout::view(void* data) const {
  return {data, sizes.data(), strides.data(), numel_of(sizes), 4, dtype, contiguous()};
}

Dims in_heads(const Dims& sizes) {
  const int heads = sizes.size() - 3;  // the dimension before the rows, if there is another before it
  Dims result{1, heads > 0 ? sizes[heads] : 1, sizes[sizes.size() - 2], sizes.back()};
  for (int d = 0; d < sizes.size() - 2; ++d) {
    if (d != heads || heads == 0) result[0] *= sizes[d];
  }
  return result;
}

HeadsLayout layout_of(const Tensor& x) {
  const HeadsLayout present = present_layout(x);
  if (takes(present, x.raw_data(), x.device())) return present;
  return {present.sizes, contiguous_strides(present.sizes), x.dtype()};
}

HeadsLayout dense_layout(const Dims& sizes, DType dtype, bool rows_outside) {
  HeadsLayout layout{sizes, contiguous_strides(sizes), dtype};
  if (!rows_outside) return layout;
  layout.strides[1] = sizes[3];
  layout.strides[2] = sizes[1] * sizes[3];
  return settled(layout);
}

HeadsLayout layout_of_third(const Dims& all, DType dtype, Device device) {
  const int64_t rows = all[1], heads = all[3], columns = all[4], row = 3 * heads * columns;
  const HeadsLayout third = settled({{all[0], heads, rows, columns}, {rows * row, columns, row, 1}, dtype});
  return takes(third, nullptr, device) ? third : dense_layout(third.sizes, dtype, false);
}

Tensor make(const HeadsLayout& layout, Device device) {
  return raw::as_strided(raw::empty({numel_of(layout.sizes)}, layout.dtype, device), layout.sizes, layout.strides, 0);
}

bool lies_as(const Tensor& x, const HeadsLayout& layout) {
  if (x.dim() > 4 && !x.is_contiguous()) return false;
  return present_layout(x).strides == layout.strides && takes(layout, x.raw_data(), x.device());
}

Tensor laid_as(const Tensor& x, const HeadsLayout& layout) {
  if (lies_as(x, layout)) return raw::as_strided(x, layout.sizes, layout.strides, x.storage_offset());
  Tensor copy = make(layout, x.device());
  raw::copy_(raw::reshape(copy, x.sizes()), x);
  return copy;
}

}  // namespace tendril::detail
