#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <new>

#include "tendril/tensor/detail/large_pool.h"
#include "tendril/tensor/detail/memory_limit.h"

namespace tendril::memory::detail {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

void* map(std::size_t size) {
  const std::size_t slack = size >= kHugePage ? kHugePage : 0;
  void* mapped = mmap(nullptr, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  if (slack == 0) return mapped;
  // Cut down to a part that begins on a huge page.
  const auto begin = reinterpret_cast<uintptr_t>(mapped);
  const uintptr_t aligned = (begin + kHugePage - 1) & ~(kHugePage - 1);
  if (aligned > begin) munmap(mapped, aligned - begin);
  if (aligned + size < begin + size + slack) {
    munmap(reinterpret_cast<void*>(aligned + size), begin + slack - aligned);
  }
  void* buffer = reinterpret_cast<void*>(aligned);
  madvise(buffer, size, MADV_HUGEPAGE);  // a wish; refused where the kernel has none
  return buffer;
}

}  // namespace

LargePool& LargePool::instance() noexcept {
  alignas(LargePool) static char bytes[sizeof(LargePool)];
  static LargePool* const pool = new (bytes) LargePool;
  return *pool;
}

namespace {

/// Pages given back are cleared when they are taken again, which costs large steps of training a tenth and more
/// (docs/benchmarks/resnet50_pipeline.md). But each worker on a machine keeps as much.
constexpr std::size_t kMostKept = std::size_t{4} << 30;

// While there is one thread: the constructor reads files, and a child of a fork would wait for a thread that is in it.
[[maybe_unused]] const LargePool& made_early = LargePool::instance();

}  // namespace

LargePool::LargePool() noexcept : limit_(std::min(usable_memory() / 8, kMostKept)) {}

std::size_t LargePool::rounded(std::size_t bytes) noexcept {
  if (bytes > SIZE_MAX / 2) return bytes;  // hopeless; the system says so
  const std::size_t step = std::max(std::bit_floor(bytes - 1) / 8, std::size_t{4096});
  return (bytes + step - 1) / step * step;
}

void* LargePool::take(std::size_t size, bool& fresh) {
  {
    std::lock_guard lock(mutex_);
    const auto found =
        std::find_if(buffers_.rbegin(), buffers_.rend(), [&](const Buffer& b) { return b.size == size; });
    if (found != buffers_.rend()) {
      void* data = found->data;
      buffers_.erase(std::next(found).base());
      cached_ -= size;
      fresh = false;
      return data;
    }
  }
  fresh = true;
  return map(size);
}

std::size_t LargePool::give(void* buffer, std::size_t size) noexcept {
  Buffers given, surplus;
  try {
    given.push_back({buffer, size});
  } catch (const std::bad_alloc&) {  // not even room to remember it
    munmap(buffer, size);
    return size;
  }
  {
    std::lock_guard lock(mutex_);
    buffers_.splice(buffers_.end(), given);
    cached_ += size;
    surplus = evict(limit_);
  }
  return unmap(surplus);
}

std::size_t LargePool::set_limit(std::size_t bytes) noexcept {
  Buffers surplus;
  {
    std::lock_guard lock(mutex_);
    limit_ = bytes;
    surplus = evict(limit_);
  }
  return unmap(surplus);
}

std::size_t LargePool::clear() noexcept {
  Buffers surplus;
  {
    std::lock_guard lock(mutex_);
    surplus = evict(0);
  }
  return unmap(surplus);
}

LargePool::Buffers LargePool::evict(std::size_t limit) noexcept {
  Buffers surplus;
  while (cached_ > limit) {
    cached_ -= buffers_.front().size;
    surplus.splice(surplus.end(), buffers_, buffers_.begin());
  }
  return surplus;
}

std::size_t LargePool::unmap(const Buffers& buffers) noexcept {
  std::size_t bytes = 0;
  for (const Buffer& b : buffers) {
    munmap(b.data, b.size);
    bytes += b.size;
  }
  return bytes;
}

}  // namespace tendril::memory::detail
