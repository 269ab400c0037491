#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// Host memory for tensors, their headers and autograd's nodes. Every block is 64-byte aligned and uninitialised.
///
///   up to 512 B   multiples of 64 B, carved from slabs that are never given back to the system
///   up to 1 MiB   powers of two
///   above         eighths of a power of two, from the system's pages (huge ones are asked for), kept in one pool:
///                 a fresh page costs several times what writing to a warm one does
///
/// Blocks up to 1 MiB are cached by thread without locks; a thread that holds many hands some to a shared store, so a
/// block freed by another thread than the one that allocated it finds its way back. Built with AddressSanitizer every
/// block comes from the system and goes back to it, so that overruns and uses after free are found.
///
/// Where the system has no more, what is unused is given back to it (`trim`) and it is asked once again.
///
/// Thread-safety: everything may be called from any thread, also while threads and static objects are being destroyed.
namespace tendril::memory {

inline constexpr std::size_t kAlignment = 64;
inline constexpr std::size_t kSmallLimit = 512;
inline constexpr std::size_t kMediumLimit = std::size_t{1} << 20;

namespace detail {

inline constexpr int kSmallClasses = kSmallLimit / 64;
inline constexpr int kClasses = kSmallClasses + 11;  // 1 KiB .. 1 MiB

struct FreeBlock {
  FreeBlock* next;
  FreeBlock* next_chain;  // of the first block of a chain in the shared store
  uint32_t chain_count;   // likewise
};

/// A thread's free blocks. Trivially destructible, so that it can be used until the very end of its thread.
struct ThreadCache {
  struct List {
    FreeBlock* head = nullptr;
    /// How many blocks more it takes. 0 until the thread is registered and after it has ended: the slow path then
    /// decides. Written by its thread only; stats() of other threads reads it.
    std::atomic<uint32_t> room{0};

    void add_room(uint32_t blocks) noexcept {
      room.store(room.load(std::memory_order_relaxed) + blocks, std::memory_order_relaxed);
    }
  };
  std::array<List, kClasses> lists{};
  ThreadCache* next = nullptr;
  ThreadCache* previous = nullptr;
  bool ended = false;
};
extern constinit thread_local ThreadCache cache;

constexpr std::size_t small_class_of(std::size_t bytes) noexcept { return (bytes - (bytes != 0)) / 64; }
void* allocate_slowly(std::size_t bytes);
void release_slowly(void* block, std::size_t bytes) noexcept;

}  // namespace detail

/// Throws std::bad_alloc.
[[nodiscard]] inline void* allocate(std::size_t bytes) {
  // Inline, like `release`: most sizes are known where they are asked for, and an operation asks for four blocks.
  if (bytes <= kSmallLimit) [[likely]] {
    auto& list = detail::cache.lists[detail::small_class_of(bytes)];
    if (detail::FreeBlock* block = list.head) [[likely]] {
      list.head = block->next;
      list.add_room(1);
      return block;
    }
  }
  return detail::allocate_slowly(bytes);
}

/// `bytes` must be what was asked for.
inline void release(void* block, std::size_t bytes) noexcept {
  if (bytes <= kSmallLimit) [[likely]] {
    auto& list = detail::cache.lists[detail::small_class_of(bytes)];
    if (list.room.load(std::memory_order_relaxed) > 0) [[likely]] {
      auto* free = static_cast<detail::FreeBlock*>(block);
      free->next = list.head;
      list.head = free;
      list.add_room(-1u);
      return;
    }
  }
  detail::release_slowly(block, bytes);
}

/// For the containers of short-lived things: their few elements then cost no system allocation.
template <class T>
struct Allocator {
  using value_type = T;
  static constexpr std::size_t kElementBytes = sizeof(T);  // NOLINT(bugprone-sizeof-expression): T may be a pointer
  static_assert(alignof(T) <= kAlignment);

  Allocator() = default;
  template <class U>
  constexpr Allocator(const Allocator<U>&) noexcept {}
  [[nodiscard]] T* allocate(std::size_t count) { return static_cast<T*>(memory::allocate(count * kElementBytes)); }
  void deallocate(T* block, std::size_t count) noexcept { memory::release(block, count * kElementBytes); }
  friend constexpr bool operator==(const Allocator&, const Allocator&) noexcept { return true; }
};

struct Stats {
  std::size_t live_bytes;    ///< in blocks that are in use, rounded up to their class
  std::size_t cached_bytes;  ///< in blocks that are kept for reuse
  std::size_t peak_bytes;    ///< the most that was ever held from the system (live and cached)
};
Stats stats() noexcept;

/// Large buffers kept for reuse, at most; the least recently freed goes first. Default: an eighth of the machine's
/// memory, or of the control group's limit (of a container) where that is less, and at most 4 GiB. Each process keeps
/// its own: for many large ones on one machine set less.
void set_cache_limit(std::size_t bytes) noexcept;

/// Gives unused memory back to the system: the pool of large buffers, and blocks above 512 B in the shared store and in
/// the calling thread's cache.
void trim() noexcept;

}  // namespace tendril::memory

TENDRIL_API_END
