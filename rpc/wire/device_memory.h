#pragma once

#include <cstddef>

#include "tendril/rpc/wire/wire_tensor.h"

/// The memory of tensors that come from or go to a device.
namespace tendril::rpc::detail {

/// Whether this process has the device.
bool is_here(Device device) noexcept;
/// The size of the tensor's elements in a message.
std::size_t bytes_of(const Tensor& tensor, const DenseLayout& layout);
/// Returns the tensor's elements as one block on its device, in order with the current stream. Returns the tensor's
/// memory if that is one block already.
Tensor dense_block(const Tensor& tensor, const DenseLayout& layout);
/// Allocates host memory for elements that are copied to or from `device`. It is ordinary memory if `device` is the CPU
/// or not of this process. The block may be released while a device still copies from it.
Ref<Storage> host_block(std::size_t bytes, Device device);
/// Returns a copy of the tensor on `to` with the layout `layout`, in order with the default streams. The tensor and
/// `to` must not both be on the CPU. Waits only if host memory is involved.
Tensor copied_to(const Tensor& tensor, const DenseLayout& layout, Device to);

}  // namespace tendril::rpc::detail
