#include "tendril/tensor/tensor.h"

#include <array>
#include <mutex>

#include "tendril/tensor/detail/dispatch.h"
#include "tendril/tensor/layout.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

/// One of a few, by address: threads that refresh different views rarely meet.
std::mutex& mutex_of(const TensorImpl& view) noexcept {
  static std::array<std::mutex, 64> mutexes;
  return mutexes[(reinterpret_cast<uintptr_t>(&view) * 0x9E3779B97F4A7C15u) >> 58];
}

}  // namespace

// Readers find the version old, or the history that was made before it was set (release, acquire).
void TensorImpl::refresh() {
  const Ref<History> before = [this] {
    const std::lock_guard lock(mutex_of(*this));
    if (!is_stale() || (!history && !view_base->history)) return Ref<History>();
    Ref<History> old = history;  // what it held may end anything: not under the lock
    if (view_base->history) {
      view_base->history->derive(*this);
    } else {
      history.reset();
      output_number = 0;
    }
    view_version.store(storage->version(), std::memory_order_release);
    return old;
  }();
}

void detail::check_floating(const Tensor& x, const char* op) {
  check_defined(x, op);
  TENDRIL_CHECK_AS(DTypeError, is_floating(x.dtype()), op, ": expected a floating dtype, got ", x.dtype());
}

void detail::refuse_undefined(const char* op, const char* argument) {
  raise<Error>(op, ": ", argument, " is undefined");
}

void TensorImpl::destroy(TensorImpl* impl) noexcept {
  impl->~TensorImpl();
  memory::release(impl, sizeof(TensorImpl));
}

bool Tensor::is_contiguous(MemoryFormat format) const {
  const TensorImpl& it = body("is_contiguous");
  return format == MemoryFormat::contiguous ? it.contiguous : layout::is_channels_last(it.sizes, it.strides);
}

MemoryFormat Tensor::suggest_memory_format() const {
  const TensorImpl& it = body("suggest_memory_format");
  const bool last = !it.contiguous && layout::is_channels_last(it.sizes, it.strides);
  return last ? MemoryFormat::channels_last : MemoryFormat::contiguous;
}

void Tensor::check_data_access(DType wanted) const {
  detail::check_defined(*this, "data");
  TENDRIL_CHECK_AS(DTypeError, wanted == dtype(), "data: the tensor's elements are ", dtype(), ", asked for ", wanted);
  TENDRIL_CHECK(device().is_cpu(), "data: the tensor is on ", device(), "; copy it to the cpu first");
}

void Tensor::check_accessor(int dims) const {
  detail::check_defined(*this, "accessor");
  TENDRIL_CHECK_AS(ShapeError, dim() == dims, "accessor: the tensor has ", dim(), " dimensions, asked for ", dims);
}

Scalar Tensor::item_scalar() const {
  detail::check_defined(*this, "item");
  TENDRIL_CHECK_AS(ShapeError, numel() == 1, "item: the tensor must have one element, got shape ", sizes());
  if (!device().is_cpu()) return raw::to(*this, kCPU).item_scalar();
  return detail::visit(dtype(), [&](auto tag) -> Scalar {
    using T = typename decltype(tag)::type;
    const T element = *static_cast<const T*>(raw_data());
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      return static_cast<float>(element);
    } else {
      return element;
    }
  });
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  detail::check_defined(*this, "to_vector");
  const Tensor elements = raw::to(raw::contiguous(raw::cast(*this, dtype_of<T>)), kCPU);
  const T* first = elements.data<T>();
  return std::vector<T>(first, first + elements.numel());
}

template std::vector<float> Tensor::to_vector() const;
template std::vector<double> Tensor::to_vector() const;
template std::vector<int64_t> Tensor::to_vector() const;
template std::vector<int32_t> Tensor::to_vector() const;
template std::vector<uint8_t> Tensor::to_vector() const;
template std::vector<bool> Tensor::to_vector() const;
template std::vector<Half> Tensor::to_vector() const;
template std::vector<BFloat16> Tensor::to_vector() const;

}  // namespace tendril
