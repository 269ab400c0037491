#include <cstring>
#include <utility>

#include "tendril/tensor/cuda/runtime/device.h"
#include "tendril/tensor/detail/dispatch.h"
#include "tendril/tensor/layout.h"
#include "tendril/tensor/raw.h"

namespace tendril::raw {

Tensor clone(const Tensor& x) {
  detail::check_defined(x, "clone");
  Tensor result = empty_like(x);
  copy_(result, x);
  return result;
}

Tensor contiguous(const Tensor& x) {
  detail::check_defined(x, "contiguous");
  return x.is_contiguous() ? x : clone(x);
}

Tensor contiguous(const Tensor& x, MemoryFormat format) {
  detail::check_defined(x, "contiguous");
  if (x.is_contiguous(format)) return x;
  TENDRIL_CHECK_AS(ShapeError, format == MemoryFormat::contiguous || x.dim() == 4,
                   "contiguous: the memory format channels_last is of 4 dimensions, got ", x.sizes());
  Tensor result = empty(x.sizes(), x.dtype(), x.device(), format);
  copy_(result, x);
  return result;
}

Tensor cast(const Tensor& x, DType dtype) {
  detail::check_defined(x, "cast");
  if (x.dtype() == dtype) return x;
  Tensor result = empty_in_format_of(x, dtype);
  copy_(result, x);
  return result;
}

namespace {

/// Bytes travel between tensors without gaps of one dtype, shape and format; the rest is done where they arrive.
void copy_across(const Tensor& out, const Tensor& x, bool non_blocking) {
  const MemoryFormat format = x.suggest_memory_format();
  const bool direct = out.is_contiguous(format) && out.dtype() == x.dtype() && out.sizes() == x.sizes();
  const Tensor source = contiguous(x, format),
               target = direct ? out : empty(x.sizes(), x.dtype(), out.device(), format);
  cuda::transfer(target.raw_data(), target.device(), source.raw_data(), source.device(),
                 static_cast<std::size_t>(source.numel()) * size_of(source.dtype()), non_blocking && direct);
  if (!direct) copy_(out, target);
}

/// Whether elements that are read would be written first: x has memory of `out`, but is not the very same elements.
bool would_read_what_it_wrote(const Tensor& out, const Tensor& x) {
  if (out.raw_data() == x.raw_data() && out.dtype() == x.dtype() && out.sizes() == x.sizes() &&
      out.strides() == x.strides()) {
    return false;
  }
  const auto bytes_of = [](const Tensor& t) {
    int64_t last = 0;
    for (int d = 0; d < t.dim(); ++d) last += (t.sizes()[d] - 1) * t.strides()[d];
    const char* first = static_cast<const char*>(t.raw_data());
    return std::pair(first, first + (last + 1) * static_cast<int64_t>(size_of(t.dtype())));
  };
  if (out.numel() == 0 || x.numel() == 0) return false;
  const auto [out_begin, out_end] = bytes_of(out);
  const auto [begin, end] = bytes_of(x);
  return begin < out_end && out_begin < end;
}

}  // namespace

Tensor to(const Tensor& x, Device device, bool non_blocking) {
  detail::check_defined(x, "to");
  if (x.device() == device) return x;
  Tensor result = empty(x.sizes(), x.dtype(), device, x.suggest_memory_format());
  copy_(result, x, non_blocking);
  return result;
}

void copy_(const Tensor& out, const Tensor& x, bool non_blocking) {
  detail::check_defined(out, "copy_");
  detail::check_defined(x, "copy_", "the source");
  if (out.device() != x.device()) [[unlikely]]
    return copy_across(out, x, non_blocking);
  if (would_read_what_it_wrote(out, x)) [[unlikely]]
    return copy_(out, clone(x));
  const DeviceKernels table = kernels(out.device());
  const auto copy = require(table->copy, "copy", *table);
  if (out.sizes() == x.sizes()) {
    copy(view_of(out), view_of(x));
  } else {
    copy(view_of(out), view_of(expand(x, out.sizes())));
  }
}

void fill_(const Tensor& out, Scalar value) {
  detail::check_defined(out, "fill_");
  const DeviceKernels table = kernels(out.device());
  require(table->fill, "fill", *table)(view_of(out), value);
}

bool equal(const Tensor& x, const Tensor& y, bool nan_equal) {
  detail::check_defined(x, "equal", "x");
  detail::check_defined(y, "equal", "y");
  if (x.dtype() != y.dtype() || !(x.sizes() == y.sizes())) return false;
  const Tensor a = contiguous(to(x, kCPU)), b = contiguous(to(y, kCPU));
  return detail::visit(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* p = a.data<T>();
    const T* q = b.data<T>();
    for (int64_t i = 0; i < a.numel(); ++i) {
      if constexpr (std::is_integral_v<T>) {
        if (p[i] != q[i]) return false;
      } else {
        const auto u =
            static_cast<double>(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(p[i]));
        const auto v =
            static_cast<double>(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(q[i]));
        if (u != v && !(nan_equal && u != u && v != v)) return false;
      }
    }
    return true;
  });
}

}  // namespace tendril::raw
