#pragma once

#include <cstddef>

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
/// Thread-safety: everything may be called from any thread, also while threads and static objects are being destroyed.
namespace tendril::memory {

inline constexpr std::size_t kAlignment = 64;
inline constexpr std::size_t kSmallLimit = 512;
inline constexpr std::size_t kMediumLimit = std::size_t{1} << 20;

/// Throws std::bad_alloc.
[[nodiscard]] void* allocate(std::size_t bytes);
/// `bytes` must be what was asked for.
void release(void* block, std::size_t bytes) noexcept;

struct Stats {
  std::size_t live_bytes;    ///< in blocks that are in use, rounded up to their class
  std::size_t cached_bytes;  ///< in blocks that are kept for reuse
  std::size_t peak_bytes;    ///< the most that was ever held from the system (live and cached)
};
Stats stats() noexcept;

/// Large buffers kept for reuse, at most; the least recently freed goes first. Default: an eighth of the machine's
/// memory, at most 1 GiB.
void set_cache_limit(std::size_t bytes) noexcept;

/// Gives unused memory back to the system: the pool of large buffers, and blocks above 512 B in the shared store and in
/// the calling thread's cache.
void trim() noexcept;

}  // namespace tendril::memory
