#pragma once

#include <cstddef>
#include <list>
#include <mutex>

/// Large buffers, kept warm between uses.
namespace tendril::memory::detail {

/// Thread-safe. Functions that give memory back to the system return how many bytes.
class LargePool {
 public:
  /// Never destroyed: tensors in static objects are freed late.
  static LargePool& instance() noexcept;
  /// Sizes share eight classes an octave, so that a buffer is at most an eighth larger than asked for.
  static std::size_t rounded(std::size_t bytes) noexcept;

  /// A buffer of `size` (which is rounded); `fresh` tells whether the system gave it. Throws std::bad_alloc.
  void* take(std::size_t size, bool& fresh);
  std::size_t give(void* buffer, std::size_t size) noexcept;
  std::size_t set_limit(std::size_t bytes) noexcept;
  std::size_t clear() noexcept;

 private:
  struct Buffer {
    void* data;
    std::size_t size;
  };
  // Lists, so that buffers go back to the system, which may just have run out of memory, without asking it for any.
  using Buffers = std::list<Buffer>;
  LargePool() noexcept;
  Buffers evict(std::size_t limit) noexcept;  // needs the lock
  static std::size_t unmap(const Buffers& buffers) noexcept;

  std::mutex mutex_;
  Buffers buffers_;  // the least recently freed first
  std::size_t cached_ = 0;
  std::size_t limit_;
};

}  // namespace tendril::memory::detail
