#include "tendril/rpc/wire/device_memory.h"

#include <atomic>
#include <memory>

#include "tendril/tensor/cuda/runtime.h"
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

std::unique_ptr<PinnedBlock> pinned_block(std::size_t bytes) noexcept try {
  if (pinned_in_use.load(std::memory_order_relaxed) + bytes > kPinnedBudget) return nullptr;
  auto block = std::make_unique<PinnedBlock>(bytes);
  pinned_in_use.fetch_add(block->bytes(), std::memory_order_relaxed);
  return block;
} catch (...) {
  return nullptr;  // no more pages can be locked: ordinary memory will do
}

}  // namespace

bool is_here(Device device) noexcept { return device.is_cpu() || device.index < device_count(DeviceType::cuda); }

std::size_t bytes_of(const Tensor& tensor, const DenseLayout& layout) {
  return static_cast<std::size_t>(layout.elements) * size_of(tensor.dtype());
}

Tensor dense_block(const Tensor& tensor, const DenseLayout& layout) {
  if (layout.direct) return raw::as_strided(tensor, {layout.elements}, {1}, tensor.storage_offset());
  return raw::on_storage(pack(tensor, layout), {layout.elements}, {1}, 0, tensor.dtype());
}

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
