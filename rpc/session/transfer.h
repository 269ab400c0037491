#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tendril/rpc/wire/message.h"
#include "tendril/rpc/wire/wire_tensor.h"
#include "tendril/tensor/cuda/runtime.h"

/// Tensors of devices on their way between workers: through host memory, which is page-locked as long as there is not
/// too much of it. What arrives on a device is in order with its default stream.
namespace tendril::rpc::detail {

/// Host memory for elements that come from a device or go to it; ordinary memory if `device` is the CPU or not of this
/// process. The block may be dropped while the device's default stream still reads it.
Ref<Storage> host_block(std::size_t bytes, Device device);

/// Brings a message's tensors from devices to the host: the constructor begins, on the calling thread's streams, and
/// puts tensors of the CPU in the place of those of devices; their elements are there after `wait`.
class Staging {
 public:
  Staging() = default;
  explicit Staging(Message& message);
  ~Staging();  ///< waits: the host memory must not be used again while a device writes to it
  Staging(Staging&&) noexcept = default;
  Staging& operator=(Staging&&) = delete;

  bool done() const;
  void wait();  ///< throws what failed on the device

 private:
  std::vector<Tensor> sources_, targets_;
  std::vector<cuda::Event> copied_;  // one for each device
};

/// Whether a message holds tensors of devices.
bool needs_staging(const Message& message) noexcept;

/// Puts the tensors of a received message on the devices that its placements say, without waiting. Throws MessageError,
/// before anything is allocated, for a device that this process lacks.
void land(Message& message);

/// A copy of the tensor on `to`, which is not the CPU unless the tensor is not on it, laid out as `layout` says, in
/// order with the default streams. Waits only where host memory takes part.
Tensor copied_to(const Tensor& tensor, const DenseLayout& layout, Device to);

}  // namespace tendril::rpc::detail
