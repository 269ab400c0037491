// The allocator of device memory, over a source that counts: no device is needed.
#include "tendril/tensor/cuda/runtime/caching_allocator.h"
#include "tests/seed.h"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(caching_allocator)

using tendril::cuda::CachingAllocator;
using tendril::testing::test_seed;

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// Hands out addresses that nobody may touch, from a machine with `limit` bytes.
class CountingSource final : public tendril::cuda::MemorySource {
 public:
  explicit CountingSource(std::size_t limit = std::size_t{1} << 40) : limit_(limit) {}

  void* obtain(std::size_t bytes) noexcept override {
    if (given_ + bytes > limit_) return nullptr;
    given_ += bytes;
    next_ += bytes + kMiB;
    segments_[next_ - bytes - kMiB] = bytes;
    return reinterpret_cast<void*>(next_ - bytes - kMiB);
  }
  void give_back(void* address, std::size_t bytes) noexcept override {
    const auto found = segments_.find(reinterpret_cast<std::uintptr_t>(address));
    BOOST_TEST((found != segments_.end() && found->second == bytes));
    segments_.erase(found);
    given_ -= bytes;
  }
  void* record_event(void*) override {
    outstanding_.insert(++events_);
    return reinterpret_cast<void*>(events_);
  }
  bool is_done(void* event) noexcept override {
    return !outstanding_.contains(reinterpret_cast<std::uintptr_t>(event));
  }
  void wait_for(void* event) noexcept override { outstanding_.erase(reinterpret_cast<std::uintptr_t>(event)); }
  void finish_all() { outstanding_.clear(); }

  std::size_t given() const { return given_; }

 private:
  std::size_t limit_, given_ = 0;
  std::uintptr_t next_ = kMiB, events_ = 0;
  std::map<std::uintptr_t, std::size_t> segments_;
  std::set<std::uintptr_t> outstanding_;
};

void* stream(std::uintptr_t number) { return reinterpret_cast<void*>(number); }
auto address(const CachingAllocator::Block* block) {
  return reinterpret_cast<std::uintptr_t>(CachingAllocator::address_of(block));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_block_that_was_released_is_handed_out_again_on_its_stream) {
  CountingSource source;
  CachingAllocator memory(source);
  auto* first = memory.allocate(1000, stream(1));
  const auto where = address(first);
  memory.release(first);
  auto* second = memory.allocate(900, stream(1));
  BOOST_TEST(address(second) == where);
  BOOST_TEST(memory.stats().driver_calls == 1);
  memory.release(second);
}

BOOST_AUTO_TEST_CASE(another_stream_gets_other_memory) {
  CountingSource source;
  CachingAllocator memory(source);
  auto* first = memory.allocate(1000, stream(1));
  const auto where = address(first);
  memory.release(first);
  auto* second = memory.allocate(1000, stream(2));
  BOOST_TEST(address(second) != where);
  BOOST_TEST(memory.stats().segments == 2);
  memory.release(second);
}

BOOST_AUTO_TEST_CASE(a_block_that_other_streams_use_waits_for_their_events) {
  CountingSource source;
  CachingAllocator memory(source);
  auto* block = memory.allocate(kMiB, stream(1));
  const auto where = address(block);
  memory.record_use(block, stream(2));
  memory.record_use(block, stream(3));
  memory.release(block);
  auto* meanwhile = memory.allocate(kMiB, stream(1));
  BOOST_TEST(address(meanwhile) != where);
  source.finish_all();
  auto* later = memory.allocate(kMiB, stream(1));
  BOOST_TEST(address(later) == where);
  memory.release(meanwhile);
  memory.release(later);
}

BOOST_AUTO_TEST_CASE(neighbours_are_merged_so_that_a_segment_serves_a_large_block_again) {
  CountingSource source;
  CachingAllocator memory(source);
  std::vector<CachingAllocator::Block*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(memory.allocate(kMiB / 2, stream(1)));
  BOOST_TEST(memory.stats().segments == 1);
  for (const int i : {2, 0, 3, 1}) memory.release(blocks[static_cast<std::size_t>(i)]);
  auto* whole = memory.allocate(kMiB, stream(1));
  auto* rest = memory.allocate(kMiB, stream(1));
  BOOST_TEST(memory.stats().segments == 1);
  memory.release(whole);
  memory.release(rest);
}

BOOST_AUTO_TEST_CASE(the_cache_is_given_back_before_memory_runs_out) {
  CountingSource source(64 * kMiB);
  CachingAllocator memory(source);
  for (int i = 0; i < 3; ++i) memory.release(memory.allocate(20 * kMiB, stream(static_cast<std::uintptr_t>(i))));
  auto* large = memory.allocate(50 * kMiB, stream(9));
  BOOST_REQUIRE(large);
  BOOST_TEST(memory.stats().out_of_memory == 1);
  BOOST_TEST(memory.stats().reserved_bytes == static_cast<int64_t>(50 * kMiB));
  BOOST_TEST(!memory.allocate(50 * kMiB, stream(9)));
  BOOST_TEST(memory.stats().live_blocks == 1);
  BOOST_TEST(memory.table().find("1 x " + std::to_string(50 * kMiB)) != std::string::npos, memory.table());
  memory.release(large);
}

BOOST_AUTO_TEST_CASE(varying_sizes_are_cut_from_what_is_cached) {
  CountingSource source;
  CachingAllocator memory(source);
  memory.release(memory.allocate(200 * kMiB, stream(1)));
  for (std::size_t mib = 190; mib > 10; mib -= 7) {
    auto* large = memory.allocate(mib * kMiB, stream(1));
    auto* beside = memory.allocate(2 * kMiB, stream(1));
    memory.release(large);
    memory.release(beside);
  }
  BOOST_TEST(memory.stats().driver_calls == 1);
  BOOST_TEST(source.given() == 200 * kMiB);
}

BOOST_AUTO_TEST_CASE(no_more_of_the_cache_is_given_back_than_a_request_needs) {
  CountingSource source(100 * kMiB);
  CachingAllocator memory(source);
  // 20, 30 and 50 MiB are cached, each of a stream of its own.
  for (const std::size_t mib : {20, 30, 50}) memory.release(memory.allocate(mib * kMiB, stream(mib)));
  auto* first = memory.allocate(28 * kMiB, stream(9));  // in the place of the 30
  BOOST_TEST_REQUIRE(first);
  BOOST_TEST(source.given() == 98 * kMiB);
  auto* second = memory.allocate(60 * kMiB, stream(9));  // in that of the 50 and the 20
  BOOST_TEST_REQUIRE(second);
  BOOST_TEST(source.given() == 88 * kMiB);
  BOOST_TEST(memory.stats().out_of_memory == 2);
  memory.release(first);
  memory.release(second);
}

BOOST_AUTO_TEST_CASE(a_request_for_what_is_cached_asks_the_source_for_nothing) {
  CountingSource source;
  CachingAllocator memory(source);
  using Effort = CachingAllocator::Effort;
  BOOST_TEST(!memory.allocate(kMiB, stream(1), Effort::kCached));
  BOOST_TEST(memory.stats().driver_calls == 0);
  memory.release(memory.allocate(kMiB, stream(1)));
  auto* cached = memory.allocate(kMiB, stream(1), Effort::kCached);
  BOOST_TEST(cached);
  BOOST_TEST(memory.stats().driver_calls == 1);
  memory.release(cached);
}

BOOST_AUTO_TEST_CASE(what_waits_for_a_stream_is_waited_for_before_memory_runs_out) {
  CountingSource source(40 * kMiB);
  CachingAllocator memory(source);
  auto* block = memory.allocate(30 * kMiB, stream(1));
  memory.record_use(block, stream(2));
  memory.release(block);
  auto* again = memory.allocate(30 * kMiB, stream(1));
  BOOST_REQUIRE(again);
  memory.release(again);
}

BOOST_AUTO_TEST_CASE(a_request_that_no_machine_can_serve_is_refused) {
  CountingSource source;
  CachingAllocator memory(source);
  BOOST_TEST(!memory.allocate(SIZE_MAX - 5, stream(1)));
  BOOST_TEST(memory.stats().live_blocks == 0);
}

BOOST_AUTO_TEST_CASE(without_caching_every_block_goes_back_at_once) {
  CountingSource source;
  CachingAllocator memory(source, false);
  auto* first = memory.allocate(700, stream(1));
  auto* second = memory.allocate(700, stream(1));
  BOOST_TEST(source.given() == 2048);
  memory.release(first);
  memory.release(second);
  BOOST_TEST(source.given() == 0);
}

BOOST_AUTO_TEST_CASE(a_program_that_has_warmed_up_asks_the_driver_for_nothing) {
  CountingSource source;
  CachingAllocator memory(source);
  int64_t calls = 0;
  for (int step = 0; step < 50; ++step) {
    std::vector<CachingAllocator::Block*> live;
    for (std::size_t i = 1; i < 40; ++i) live.push_back(memory.allocate(i * i * 9001, stream(1)));
    for (auto* block : live) memory.release(block);
    if (step == 9) calls = memory.stats().driver_calls;
  }
  BOOST_TEST(memory.stats().driver_calls == calls);
  BOOST_TEST(memory.stats().live_bytes == 0);
}

BOOST_AUTO_TEST_CASE(live_blocks_never_overlap_and_everything_goes_back_in_the_end) {
  CountingSource source;
  {
    CachingAllocator memory(source);
    std::mt19937 random(test_seed());
    std::map<std::uintptr_t, std::pair<std::size_t, CachingAllocator::Block*>> live;
    int64_t asked = 0;
    for (int step = 0; step < 20000; ++step) {
      if (live.empty() || random() % 5 < 3) {
        const std::size_t bytes = 1 + random() % (random() % 8 == 0 ? 30 * kMiB : 200000);
        auto* block = memory.allocate(bytes, stream(1 + random() % 3));
        BOOST_REQUIRE(block);
        const auto where = address(block);
        BOOST_TEST_REQUIRE(where % 512 == 0);
        const auto after = live.lower_bound(where);
        if (after != live.end()) BOOST_TEST_REQUIRE(where + bytes <= after->first);
        if (after != live.begin()) {
          const auto before = std::prev(after);
          BOOST_TEST_REQUIRE(before->first + before->second.first <= where);
        }
        live[where] = {bytes, block};
        ++asked;
      } else {
        auto victim = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
        if (random() % 4 == 0) memory.record_use(victim->second.second, stream(1 + random() % 3));
        memory.release(victim->second.second);
        live.erase(victim);
        if (random() % 16 == 0) source.finish_all();
        if (random() % 512 == 0) memory.empty_cache();
      }
    }
    BOOST_TEST(memory.stats().allocations == asked);
    BOOST_TEST(memory.stats().live_blocks == static_cast<int64_t>(live.size()));
    BOOST_TEST(memory.stats().peak_bytes >= memory.stats().live_bytes);
    for (const auto& [where, entry] : live) memory.release(entry.second);
    BOOST_TEST(memory.stats().live_bytes == 0);
    memory.empty_cache();
    BOOST_TEST(source.given() == 0);
    memory.release(memory.allocate(100, stream(1)));
  }
  BOOST_TEST(source.given() == 0);
}

BOOST_AUTO_TEST_SUITE_END()
