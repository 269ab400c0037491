#include "tendril/tensor/cuda/runtime/caching_allocator.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <sstream>
#include <tuple>

namespace tendril::cuda {

namespace {

constexpr std::size_t kRound = 512;
constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kSmallLimit = kMiB, kSmallSegment = 2 * kMiB;
constexpr std::size_t kMediumLimit = 10 * kMiB, kMediumSegment = 20 * kMiB, kLargeRound = 2 * kMiB;

constexpr std::size_t rounded(std::size_t bytes, std::size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

std::size_t segment_for(std::size_t bytes) {
  if (bytes <= kSmallLimit) return kSmallSegment;
  return bytes <= kMediumLimit ? kMediumSegment : rounded(bytes, kLargeRound);
}

}  // namespace

struct CachingAllocator::Block {
  char* address = nullptr;
  std::size_t bytes = 0;
  void* stream = nullptr;
  Pool* pool = nullptr;
  Block *left = nullptr, *right = nullptr;  // neighbours in the segment
  bool live = false;
  int outstanding = 0;           // events that must come before it is free
  std::vector<void*> used_on{};  // other streams
};

bool CachingAllocator::Smaller::operator()(const Block* a, const Block* b) const noexcept {
  const std::less<const void*> before;
  if (a->stream != b->stream) return before(a->stream, b->stream);
  if (a->bytes != b->bytes) return a->bytes < b->bytes;
  return before(a->address, b->address);
}

CachingAllocator::CachingAllocator(MemorySource& source, bool caching) : source_(source), caching_(caching) {}

CachingAllocator::~CachingAllocator() {
  collect(true);
  give_back_free_segments();
}

void* CachingAllocator::address_of(const Block* block) noexcept { return block->address; }

CachingAllocator::Block* CachingAllocator::allocate(std::size_t bytes, void* stream, Effort effort) {
  if (bytes > SIZE_MAX / 2) return nullptr;
  bytes = rounded(std::max<std::size_t>(bytes, 1), kRound);
  const std::lock_guard lock(mutex_);
  collect(false);
  Pool& pool = bytes <= kSmallLimit ? small_ : large_;
  Block* block = find_free(pool, bytes, stream);
  if (!block && effort == Effort::kCached) return nullptr;
  if (!block) block = new_segment(pool, bytes, stream);
  if (!block) {
    ++stats_.out_of_memory;
    collect(true);
    block = find_free(pool, bytes, stream);
  }
  if (!block && give_back_enough(segment_for(bytes))) block = new_segment(pool, bytes, stream);
  if (!block) {
    give_back_free_segments();
    block = new_segment(pool, bytes, stream);
  }
  if (!block) return nullptr;
  split(block, bytes);
  block->live = true;
  ++stats_.live_blocks;
  ++stats_.allocations;
  stats_.live_bytes += static_cast<int64_t>(block->bytes);
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes);
  return block;
}

void CachingAllocator::release(Block* block) noexcept {
  const std::lock_guard lock(mutex_);
  block->live = false;
  --stats_.live_blocks;
  stats_.live_bytes -= static_cast<int64_t>(block->bytes);
  for (void* stream : block->used_on) {
    pending_.push_back({source_.record_event(stream), block});
    ++block->outstanding;
  }
  block->used_on.clear();
  if (block->outstanding == 0) make_free(block);
}

void CachingAllocator::record_use(Block* block, void* stream) {
  const std::lock_guard lock(mutex_);
  if (stream == block->stream ||
      std::find(block->used_on.begin(), block->used_on.end(), stream) != block->used_on.end())
    return;
  block->used_on.push_back(stream);
}

void CachingAllocator::keep(void* stream, bool on) {
  const std::lock_guard lock(mutex_);
  if (on) {
    kept_.insert(stream);
  } else if (const auto found = kept_.find(stream); found != kept_.end()) {
    kept_.erase(found);
  }
}

void CachingAllocator::empty_cache() {
  const std::lock_guard lock(mutex_);
  collect(true);
  give_back_free_segments();
}

MemoryStats CachingAllocator::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void CachingAllocator::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.peak_bytes = stats_.live_bytes;
}

/// The smallest free block that fits; what is left of a large one serves others.
CachingAllocator::Block* CachingAllocator::find_free(Pool& pool, std::size_t bytes, void* stream) {
  Block wanted;
  wanted.stream = stream;
  wanted.bytes = bytes;
  const auto found = pool.free.lower_bound(&wanted);
  if (found == pool.free.end() || (*found)->stream != stream) return nullptr;
  Block* block = *found;
  pool.free.erase(found);
  return block;
}

CachingAllocator::Block* CachingAllocator::new_segment(Pool& pool, std::size_t bytes, void* stream) {
  const std::size_t whole = caching_ ? segment_for(bytes) : bytes;
  auto made = std::make_unique<Block>();
  void* address = source_.obtain(whole);
  if (!address) return nullptr;
  Block* block = made.get();
  block->address = static_cast<char*>(address);
  block->bytes = whole;
  block->stream = stream;
  block->pool = &pool;
  blocks_.emplace(block, std::move(made));
  ++stats_.segments;
  ++stats_.driver_calls;
  stats_.reserved_bytes += static_cast<int64_t>(whole);
  return block;
}

void CachingAllocator::split(Block* block, std::size_t bytes) {
  const std::size_t rest = block->bytes - bytes;
  if (block->pool->small ? rest < kRound : rest <= kSmallLimit) return;
  auto made = std::make_unique<Block>();
  Block* tail = made.get();
  blocks_.emplace(tail, std::move(made));
  tail->address = block->address + bytes;
  tail->bytes = rest;
  tail->stream = block->stream;
  tail->pool = block->pool;
  tail->left = block;
  tail->right = block->right;
  if (tail->right) tail->right->left = tail;
  block->right = tail;
  block->bytes = bytes;
  block->pool->free.insert(tail);
}

void CachingAllocator::make_free(Block* block) {
  const auto is_free = [](const Block* other) { return other && !other->live && other->outstanding == 0; };
  if (is_free(block->left)) {
    block->pool->free.erase(block->left);
    block = merged(block->left, block);
  }
  if (is_free(block->right)) {
    block->pool->free.erase(block->right);
    block = merged(block, block->right);
  }
  block->pool->free.insert(block);
  if (!caching_) give_back_free_segments();
}

CachingAllocator::Block* CachingAllocator::merged(Block* left, Block* right) {
  left->bytes += right->bytes;
  left->right = right->right;
  if (left->right) left->right->left = left;
  blocks_.erase(right);
  return left;
}

/// Frees blocks whose other streams are done with them; `wait`: all of them.
void CachingAllocator::collect(bool wait) {
  for (std::size_t left = pending_.size(); left > 0; --left) {
    const Pending first = pending_.front();
    pending_.pop_front();
    if (wait) {
      source_.wait_for(first.event);
    } else if (!source_.is_done(first.event)) {
      pending_.push_back(first);
      continue;
    }
    if (--first.block->outstanding == 0) make_free(first.block);
  }
}

void CachingAllocator::give_back(Block* segment) {
  segment->pool->free.erase(segment);
  --stats_.segments;
  stats_.reserved_bytes -= static_cast<int64_t>(segment->bytes);
  source_.give_back(segment->address, segment->bytes);
  blocks_.erase(segment);
}

std::vector<CachingAllocator::Block*> CachingAllocator::free_segments() const {
  std::vector<Block*> all;
  for (const Pool* pool : {&small_, &large_}) {
    std::copy_if(pool->free.begin(), pool->free.end(), std::back_inserter(all), [this](const Block* block) {
      return !block->left && !block->right && !kept_.contains(block->stream);
    });
  }
  return all;
}

/// The smallest segment that is large enough, or the fewest that together are: what others will ask for again stays.
/// False, with nothing done, where all of them are less than `bytes`.
bool CachingAllocator::give_back_enough(std::size_t bytes) {
  std::vector<Block*> segments = free_segments();
  std::sort(segments.begin(), segments.end(), [](const Block* a, const Block* b) { return a->bytes < b->bytes; });
  const auto enough =
      std::find_if(segments.begin(), segments.end(), [&](const Block* block) { return block->bytes >= bytes; });
  if (enough != segments.end()) {
    give_back(*enough);
    return true;
  }
  std::size_t sum = 0;
  for (const Block* block : segments) sum += block->bytes;
  if (sum < bytes) return false;
  for (sum = 0; sum < bytes; segments.pop_back()) {
    sum += segments.back()->bytes;
    give_back(segments.back());
  }
  return true;
}

void CachingAllocator::give_back_free_segments() {
  for (Block* segment : free_segments()) give_back(segment);
}

std::string CachingAllocator::table() const {
  const std::lock_guard lock(mutex_);
  std::map<std::size_t, std::size_t, std::greater<>> live;
  std::size_t largest_free = 0;
  for (const auto& [block, owner] : blocks_) {
    if (block->live) {
      ++live[block->bytes];
    } else if (block->outstanding == 0) {
      largest_free = std::max(largest_free, block->bytes);
    }
  }
  std::ostringstream out;
  out << "  live " << stats_.live_bytes << " bytes in " << stats_.live_blocks << " blocks, reserved "
      << stats_.reserved_bytes << " in " << stats_.segments << " segments, largest free block " << largest_free << '\n';
  std::size_t lines = 0;
  for (const auto& [bytes, count] : live) {
    if (++lines > 10) {
      out << "  ... and " << live.size() - 10 << " smaller sizes\n";
      break;
    }
    out << "  " << count << " x " << bytes << " bytes\n";
  }
  return out.str();
}

}  // namespace tendril::cuda
