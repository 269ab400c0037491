#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/wire/message.h"
#include "tendril/rpc/wire/wire_tensor.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/cuda/runtime/index_owner.h"

/// The transfer of device tensors between workers. They travel through host memory, which is page-locked up to a limit,
/// or, within a host, through lent device memory (lender.h). A tensor that arrives on a device is in order with the
/// device's default stream.
namespace tendril::rpc::detail {

class Lender;

/// Returns the stamp that attributes an out-of-range index on a device to the call that a handler serves, if any.
cuda::CallStamp stamp_of(const CallOrigin& origin) noexcept;
/// Makes all work that threads issue to devices from now on carry the stamp of their CallContext.
void stamp_device_work() noexcept;

/// Copies a message's device tensors to the host, or to memory that `lender` lends, if it is not null. The constructor
/// starts the copies on the calling thread's streams and replaces the device tensors with CPU tensors, whose elements
/// are valid after `wait`. `by` is the call that made the tensors; if its kernels check indices, `wait` waits for them,
/// too.
class Staging {
 public:
  Staging(Message& message, const cuda::CallStamp& by, Lender* lender = nullptr);
  explicit Staging(const cuda::CallStamp& by);  ///< for a message that needs no copies
  ~Staging();  ///< waits, because the host memory must not be reused while a device writes to it
  Staging(Staging&&) noexcept = default;
  Staging& operator=(Staging&&) = delete;

  bool done() const;
  void wait();  ///< throws errors of the devices, and IndexError if an index of `by` was out of range

 private:
  cuda::CallStamp by_;
  bool lend(Message& message, std::size_t index, const Tensor& block, const DenseLayout& layout, Lender& lender);

  std::vector<Tensor> sources_, targets_;
  std::vector<int8_t> devices_;
  std::vector<cuda::Event> copied_;  // the events that `wait` waits for
};

/// Whether a message holds device tensors.
bool needs_staging(const Message& message) noexcept;

/// Moves the tensors of a received message to the devices in its placements, without waiting. Lent tensors are returned
/// to the sender when they have been copied. Throws MessageError, before it allocates anything, if this process lacks a
/// device.
void place_on_devices(Message& message);

}  // namespace tendril::rpc::detail
