#include "tendril/tensor/memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

#include "tendril/tensor/detail/large_pool.h"

#if defined(__SANITIZE_ADDRESS__)
#define TENDRIL_BYPASS_CACHES 1
#endif

namespace tendril::memory {
namespace {

using detail::FreeBlock;
using detail::kClasses;
using detail::kSmallClasses;
using detail::ThreadCache;

constexpr std::size_t kSlabBytes = std::size_t{64} << 10;
constexpr std::size_t kSharedLimit = std::size_t{32} << 20;  // bytes of one medium class that the store keeps

constexpr int class_of(std::size_t bytes) noexcept {
  if (bytes <= kSmallLimit) return bytes <= 64 ? 0 : static_cast<int>((bytes - 1) / 64);
  return kSmallClasses + std::bit_width(bytes - 1) - 10;
}
constexpr std::size_t bytes_of(int cls) noexcept {
  if (cls < kSmallClasses) return static_cast<std::size_t>(cls + 1) * 64;
  return std::size_t{1024} << (cls - kSmallClasses);
}
static_assert(bytes_of(class_of(513)) == 1024 && bytes_of(class_of(1024)) == 1024 && bytes_of(class_of(1025)) == 2048);
static_assert(bytes_of(class_of(1)) == 64 && bytes_of(class_of(65)) == 128 && bytes_of(class_of(512)) == 512);
static_assert(class_of(kMediumLimit) == kClasses - 1);

/// Blocks that move between a thread and the shared store together.
constexpr uint32_t batch_of(int cls) noexcept {
  return static_cast<uint32_t>(std::clamp<std::size_t>((std::size_t{32} << 10) / bytes_of(cls), 1, 64));
}

constexpr uint32_t limit_of(int cls) noexcept { return 2 * batch_of(cls); }  // that a thread keeps

static_assert(sizeof(FreeBlock) <= 64);

std::atomic<std::size_t> reserved{0};  // from the system
std::atomic<std::size_t> peak{0};
std::atomic<std::size_t> large_live{0};  // above kMediumLimit, in use

void count_reserved(std::size_t bytes) noexcept {
  const std::size_t now = reserved.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::size_t seen = peak.load(std::memory_order_relaxed);
  while (seen < now && !peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
}

void* system_allocate(std::size_t bytes) {
  void* block = nullptr;
  if (posix_memalign(&block, kAlignment, bytes) != 0) throw std::bad_alloc();
  count_reserved(bytes);
  return block;
}
void system_release(void* block, std::size_t bytes) noexcept {
  std::free(block);
  reserved.fetch_sub(bytes, std::memory_order_relaxed);
}

#ifndef TENDRIL_BYPASS_CACHES

using detail::cache;

std::atomic<std::size_t> in_blocks{0};  // reserved bytes in blocks up to kMediumLimit, whoever has them

/// Obtains from the system; where it has no more, once again when everything unused was given back to it.
template <class Obtain>
void* obtain_or_trim(Obtain obtain) {
  try {
    return obtain();
  } catch (const std::bad_alloc&) {
    trim();
    return obtain();
  }
}

/// What threads share. Never destroyed: tensors in static objects are freed after it would be.
struct Store {
  struct Class {
    std::mutex mutex;
    FreeBlock* chains = nullptr;
    std::size_t bytes = 0;
  };
  std::array<Class, kClasses> classes;
  std::mutex threads_mutex;
  ThreadCache* threads = nullptr;

  /// Takes a chain of `count` blocks, or gives it back to the system when there are plenty.
  void put(int cls, FreeBlock* chain, uint32_t count) noexcept {
    Class& c = classes[static_cast<std::size_t>(cls)];
    {
      std::lock_guard lock(c.mutex);
      if (cls < kSmallClasses || c.bytes + count * bytes_of(cls) <= kSharedLimit) {
        chain->next_chain = c.chains;
        chain->chain_count = count;
        c.chains = chain;
        c.bytes += count * bytes_of(cls);
        return;
      }
    }
    free_chain(cls, chain);
  }

  /// A chain of at least one block, and their number.
  FreeBlock* get(int cls, uint32_t& count) {
    Class& c = classes[static_cast<std::size_t>(cls)];
    {
      std::lock_guard lock(c.mutex);
      if (FreeBlock* chain = c.chains) {
        c.chains = chain->next_chain;
        count = chain->chain_count;
        c.bytes -= count * bytes_of(cls);
        return chain;
      }
    }
    const std::size_t bytes = bytes_of(cls);
    if (cls >= kSmallClasses) {
      count = 1;
      auto* block = static_cast<FreeBlock*>(obtain_or_trim([&] { return system_allocate(bytes); }));
      in_blocks.fetch_add(bytes, std::memory_order_relaxed);
      block->next = nullptr;
      return block;
    }
    char* slab = static_cast<char*>(obtain_or_trim([] { return system_allocate(kSlabBytes); }));
    const auto total = static_cast<uint32_t>(kSlabBytes / bytes);
    in_blocks.fetch_add(total * bytes, std::memory_order_relaxed);
    FreeBlock* chain = nullptr;
    uint32_t length = 0;
    for (uint32_t i = total; i-- > 0;) {  // backwards, so that blocks are handed out in address order
      auto* block = reinterpret_cast<FreeBlock*>(slab + i * bytes);
      block->next = chain;
      chain = block;
      if (++length == batch_of(cls) && i > 0) {
        put(cls, chain, length);
        chain = nullptr;
        length = 0;
      }
    }
    count = length;
    return chain;
  }

  void trim() noexcept {
    for (int cls = kSmallClasses; cls < kClasses; ++cls) {
      Class& c = classes[static_cast<std::size_t>(cls)];
      FreeBlock* chains;
      {
        std::lock_guard lock(c.mutex);
        chains = std::exchange(c.chains, nullptr);
        c.bytes = 0;
      }
      while (chains) {
        FreeBlock* chain = std::exchange(chains, chains->next_chain);
        free_chain(cls, chain);
      }
    }
  }

  /// In the store and in the threads' caches.
  std::size_t idle_bytes() noexcept {
    std::size_t bytes = 0;
    for (Class& c : classes) {
      std::lock_guard lock(c.mutex);
      bytes += c.bytes;
    }
    std::lock_guard lock(threads_mutex);
    for (ThreadCache* thread = threads; thread; thread = thread->next) {
      for (int cls = 0; cls < kClasses; ++cls) {
        const uint32_t room = thread->lists[static_cast<std::size_t>(cls)].room.load(std::memory_order_relaxed);
        bytes += (limit_of(cls) - room) * bytes_of(cls);
      }
    }
    return bytes;
  }

  static void free_chain(int cls, FreeBlock* chain) noexcept {
    while (chain) {
      system_release(std::exchange(chain, chain->next), bytes_of(cls));
      in_blocks.fetch_sub(bytes_of(cls), std::memory_order_relaxed);
    }
  }
};

Store& store() noexcept {
  alignas(Store) static char bytes[sizeof(Store)];
  static Store* const instance = new (bytes) Store;
  return *instance;
}

void flush(ThreadCache& mine, int first_class) noexcept {
  for (int cls = first_class; cls < kClasses; ++cls) {
    auto& list = mine.lists[static_cast<std::size_t>(cls)];
    const uint32_t room = list.room.load(std::memory_order_relaxed);
    if (!list.head) continue;
    store().put(cls, std::exchange(list.head, nullptr), limit_of(cls) - room);
    list.room.store(limit_of(cls), std::memory_order_relaxed);
  }
}

/// Registers the calling thread's cache; its end hands the blocks on.
struct Membership {
  Membership() noexcept {
    Store& s = store();
    for (int cls = 0; cls < kClasses; ++cls) {
      cache.lists[static_cast<std::size_t>(cls)].room.store(limit_of(cls), std::memory_order_relaxed);
    }
    std::lock_guard lock(s.threads_mutex);
    cache.next = s.threads;
    if (s.threads) s.threads->previous = &cache;
    s.threads = &cache;
  }
  ~Membership() {
    Store& s = store();
    cache.ended = true;
    flush(cache, 0);
    std::lock_guard lock(s.threads_mutex);
    for (auto& list : cache.lists) list.room.store(0, std::memory_order_relaxed);
    if (cache.previous) cache.previous->next = cache.next;
    if (cache.next) cache.next->previous = cache.previous;
    if (s.threads == &cache) s.threads = cache.next;
  }
};

bool join() noexcept {
  if (cache.ended) return false;
  static thread_local Membership membership;
  return true;
}

#endif

}  // namespace

namespace detail {

constinit thread_local ThreadCache cache;

#ifndef TENDRIL_BYPASS_CACHES

void* allocate_slowly(std::size_t bytes) {
  if (bytes > kMediumLimit) {
    const std::size_t size = LargePool::rounded(bytes);
    bool fresh = false;
    void* block = obtain_or_trim([&] { return LargePool::instance().take(size, fresh); });
    if (fresh) count_reserved(size);
    large_live.fetch_add(size, std::memory_order_relaxed);
    return block;
  }
  const int cls = class_of(bytes);
  auto& list = cache.lists[static_cast<std::size_t>(cls)];
  if (FreeBlock* block = list.head) {
    list.head = block->next;
    list.add_room(1);
    return block;
  }
  uint32_t count = 0;
  const bool member = join();
  FreeBlock* chain = store().get(cls, count);
  if (FreeBlock* rest = chain->next) {
    if (member) {
      list.head = rest;
      list.add_room(1 - count);
    } else {
      store().put(cls, rest, count - 1);
    }
  }
  return chain;
}

void release_slowly(void* pointer, std::size_t bytes) noexcept {
  if (bytes > kMediumLimit) {
    const std::size_t size = LargePool::rounded(bytes);
    large_live.fetch_sub(size, std::memory_order_relaxed);
    reserved.fetch_sub(LargePool::instance().give(pointer, size), std::memory_order_relaxed);
    return;
  }
  const int cls = class_of(bytes);
  auto* block = static_cast<FreeBlock*>(pointer);
  if (!join()) {
    block->next = nullptr;
    store().put(cls, block, 1);
    return;
  }
  auto& list = cache.lists[static_cast<std::size_t>(cls)];
  if (list.room.load(std::memory_order_relaxed) == 0) {  // hand on one batch
    FreeBlock* chain = list.head;
    FreeBlock* last = chain;
    for (uint32_t i = 1; i < batch_of(cls); ++i) last = last->next;
    list.head = std::exchange(last->next, nullptr);
    list.add_room(batch_of(cls));
    store().put(cls, chain, batch_of(cls));
  }
  block->next = list.head;
  list.head = block;
  list.add_room(-1u);
}

#else

// The lists stay empty and without room, so that every call comes here.
void* allocate_slowly(std::size_t bytes) {
  large_live.fetch_add(bytes, std::memory_order_relaxed);
  return system_allocate(bytes);
}
void release_slowly(void* block, std::size_t bytes) noexcept {
  large_live.fetch_sub(bytes, std::memory_order_relaxed);
  system_release(block, bytes);
}

#endif

}  // namespace detail

#ifndef TENDRIL_BYPASS_CACHES

Stats stats() noexcept {
  // The counters are read one after another: while other threads work they may not fit each other exactly.
  const auto held = reserved.load(std::memory_order_relaxed);
  const auto large = large_live.load(std::memory_order_relaxed);
  const auto blocks = in_blocks.load(std::memory_order_relaxed);
  const std::size_t idle = store().idle_bytes();  // counted here, so that an operation need not count what is in use
  const std::size_t used = large + (blocks > idle ? blocks - idle : 0);
  return {used, held > used ? held - used : 0, peak.load(std::memory_order_relaxed)};
}

void set_cache_limit(std::size_t bytes) noexcept {
  reserved.fetch_sub(detail::LargePool::instance().set_limit(bytes), std::memory_order_relaxed);
}

void trim() noexcept {
  if (!cache.ended) flush(cache, kSmallClasses);
  store().trim();
  reserved.fetch_sub(detail::LargePool::instance().clear(), std::memory_order_relaxed);
}

#else

Stats stats() noexcept { return {large_live.load(std::memory_order_relaxed), 0, peak.load(std::memory_order_relaxed)}; }
void set_cache_limit(std::size_t) noexcept {}
void trim() noexcept {}

#endif

}  // namespace tendril::memory
