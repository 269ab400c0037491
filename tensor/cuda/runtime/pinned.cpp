#include <algorithm>
#include <bit>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/cuda/runtime/check.h"
#include "tendril/tensor/cuda/runtime/current.h"
#include "tendril/tensor/cuda/runtime/pinned.h"
#include "tendril/tensor/raw.h"

namespace tendril::cuda {

namespace {

/// Locking pages takes the driver milliseconds, so blocks (powers of two) are kept for the life of the process, or
/// until no more can be locked. A block knows which streams copy from or to it, whoever drops it.
class PinnedPool {
 public:
  std::byte* take(std::size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      auto& kept = free_[bytes];
      for (auto it = kept.begin(); it != kept.end(); ++it) {
        if (!it->done()) continue;
        std::byte* data = it->data;
        kept.erase(it);
        live_.emplace(data, Block{data, bytes, {}});
        return data;
      }
    }
    TENDRIL_CHECK(is_available(), "pinned memory: no CUDA device: ", why_unavailable());
    const DeviceGuard guard(any_device());  // cudaHostAlloc makes the current device's context
    void* data = nullptr;
    if (cudaHostAlloc(&data, bytes, cudaHostAllocPortable) != cudaSuccess) {
      cudaGetLastError();  // perhaps there is room without what is kept
      give_back();
      TENDRIL_CUDA("pinned memory", cudaHostAlloc, &data, bytes, cudaHostAllocPortable);
    }
    auto* const taken = static_cast<std::byte*>(data);
    const std::lock_guard lock(mutex_);
    live_.emplace(taken, Block{taken, bytes, {}});
    return taken;
  }

  void put(std::byte* data) {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(data);
    free_[found->second.bytes].push_back(std::move(found->second));
    live_.erase(found);
  }

  /// False for an address that is in none of the blocks.
  bool used(const void* address, const Stream& stream) {
    const auto* const at = static_cast<const std::byte*>(address);
    const std::lock_guard lock(mutex_);
    const auto after = live_.upper_bound(at);
    if (after == live_.begin()) return false;
    Block& block = std::prev(after)->second;
    if (at >= block.data + block.bytes) return false;
    for (auto& [of, end] : block.uses) {
      if (of == stream) {
        end.record(stream);
        return true;
      }
    }
    block.uses.emplace_back(stream, Event()).second.record(stream);
    return true;
  }

 private:
  struct Block {
    std::byte* data;
    std::size_t bytes;
    std::vector<std::pair<Stream, Event>> uses;  ///< by stream: the end of the last copy

    bool done() const {
      return std::all_of(uses.begin(), uses.end(), [](const auto& use) { return use.second.done(); });
    }
  };

  void give_back() {
    std::map<std::size_t, std::deque<Block>> kept;
    {
      const std::lock_guard lock(mutex_);
      kept.swap(free_);
    }
    for (const auto& [bytes, blocks] : kept) {
      for (const Block& block : blocks) {
        for (const auto& use : block.uses) use.second.reach();
        TENDRIL_CUDA("pinned memory", cudaFreeHost, block.data);
      }
    }
  }

  std::mutex mutex_;
  std::map<const std::byte*, Block, std::less<>> live_;  // by address
  std::map<std::size_t, std::deque<Block>> free_;        // by size
};

PinnedPool& pool() {
  static auto& kept = *new PinnedPool;  // never destroyed: the driver may be gone before static objects are
  return kept;
}

}  // namespace

PinnedBuffer::PinnedBuffer(std::size_t bytes) {
  constexpr std::size_t kLeast = 512, kMost = ~std::size_t{0} / 2 + 1;
  TENDRIL_CHECK(bytes <= kMost, "PinnedBuffer: bytes: got ", bytes, ", expected at most ", kMost);
  bytes_ = std::bit_ceil(std::max(bytes, kLeast));
  data_ = pool().take(bytes_);
}

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

PinnedBuffer::~PinnedBuffer() {
  if (data_) pool().put(data_);
}

void PinnedBuffer::used_by(const Stream& stream) {
  if (data_) pool().used(data_, stream);
}

bool note_pinned_use(const void* address, const Stream& stream) { return pool().used(address, stream); }

Tensor pinned_empty(const Dims& sizes, DType dtype) {
  std::size_t bytes = 0;
  TENDRIL_CHECK_AS(ShapeError,
                   !__builtin_mul_overflow(static_cast<std::size_t>(numel_of(sizes)), size_of(dtype), &bytes),
                   "pinned_empty: too many elements: shape ", sizes, " of ", dtype);
  auto buffer = std::make_shared<PinnedBuffer>(bytes);
  void* data = buffer->data();
  return raw::from_blob(data, sizes, dtype, [owner = std::move(buffer)](void*) mutable { owner.reset(); });
}

}  // namespace tendril::cuda
