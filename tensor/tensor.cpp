#include "tendril/tensor/tensor.h"

#include "tendril/tensor/detail/dispatch.h"
#include "tendril/tensor/raw.h"

namespace tendril {

void TensorImpl::destroy(TensorImpl* impl) noexcept {
  impl->~TensorImpl();
  memory::release(impl, sizeof(TensorImpl));
}

void Tensor::check_data_access(DType wanted) const {
  TENDRIL_CHECK(defined(), "data: the tensor is undefined");
  TENDRIL_CHECK_AS(DTypeError, wanted == dtype(), "data: the tensor's elements are ", dtype(), ", asked for ", wanted);
  TENDRIL_CHECK(device().is_cpu(), "data: the tensor is on ", device(), "; copy it to the cpu first");
}

Scalar Tensor::item_scalar() const {
  TENDRIL_CHECK(defined(), "item: the tensor is undefined");
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
  TENDRIL_CHECK(defined(), "to_vector: the tensor is undefined");
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
