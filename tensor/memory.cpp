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

constexpr int kSmallClasses = kSmallLimit / 64;
constexpr int kClasses = kSmallClasses + 11;  // 1 KiB .. 1 MiB
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

struct Block {
  Block* next;
  Block* next_chain;     // of the first block of a chain in the shared store
  uint32_t chain_count;  // likewise
};
static_assert(sizeof(Block) <= 64);

std::atomic<std::size_t> reserved{0};  // from the system
std::atomic<std::size_t> peak{0};
std::atomic<int64_t> shared_live{0};  // of ended threads, and of large blocks

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

struct ThreadCache {
  struct List {
    Block* head = nullptr;
    uint32_t count = 0;
    uint32_t limit = 0;  // 0 until the thread is registered and after it has ended: the slow path then decides
  };
  std::array<List, kClasses> lists{};
  std::atomic<int64_t> live{0};  // written by its thread only; may be negative
  ThreadCache* next = nullptr;
  ThreadCache* previous = nullptr;
  bool ended = false;
};
// Trivially destructible, so that it can be used until the very end of its thread.
constinit thread_local ThreadCache cache;

/// What threads share. Never destroyed: tensors in static objects are freed after it would be.
struct Store {
  struct Class {
    std::mutex mutex;
    Block* chains = nullptr;
    std::size_t bytes = 0;
  };
  std::array<Class, kClasses> classes;
  std::mutex threads_mutex;
  ThreadCache* threads = nullptr;

  /// Takes a chain of `count` blocks, or gives it back to the system when there are plenty.
  void put(int cls, Block* chain, uint32_t count) noexcept {
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
  Block* get(int cls, uint32_t& count) {
    Class& c = classes[static_cast<std::size_t>(cls)];
    {
      std::lock_guard lock(c.mutex);
      if (Block* chain = c.chains) {
        c.chains = chain->next_chain;
        count = chain->chain_count;
        c.bytes -= count * bytes_of(cls);
        return chain;
      }
    }
    const std::size_t bytes = bytes_of(cls);
    if (cls >= kSmallClasses) {
      count = 1;
      auto* block = static_cast<Block*>(system_allocate(bytes));
      block->next = nullptr;
      return block;
    }
    char* slab = static_cast<char*>(system_allocate(kSlabBytes));
    const auto total = static_cast<uint32_t>(kSlabBytes / bytes);
    Block* chain = nullptr;
    uint32_t length = 0;
    for (uint32_t i = total; i-- > 0;) {  // backwards, so that blocks are handed out in address order
      auto* block = reinterpret_cast<Block*>(slab + i * bytes);
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
      Block* chains;
      {
        std::lock_guard lock(c.mutex);
        chains = std::exchange(c.chains, nullptr);
        c.bytes = 0;
      }
      while (chains) {
        Block* chain = std::exchange(chains, chains->next_chain);
        free_chain(cls, chain);
      }
    }
  }

  static void free_chain(int cls, Block* chain) noexcept {
    while (chain) system_release(std::exchange(chain, chain->next), bytes_of(cls));
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
    if (list.head) store().put(cls, list.head, list.count);
    list.head = nullptr;
    list.count = 0;
  }
}

/// Registers the calling thread's cache; its end hands the blocks on.
struct Membership {
  Membership() noexcept {
    Store& s = store();
    for (int cls = 0; cls < kClasses; ++cls) cache.lists[static_cast<std::size_t>(cls)].limit = 2 * batch_of(cls);
    std::lock_guard lock(s.threads_mutex);
    cache.next = s.threads;
    if (s.threads) s.threads->previous = &cache;
    s.threads = &cache;
  }
  ~Membership() {
    Store& s = store();
    cache.ended = true;
    flush(cache, 0);
    for (auto& list : cache.lists) list.limit = 0;
    std::lock_guard lock(s.threads_mutex);
    shared_live.fetch_add(cache.live.load(std::memory_order_relaxed), std::memory_order_relaxed);
    if (cache.previous) cache.previous->next = cache.next;
    if (cache.next) cache.next->previous = cache.previous;
    if (s.threads == &cache) s.threads = cache.next;
  }
};

void count_live(int64_t bytes) noexcept {
  if (cache.ended) [[unlikely]]
    shared_live.fetch_add(bytes, std::memory_order_relaxed);
  else
    cache.live.store(cache.live.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
}

bool join() noexcept {
  if (cache.ended) return false;
  static thread_local Membership membership;
  return true;
}

[[gnu::noinline]] void* allocate_slowly(int cls) {
  uint32_t count = 0;
  const bool member = join();
  Block* chain = store().get(cls, count);
  if (Block* rest = chain->next) {
    if (member) {
      auto& list = cache.lists[static_cast<std::size_t>(cls)];
      list.head = rest;
      list.count = count - 1;
    } else {
      store().put(cls, rest, count - 1);
    }
  }
  return chain;
}

[[gnu::noinline]] void release_slowly(Block* block, int cls) noexcept {
  if (!join()) {
    block->next = nullptr;
    store().put(cls, block, 1);
    return;
  }
  auto& list = cache.lists[static_cast<std::size_t>(cls)];
  if (list.count >= list.limit) {  // hand on one batch
    Block* chain = list.head;
    Block* last = chain;
    for (uint32_t i = 1; i < batch_of(cls); ++i) last = last->next;
    list.head = std::exchange(last->next, nullptr);
    list.count -= batch_of(cls);
    store().put(cls, chain, batch_of(cls));
  }
  block->next = list.head;
  list.head = block;
  ++list.count;
}

#endif

}  // namespace

#ifndef TENDRIL_BYPASS_CACHES

void* allocate(std::size_t bytes) {
  if (bytes > kMediumLimit) [[unlikely]] {
    const std::size_t size = detail::LargePool::rounded(bytes);
    bool fresh = false;
    void* block = detail::LargePool::instance().take(size, fresh);
    if (fresh) count_reserved(size);
    shared_live.fetch_add(static_cast<int64_t>(size), std::memory_order_relaxed);
    return block;
  }
  const int cls = class_of(bytes);
  auto& list = cache.lists[static_cast<std::size_t>(cls)];
  Block* block = list.head;
  if (block) [[likely]] {
    list.head = block->next;
    --list.count;
  } else {
    block = static_cast<Block*>(allocate_slowly(cls));
  }
  count_live(static_cast<int64_t>(bytes_of(cls)));
  return block;
}

void release(void* pointer, std::size_t bytes) noexcept {
  if (bytes > kMediumLimit) [[unlikely]] {
    const std::size_t size = detail::LargePool::rounded(bytes);
    shared_live.fetch_sub(static_cast<int64_t>(size), std::memory_order_relaxed);
    reserved.fetch_sub(detail::LargePool::instance().give(pointer, size), std::memory_order_relaxed);
    return;
  }
  const int cls = class_of(bytes);
  auto* block = static_cast<Block*>(pointer);
  auto& list = cache.lists[static_cast<std::size_t>(cls)];
  count_live(-static_cast<int64_t>(bytes_of(cls)));
  if (list.count < list.limit) [[likely]] {
    block->next = list.head;
    list.head = block;
    ++list.count;
  } else {
    release_slowly(block, cls);
  }
}

Stats stats() noexcept {
  int64_t live = shared_live.load(std::memory_order_relaxed);
  Store& s = store();
  {
    std::lock_guard lock(s.threads_mutex);
    for (ThreadCache* c = s.threads; c; c = c->next) live += c->live.load(std::memory_order_relaxed);
  }
  // The counters are read one after another: while other threads work they may not fit each other exactly.
  const auto held = reserved.load(std::memory_order_relaxed);
  const auto used = static_cast<std::size_t>(std::max<int64_t>(live, 0));
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

void* allocate(std::size_t bytes) {
  shared_live.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  return system_allocate(bytes);
}
void release(void* block, std::size_t bytes) noexcept {
  shared_live.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  system_release(block, bytes);
}
Stats stats() noexcept {
  return {static_cast<std::size_t>(shared_live.load(std::memory_order_relaxed)), 0,
          peak.load(std::memory_order_relaxed)};
}
void set_cache_limit(std::size_t) noexcept {}
void trim() noexcept {}

#endif

}  // namespace tendril::memory
