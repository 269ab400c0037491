#include <cuda_runtime_api.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <vector>

#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/cuda/runtime/caching_allocator.h"
#include "tendril/tensor/cuda/runtime/check.h"
#include "tendril/tensor/cuda/runtime/current.h"
#include "tendril/tensor/cuda/runtime/device.h"
#include "tendril/tensor/cuda/runtime/workspace.h"

namespace tendril::cuda {

namespace {

class DriverMemory final : public MemorySource {
 public:
  explicit DriverMemory(int device) noexcept : device_(device) {}

  void* obtain(std::size_t bytes) noexcept override {
    const DeviceGuard guard(device_, std::nothrow);
    void* address = nullptr;
    if (cudaMalloc(&address, bytes) != cudaSuccess) {
      cudaGetLastError();  // reported by the caller, with a table
      return nullptr;
    }
    return address;
  }
  void give_back(void* address, std::size_t) noexcept override {
    const DeviceGuard guard(device_, std::nothrow);
    cudaFree(address);  // waits for the device; what fails there, its next use reports
  }
  void* record_event(void* stream) override {
    const DeviceGuard guard(device_, std::nothrow);
    cudaEvent_t event = nullptr;
    // Without an event the block could never be reused safely: then wait here.
    if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync) != cudaSuccess ||
        cudaEventRecord(event, static_cast<cudaStream_t>(stream)) != cudaSuccess) {
      cudaDeviceSynchronize();
    }
    return event;
  }
  bool is_done(void* event) noexcept override {
    if (!event) return true;
    const DeviceGuard guard(device_, std::nothrow);
    if (is_pending(cudaEventQuery(static_cast<cudaEvent_t>(event)))) return false;
    cudaEventDestroy(static_cast<cudaEvent_t>(event));
    return true;
  }
  void wait_for(void* event) noexcept override {
    if (!event) return;
    const DeviceGuard guard(device_, std::nothrow);
    cudaEventSynchronize(static_cast<cudaEvent_t>(event));
    cudaEventDestroy(static_cast<cudaEvent_t>(event));
  }

 private:
  int device_;
};

/// One device's allocator. Never destroyed: tensors with static storage may be released after it would be, and the
/// driver takes its memory back by itself.
struct DeviceMemory {
  explicit DeviceMemory(int device) : source(device), blocks(source, is_memory_cached()) {}

  DriverMemory source;
  CachingAllocator blocks;
};

CachingAllocator& memory_of(int device) {
  static auto& all = *[] {
    auto* made = new std::vector<std::unique_ptr<DeviceMemory>>;
    for (int i = 0; i < device_count(); ++i) made->push_back(std::make_unique<DeviceMemory>(i));
    return made;
  }();
  return all[static_cast<std::size_t>(device)]->blocks;
}

struct Handle {
  CachingAllocator* owner;
  CachingAllocator::Block* block;
};

[[noreturn]] void out_of_memory(std::size_t bytes, int device) {
  std::size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  tendril::detail::raise<Error>("out of memory: cannot allocate ", bytes, " bytes on cuda:", device, ", which has ",
                                total, " bytes, ", free, " of them free for this process\n", memory_of(device).table());
}

CachingAllocator::Block* allocate_block(std::size_t bytes, int device) {
  CachingAllocator::Block* block = memory_of(device).allocate(bytes, current_stream());
  if (!block) out_of_memory(bytes, device);
  return block;
}

}  // namespace

Allocation allocate(std::size_t bytes, Device device) {
  const DeviceGuard guard(device.index);
  if (bytes == 0) return {};
  auto* handle = new Handle{&memory_of(device.index), allocate_block(bytes, device.index)};
  return {CachingAllocator::address_of(handle->block), handle};
}

void release(void* block) noexcept {
  if (!block) return;
  const auto* handle = static_cast<Handle*>(block);
  handle->owner->release(handle->block);
  delete handle;
}

Workspace::Workspace(std::size_t bytes) {
  if (bytes == 0) return;
  owner_ = &memory_of(current_device());
  block_ = allocate_block(bytes, current_device());
  data_ = CachingAllocator::address_of(static_cast<CachingAllocator::Block*>(block_));
}

Workspace::Workspace(std::size_t bytes, const std::nothrow_t&) {
  if (bytes == 0) return;
  CachingAllocator& memory = memory_of(current_device());
  CachingAllocator::Block* block = memory.allocate(bytes, current_stream(), CachingAllocator::Effort::kCached);
  if (!block) {
    std::size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    const MemoryStats stats = memory.stats();
    if (free + static_cast<std::size_t>(stats.reserved_bytes - stats.live_bytes) < bytes) return;
    block = memory.allocate(bytes, current_stream());
    if (!block) return;
  }
  owner_ = &memory;
  block_ = block;
  data_ = CachingAllocator::address_of(block);
}

Workspace::~Workspace() {
  if (block_) static_cast<CachingAllocator*>(owner_)->release(static_cast<CachingAllocator::Block*>(block_));
}

bool is_memory_cached() {
  static const bool cached = [] {
    const char* wanted = std::getenv("TENDRIL_CUDA_CACHE");
    return !wanted || std::string_view(wanted) != "0";
  }();
  return cached;
}

void keep_memory_of(int device, void* stream, bool on) noexcept { memory_of(device).keep(stream, on); }

MemoryStats memory_stats(int device) {
  check_device(device);
  return memory_of(device).stats();
}
void reset_peak_memory(int device) {
  check_device(device);
  memory_of(device).reset_peak();
}
void empty_cache(int device) {
  check_device(device);
  memory_of(device).empty_cache();
}

void record_stream(const Tensor& x, const Stream& stream) {
  TENDRIL_CHECK(x.defined(), "record_stream: the tensor is undefined");
  const Storage& storage = *x.storage();
  if (storage.device().is_cpu() || !storage.block()) return;
  TENDRIL_CHECK(storage.device().index == stream.device(), "record_stream: the tensor is on ", x.device(),
                ", the stream of cuda:", stream.device());
  const auto* handle = static_cast<const Handle*>(storage.block());
  handle->owner->record_use(handle->block, stream.native());
}

}  // namespace tendril::cuda
