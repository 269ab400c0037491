#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "tendril/tensor/cuda/memory_stats.h"

namespace tendril::cuda {

/// Where a caching allocator's memory comes from, and how it learns that a stream has got somewhere. Streams and events
/// are opaque here. None of these is called on a block or event that is not the source's own.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  virtual void* obtain(std::size_t bytes) noexcept = 0;                   ///< null: there is no more
  virtual void give_back(void* address, std::size_t bytes) noexcept = 0;  ///< waits until nothing uses it
  virtual void* record_event(void* stream) = 0;                           ///< after what `stream` holds now
  virtual bool is_done(void* event) noexcept = 0;                         ///< forgets the event if it is
  virtual void wait_for(void* event) noexcept = 0;                        ///< and forgets it
};

/// The memory of one device. A call to the driver for every tensor would cost more than most kernels, and would wait
/// for the device; so segments are taken from it rarely, cut into blocks and kept.
///
/// A block belongs to the stream it was asked for: it may be released while that stream still works on it, because
/// whoever gets it next does so on the same stream, behind that work. A block that other streams use too
/// (`record_use`) is reused only when events on them say so.
///
/// Sizes (PyTorch's, c10/cuda/CUDACachingAllocator): multiples of 512 bytes; up to 1 MiB from segments of 2 MiB, up to
/// 10 MiB from segments of 20 MiB, above from one of their own, a multiple of 2 MiB. Free neighbours are merged, and a
/// larger block than needed, however large, is split where the rest is of use (512 bytes in small segments, 1 MiB in
/// large ones). Where the source has no more, it gets back what it needs for this request, and all only after that.
///
/// Thread-safety: everything may be called from any thread.
class CachingAllocator {
 public:
  struct Block;

  /// `caching` off: every block is a segment of its own and is given back at once, so that checkers see its ends.
  explicit CachingAllocator(MemorySource& source, bool caching = true);
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  /// How far an allocation goes: to what is cached, or to the source and until all of the cache was given back for it.
  enum class Effort { kCached, kAll };
  /// At least `bytes` (> 0) bytes, 512-byte aligned if segments are. Null when the source has no more, even after what
  /// is cached was given back; with kCached already when nothing that is cached fits.
  Block* allocate(std::size_t bytes, void* stream, Effort effort = Effort::kAll);
  void release(Block* block) noexcept;
  /// `stream`, another than the block's, uses it up to now.
  void record_use(Block* block, void* stream);
  static void* address_of(const Block* block) noexcept;

  /// `on`: what is free in `stream` is not given back to the source until as many calls with false.
  void keep(void* stream, bool on);

  /// Gives segments without a live block back to the source.
  void empty_cache();
  MemoryStats stats() const;
  void reset_peak();
  /// What is live, largest first, by block size; what is cached, and the largest free block: for error messages.
  std::string table() const;

 private:
  struct Smaller {
    bool operator()(const Block* a, const Block* b) const noexcept;
  };
  struct Pool {
    std::set<Block*, Smaller> free;  // by stream, then size, then address
    bool small = false;
  };
  struct Pending {
    void* event;
    Block* block;
  };

  Block* find_free(Pool& pool, std::size_t bytes, void* stream);
  Block* new_segment(Pool& pool, std::size_t bytes, void* stream);
  void split(Block* block, std::size_t bytes);
  void make_free(Block* block);
  Block* merged(Block* left, Block* right);
  void collect(bool wait);
  void give_back(Block* segment);
  std::vector<Block*> free_segments() const;
  bool give_back_enough(std::size_t bytes);
  void give_back_free_segments();

  MemorySource& source_;
  const bool caching_;
  mutable std::mutex mutex_;
  Pool small_{{}, true}, large_;
  std::unordered_map<Block*, std::unique_ptr<Block>> blocks_;  // owns them all
  std::deque<Pending> pending_;                                // released, but events are outstanding
  std::multiset<void*> kept_;                                  // streams
  MemoryStats stats_;
};

}  // namespace tendril::cuda
