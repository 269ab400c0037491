#include <bit>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "tendril/tensor/cuda/check.h"
#include "tendril/tensor/cuda/current.h"
#include "tendril/tensor/cuda/device.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/raw.h"

namespace tendril::cuda {

namespace {

/// Locking pages takes the driver milliseconds, so blocks (powers of two) are kept for the life of the process, or
/// until no more can be locked.
class PinnedPool {
 public:
  std::byte* take(std::size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      auto& kept = free_[bytes];
      for (auto it = kept.begin(); it != kept.end(); ++it) {
        if (!it->last_use.done()) continue;
        std::byte* data = it->data;
        kept.erase(it);
        return data;
      }
    }
    TENDRIL_CHECK(is_available(), "pinned memory: no CUDA device: ", why_unavailable());
    void* data = nullptr;
    if (cudaHostAlloc(&data, bytes, cudaHostAllocPortable) != cudaSuccess) {
      cudaGetLastError();  // perhaps there is room without what is kept
      give_back();
      TENDRIL_CUDA("pinned memory", cudaHostAlloc, &data, bytes, cudaHostAllocPortable);
    }
    return static_cast<std::byte*>(data);
  }

  void put(std::byte* data, std::size_t bytes, Event last_use) {
    const std::lock_guard lock(mutex_);
    free_[bytes].push_back({data, std::move(last_use)});
  }

 private:
  struct Kept {
    std::byte* data;
    Event last_use;
  };
  using Free = std::map<std::size_t, std::deque<Kept>>;

  void give_back() {
    Free kept;
    {
      const std::lock_guard lock(mutex_);
      kept.swap(free_);
    }
    for (const auto& [bytes, blocks] : kept) {
      for (const Kept& block : blocks) {
        block.last_use.synchronize();
        TENDRIL_CUDA("pinned memory", cudaFreeHost, block.data);
      }
    }
  }

  std::mutex mutex_;
  Free free_;
};

PinnedPool& pool() {
  static auto& kept = *new PinnedPool;  // never destroyed: the driver may be gone before static objects are
  return kept;
}

}  // namespace

PinnedBuffer::PinnedBuffer(std::size_t bytes) : bytes_(std::bit_ceil(bytes < 512 ? std::size_t{512} : bytes)) {
  data_ = pool().take(bytes_);
}

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      last_use_(std::move(other.last_use_)) {}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(last_use_, other.last_use_);
  return *this;
}

PinnedBuffer::~PinnedBuffer() {
  if (data_) pool().put(data_, bytes_, std::move(last_use_));
}

void PinnedBuffer::used_by(const Stream& stream) { last_use_.record(stream); }

Tensor pinned_empty(const Dims& sizes, DType dtype) {
  const auto bytes = static_cast<std::size_t>(numel_of(sizes)) * size_of(dtype);
  auto buffer = std::make_unique<PinnedBuffer>(bytes);
  void* data = buffer->data();
  return raw::from_blob(data, sizes, dtype, [owner = std::shared_ptr<PinnedBuffer>(std::move(buffer))](void*) mutable {
    // Whoever copied to or from the tensor without waiting did so on the thread's stream.
    try {
      owner->used_by(Stream::current(current_device()));
    } catch (const Error&) {  // the device has failed, which its next use reports: nothing is copied any more
    }
    owner.reset();
  });
}

}  // namespace tendril::cuda
