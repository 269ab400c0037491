#include "tendril/rpc/device/transfer.h"

#include <algorithm>
#include <utility>

#include "tendril/rpc/device/borrower.h"
#include "tendril/rpc/device/lender.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/executor.h"
#include "tendril/rpc/wire/device_memory.h"
#include "tendril/tensor/raw.h"

namespace tendril::rpc::detail {

bool needs_staging(const Message& message) noexcept {
  return std::any_of(message.placements.begin(), message.placements.end(),
                     [](const Placement& placement) { return !placement.from.is_cpu(); });
}

cuda::CallStamp stamp_of(const CallOrigin& origin) noexcept { return {origin.agent, origin.caller, origin.call_id}; }

void stamp_device_work() noexcept {
  cuda::set_call_of_thread([]() noexcept { return stamp_of(CallContext::current().origin); });
}

Staging::Staging(const cuda::CallStamp& by) : by_(by), copied_(cuda::ends_of_index_work(by)) {}

/// Replaces the tensor with a place in the lender's memory. Returns false if the tensor must be staged.
bool Staging::lend(Message& message, std::size_t index, const Tensor& block, const DenseLayout& layout,
                   Lender& lender) {
  Tensor& tensor = message.tensors[index];
  if (tensor.dtype() == kBool) return false;  // the receiver checks their elements in host memory
  const Device device = tensor.device();
  const auto place =
      lender.lend(block.raw_data(), device, message.placements[index].to, bytes_of(tensor, layout), message.lending);
  if (!place) return false;
  copied_.emplace_back();  // at once, because the memory is reused if something fails from here on
  copied_.back().record(cuda::Stream::current(device.index));
  message.lent.resize(message.tensors.size());
  message.lent[index] = *place;
  tensor = without_memory(tensor.sizes(), layout, tensor.dtype());
  return true;
}

Staging::Staging(Message& message, const cuda::CallStamp& by, Lender* lender) : Staging(by) {
  message.requires_grad.clear();
  for (std::size_t i = 0; i < message.tensors.size(); ++i) {
    Tensor& tensor = message.tensors[i];
    TENDRIL_CHECK_AS(MessageError, tensor.defined(), "a message holds an undefined tensor");
    message.requires_grad.push_back(tensor.impl()->current_history() != nullptr);
    const Device device = tensor.device();
    if (device.is_cpu()) continue;
    const DenseLayout layout = dense_layout(tensor.sizes(), tensor.strides());
    const std::size_t bytes = bytes_of(tensor, layout);
    const Tensor block = bytes > 0 ? dense_block(tensor, layout) : tensor;
    sources_.push_back(block);
    if (std::find(devices_.begin(), devices_.end(), device.index) == devices_.end()) devices_.push_back(device.index);
    if (lender && lend(message, i, block, layout, *lender)) continue;
    Ref<Storage> host = host_block(bytes, device);
    cuda::copy_async(host->data(), kCPU, block.raw_data(), device, bytes);
    tensor = raw::on_storage(std::move(host), tensor.sizes(), layout.strides, 0, tensor.dtype());
    targets_.push_back(tensor);
  }
  for (const int8_t device : devices_) {
    copied_.emplace_back();
    copied_.back().record(cuda::Stream::current(device));
  }
}

Staging::~Staging() {
  for (const cuda::Event& event : copied_) {
    try {
      event.reach();
    } catch (...) {  // the device has failed, so it no longer writes
    }
  }
}

bool Staging::done() const {
  return std::all_of(copied_.begin(), copied_.end(), [](const cuda::Event& event) { return event.done(); });
}

void Staging::wait() {
  if (!done()) {
    const BlockedScope blocked("rpc: waiting for a device");
    for (const cuda::Event& event : copied_) event.reach();
  }
  if (by_.server != 0) {
    cuda::throw_index_errors_of(by_, 0);
  } else {
    for (const int8_t device : devices_) cuda::throw_index_errors_of({}, device);
  }
  copied_.clear();
  sources_.clear();
  targets_.clear();
}

void place_on_devices(Message& message) {
  for (std::size_t i = 0; i < message.placements.size(); ++i) {
    const Device to = message.placements[i].to;
    TENDRIL_CHECK_AS(MessageError, is_here(to), "tensor ", i, " of a received message is to be on ", to,
                     ", but this process has ", device_count(DeviceType::cuda), " CUDA devices");
  }
  for (std::size_t i = 0; i < message.placements.size(); ++i) {
    const Device to = message.placements[i].to;
    if (to.is_cpu()) continue;
    Tensor& tensor = message.tensors[i];
    if (!message.lent.empty() && message.lent[i].id != 0) {
      tensor = static_cast<Borrower::Borrowed&>(*message.lending).copy(i, tensor, to);
      continue;
    }
    const cuda::StreamGuard guard(cuda::Stream::default_of(to.index));
    const Ref<Storage> host = tensor.storage();
    Ref<Storage> there = Storage::allocate(host->bytes(), to);
    cuda::copy_async(there->data(), to, host->data(), kCPU, host->bytes());
    tensor = raw::on_storage(std::move(there), tensor.sizes(), tensor.strides(), 0, tensor.dtype());
  }
  message.lent.clear();
  message.lending.reset();  // returned when the copies are done
}

}  // namespace tendril::rpc::detail
