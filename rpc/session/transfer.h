#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/wire/message.h"
#include "tendril/rpc/wire/wire_tensor.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/cuda/runtime/index_owner.h"

/// Tensors of devices on their way between workers: through host memory, which is page-locked as long as there is not
/// too much of it, or, within a host, through device memory that is lent (lender.h). What arrives on a device is in
/// order with its default stream.
namespace tendril::rpc::detail {

class Lender;

/// Host memory for elements that come from a device or go to it; ordinary memory if `device` is the CPU or not of this
/// process. The block may be dropped while a device still copies from it.
Ref<Storage> host_block(std::size_t bytes, Device device);

/// What an index out of range on a device is stamped with: the call that a handler serves, or none.
cuda::CallStamp stamp_of(const CallOrigin& origin) noexcept;
/// From now on what threads issue to devices carries the stamp of their CallContext.
void stamp_device_work() noexcept;

/// Brings a message's tensors from devices to the host, or to memory that `lender`, where there is one, lends: the
/// constructor begins, on the calling thread's streams, and puts tensors of the CPU in the place of those of devices;
/// their elements are there after `wait`. `by` is who made them: it is waited for too if it had kernels look at
/// indices.
class Staging {
 public:
  Staging(Message& message, const cuda::CallStamp& by, Lender* lender = nullptr);
  explicit Staging(const cuda::CallStamp& by);  ///< for what holds no tensors of devices, or hands them on as they are
  ~Staging();  ///< waits: the host memory must not be used again while a device writes to it
  Staging(Staging&&) noexcept = default;
  Staging& operator=(Staging&&) = delete;

  bool done() const;
  void wait();  ///< throws what failed on the devices, and IndexError for an index of `by`'s that was out of range

 private:
  cuda::CallStamp by_;
  bool lend(Message& message, std::size_t index, const Tensor& block, const DenseLayout& layout, Lender& lender);

  std::vector<Tensor> sources_, targets_;
  std::vector<int8_t> devices_;
  std::vector<cuda::Event> copied_;  // what is waited for
};

/// Whether a message holds tensors of devices.
bool needs_staging(const Message& message) noexcept;

/// Puts the tensors of a received message on the devices that its placements say, without waiting; what was lent goes
/// back to the sender when it has been copied. Throws MessageError, before anything is allocated, for a device that
/// this process lacks.
void land(Message& message);

/// A copy of the tensor on `to`, which is not the CPU unless the tensor is not on it, laid out as `layout` says, in
/// order with the default streams. Waits only where host memory takes part.
Tensor copied_to(const Tensor& tensor, const DenseLayout& layout, Device to);

}  // namespace tendril::rpc::detail
