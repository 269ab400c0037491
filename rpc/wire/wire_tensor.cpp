#include "tendril/rpc/wire/wire_tensor.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tendril/tensor/raw.h"

namespace tendril::rpc {
namespace {

struct Order {
  std::array<int, Dims::kMaxDims> dims;  // dimensions that address memory, largest stride first
  int count = 0;
};

Order memory_order(const Dims& sizes, const Dims& strides) {
  Order order;
  for (int d = 0; d < sizes.size(); ++d) {
    if (sizes[d] > 1 && strides[d] != 0) order.dims[static_cast<std::size_t>(order.count++)] = d;
  }
  std::stable_sort(order.dims.begin(), order.dims.begin() + order.count,
                   [&](int a, int b) { return strides[a] > strides[b]; });
  return order;
}

}  // namespace

DenseLayout dense_layout(const Dims& sizes, const Dims& strides) {
  const int rank = sizes.size();
  DenseLayout layout;
  layout.strides = contiguous_strides(sizes);
  const int64_t numel = numel_of(sizes);
  if (numel == 0) {
    layout.direct = true;
    return layout;
  }
  for (int d = 0; d < rank; ++d) {
    if (sizes[d] == 1 ? strides[d] >= 0 && strides[d] <= numel : strides[d] == 0) layout.strides[d] = strides[d];
  }
  const Order order = memory_order(sizes, strides);
  layout.direct = true;
  layout.elements = 1;
  for (int i = order.count - 1; i >= 0; --i) {
    const int d = order.dims[static_cast<std::size_t>(i)];
    layout.direct = layout.direct && strides[d] == layout.elements;
    layout.strides[d] = layout.elements;
    layout.elements *= sizes[d];
  }
  return layout;
}

Ref<Storage> pack(const Tensor& tensor, const DenseLayout& layout) {
  if (layout.elements == 0) return Storage::allocate(0);
  const Order order = memory_order(tensor.sizes(), tensor.strides());
  Dims sizes, strides;
  for (int i = 0; i < order.count; ++i) {
    const int d = order.dims[static_cast<std::size_t>(i)];
    sizes.push_back(tensor.sizes()[d]);
    strides.push_back(tensor.strides()[d]);
  }
  return raw::clone(raw::as_strided(tensor, sizes, strides, tensor.storage_offset())).storage();
}

Tensor without_memory(const Dims& sizes, const DenseLayout& layout, DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(layout.elements) * size_of(dtype);
  auto storage = Storage::wrap(
      nullptr, bytes, kCPU, [](void*) noexcept {}, nullptr);
  return raw::on_storage(std::move(storage), sizes, layout.strides, 0, dtype);
}

Tensor make_dense(const Dims& sizes, const DenseLayout& layout, DType dtype) {
  auto storage = Storage::allocate(static_cast<std::size_t>(layout.elements) * size_of(dtype));
  return raw::on_storage(std::move(storage), sizes, layout.strides, 0, dtype);
}

}  // namespace tendril::rpc
