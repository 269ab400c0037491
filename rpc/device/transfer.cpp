#include "tendril/rpc/device/transfer.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "tendril/rpc/error.h"
#include "tendril/rpc/executor.h"
#include "tendril/rpc/device/borrower.h"
#include "tendril/rpc/device/lender.h"
#include "tendril/tensor/raw.h"

namespace tendril::rpc::detail {
namespace {

/// The limit of page-locked memory in use at once. tensor/ keeps such memory for the life of the process, and sizes
/// that peers announce are not trusted. Beyond the limit, ordinary memory is used, which devices copy more slowly.
constexpr std::size_t kPinnedBudget = std::size_t{1} << 30;
std::atomic<std::size_t> pinned_in_use{0};

class PinnedBlock {
 public:
  explicit PinnedBlock(std::size_t bytes) : buffer_(bytes) {}
  ~PinnedBlock() { pinned_in_use.fetch_sub(buffer_.bytes(), std::memory_order_relaxed); }
  std::byte* data() const noexcept { return buffer_.data(); }
  std::size_t bytes() const noexcept { return buffer_.bytes(); }

 private:
  cuda::PinnedBuffer buffer_;
};

bool is_here(Device device) noexcept { return device.is_cpu() || device.index < device_count(DeviceType::cuda); }

std::unique_ptr<PinnedBlock> pinned_block(std::size_t bytes) noexcept try {
  if (pinned_in_use.load(std::memory_order_relaxed) + bytes > kPinnedBudget) return nullptr;
  auto block = std::make_unique<PinnedBlock>(bytes);
  pinned_in_use.fetch_add(block->bytes(), std::memory_order_relaxed);
  return block;
} catch (...) {
  return nullptr;  // no more pages can be locked: ordinary memory will do
}

std::size_t bytes_of(const Tensor& tensor, const DenseLayout& layout) {
  return static_cast<std::size_t>(layout.elements) * size_of(tensor.dtype());
}

/// Returns the tensor's elements as one block on its device, in order with the current stream. Returns the tensor's
/// memory if that is one block already.
Tensor dense_block(const Tensor& tensor, const DenseLayout& layout) {
  if (layout.direct) return raw::as_strided(tensor, {layout.elements}, {1}, tensor.storage_offset());
  return raw::on_storage(pack(tensor, layout), {layout.elements}, {1}, 0, tensor.dtype());
}

}  // namespace

Ref<Storage> host_block(std::size_t bytes, Device device) {
  if (!device.is_cpu() && bytes > 0 && is_here(device)) {
    if (auto block = pinned_block(bytes)) {
      PinnedBlock* const owned = block.release();
      const auto drop = [](void* context) noexcept { delete static_cast<PinnedBlock*>(context); };
      return Storage::wrap(owned->data(), bytes, kCPU, drop, owned);
    }
  }
  return Storage::allocate(bytes);
}

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

Tensor copied_to(const Tensor& tensor, const DenseLayout& layout, Device to) {
  const Device from = tensor.device();
  const bool on_another =
      !from.is_cpu() && !(cuda::Stream::current(from.index) == cuda::Stream::default_of(from.index));
  const cuda::DefaultStreams in_order;
  Ref<Storage> storage;
  if (layout.elements == 0) {
    storage = Storage::allocate(0, to);
  } else if (!layout.direct && tensor.device() == to) {
    storage = pack(tensor, layout);
  } else {
    const Tensor block = dense_block(tensor, layout);
    const std::size_t bytes = bytes_of(tensor, layout);
    storage = Storage::allocate(bytes, to);
    cuda::copy_async(storage->data(), to, block.raw_data(), tensor.device(), bytes);
    if (to.is_cpu() || tensor.device().is_cpu()) {
      cuda::Event copied;  // waiting for the stream would keep a processor busy
      copied.record(cuda::Stream::current(to.is_cpu() ? tensor.device().index : to.index));
      copied.synchronize();
    }
  }
  if (on_another) cuda::record_stream(tensor, cuda::Stream::default_of(from.index));
  return raw::on_storage(std::move(storage), tensor.sizes(), layout.strides, 0, tensor.dtype());
}

}  // namespace tendril::rpc::detail
