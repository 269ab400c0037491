#include "tendril/tensor/memory.h"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <string>
#include <thread>

#include "tendril/tensor/raw.h"
#include "tests/seed.h"
#include "tests/tensor/little_room.h"

BOOST_AUTO_TEST_SUITE(memory_blocks)

using namespace tendril;
using tendril::testing::test_seed;

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kCached = false;  // every block comes from the system
#else
constexpr bool kCached = true;
#endif

const std::size_t kSizes[] = {0, 1, 64, 65, 300, 512, 513, 1024, 5000, 1 << 20, (1 << 20) + 1, 3'000'000, 40 << 20};

struct Block {
  unsigned char* data;
  std::size_t size;
  unsigned char mark;
};

Block make(std::size_t size, unsigned char mark) {
  auto* data = static_cast<unsigned char*>(memory::allocate(size));
  std::memset(data, mark, size);
  return {data, size, mark};
}
/// Nobody else wrote to it.
bool intact(const Block& block) {
  for (std::size_t i = 0; i<block.size; i += block.size> 4096 ? 509 : 1) {
    if (block.data[i] != block.mark) return false;
  }
  return true;
}

}  // namespace

namespace {
/// Made in a thread before the allocator is first used there, so destroyed after the allocator's own.
thread_local std::vector<Tensor> kept;
}  // namespace

BOOST_AUTO_TEST_CASE(blocks_are_aligned_and_apart) {
  std::vector<Block> blocks;
  unsigned char mark = 0;
  for (int round = 0; round < 3; ++round) {
    for (const std::size_t size : kSizes) {
      blocks.push_back(make(size, ++mark));
      BOOST_TEST(reinterpret_cast<uintptr_t>(blocks.back().data) % memory::kAlignment == 0);
    }
  }
  for (const Block& block : blocks) BOOST_TEST(intact(block));
  for (const Block& block : blocks) memory::release(block.data, block.size);
}

BOOST_AUTO_TEST_CASE(live_bytes_come_back_to_where_they_were) {
  const std::size_t before = memory::stats().live_bytes;
  std::vector<Tensor> tensors;
  for (int i = 0; i < 1000; ++i) tensors.push_back(raw::zeros({i * 10}));
  BOOST_TEST(memory::stats().live_bytes > before + 4 * 10 * 499'500);
  tensors.clear();
  BOOST_TEST(memory::stats().live_bytes == before);
  BOOST_TEST(memory::stats().peak_bytes >= before + 4 * 10 * 499'500);
}

BOOST_AUTO_TEST_CASE(a_large_buffer_is_used_again) {
  memory::trim();
  void* first = memory::allocate(20 << 20);
  memory::release(first, 20 << 20);
  if (!kCached) return;
  BOOST_TEST(memory::stats().cached_bytes >= 20u << 20);
  void* second = memory::allocate((20 << 20) - 100'000);  // the same class
  BOOST_TEST(second == first);
  memory::release(second, (20 << 20) - 100'000);
  memory::trim();
  BOOST_TEST(memory::stats().cached_bytes < 20u << 20);
}

BOOST_AUTO_TEST_CASE(the_cache_of_large_buffers_is_bounded) {
  memory::trim();
  memory::set_cache_limit(64 << 20);
  std::vector<Block> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back({static_cast<unsigned char*>(memory::allocate(16 << 20)), 16 << 20, 0});
  const std::size_t held = memory::stats().live_bytes + memory::stats().cached_bytes;
  for (const Block& block : blocks) memory::release(block.data, block.size);
  const auto after = memory::stats();
  BOOST_TEST(after.live_bytes + after.cached_bytes <= held - (96u << 20));
  memory::trim();
  memory::set_cache_limit(std::size_t{1} << 30);
}

#ifdef TENDRIL_LITTLE_ROOM
BOOST_AUTO_TEST_CASE(without_more_memory_the_caches_are_emptied_before_an_allocation_fails) {
  // Nothing of what is cached serves the next request.
  BOOST_TEST(testing::holds_with_little_room(8 << 20, [](auto limit) {
    memory::trim();
    memory::set_cache_limit(std::size_t{1} << 30);
    void* cached = memory::allocate(64 << 20);
    limit();
    memory::release(cached, 64 << 20);
    const Block other = make(48 << 20, 1);
    return intact(other);
  }));
  BOOST_TEST(testing::holds_with_little_room(8 << 20, [](auto limit) {
    std::vector<Block> cached;
    for (int i = 0; i < 24; ++i) cached.push_back(make(1 << 20, 1));
    limit();
    for (const Block& block : cached) memory::release(block.data, block.size);
    std::vector<Block> others;
    for (int i = 0; i < 40; ++i) others.push_back(make(500 << 10, 2));
    return intact(others.front()) && intact(others.back());
  }));
  BOOST_TEST(!testing::holds_with_little_room(8 << 20, [](auto limit) {
    limit();
    return intact(make(48 << 20, 1));
  }));
}
#endif

BOOST_AUTO_TEST_CASE(blocks_that_change_threads_find_their_way_home) {
  // One thread allocates, another frees. Were freed blocks to pile up there, memory would grow without end.
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Tensor> queue;
  std::size_t after_warm_up = 0;
  constexpr int kCount = 60'000;
  std::thread consumer([&] {
    for (int i = 0; i < kCount; ++i) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return !queue.empty(); });
      const Tensor x = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      changed.notify_all();
    }
  });
  for (int i = 0; i < kCount; ++i) {
    Tensor x = raw::full({1 + i % 300}, i);
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return queue.size() < 100; });
    queue.push_back(std::move(x));
    lock.unlock();
    changed.notify_all();
    if (i == kCount / 4) {
      const auto stats = memory::stats();
      after_warm_up = stats.live_bytes + stats.cached_bytes;
    }
  }
  consumer.join();
  const auto stats = memory::stats();
  BOOST_TEST(stats.live_bytes + stats.cached_bytes <= after_warm_up + (4u << 20));
}

BOOST_AUTO_TEST_CASE(many_threads_trade_blocks_without_mixing_them_up) {
  constexpr int kThreads = 4;
  std::array<std::mutex, 8> mutexes;
  std::array<std::vector<Block>, 8> shelves;
  std::atomic<int> damaged = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::minstd_rand random(static_cast<unsigned>(test_seed(static_cast<unsigned>(t))));
      for (int i = 0; i < 5000; ++i) {
        const Block mine = make(kSizes[random() % 10], static_cast<unsigned char>(random()));
        const std::size_t shelf = random() % shelves.size();
        Block taken{};
        {
          const std::lock_guard lock(mutexes[shelf]);
          shelves[shelf].push_back(mine);
          if (shelves[shelf].size() > 20) {
            std::swap(shelves[shelf][random() % 20], shelves[shelf].back());
            taken = shelves[shelf].back();
            shelves[shelf].pop_back();
          }
        }
        if (!taken.data) continue;
        if (!intact(taken)) ++damaged;
        memory::release(taken.data, taken.size);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& shelf : shelves) {
    for (const Block& block : shelf) {
      if (!intact(block)) ++damaged;
      memory::release(block.data, block.size);
    }
  }
  BOOST_TEST(damaged == 0);
}

BOOST_AUTO_TEST_CASE(a_tensor_may_outlive_its_thread_and_be_freed_while_one_ends) {
  std::vector<Tensor> outliving;
  for (int round = 0; round < 20; ++round) {
    std::thread([&] {
      kept.reserve(10);
      for (int i = 0; i < 10; ++i) kept.push_back(raw::full({100}, i));
      outliving.push_back(raw::full({50}, round));
    }).join();
  }
  for (int round = 0; round < 20; ++round) {
    BOOST_TEST(outliving[static_cast<std::size_t>(round)].to_vector<int64_t>()[49] == round);
  }
}

BOOST_AUTO_TEST_CASE(memory_from_outside_is_given_back_once) {
  std::vector<float> owned = {1, 2, 3, 4, 5, 6};
  int given_back = 0;
  {
    const Tensor x = raw::from_blob(owned.data(), {2, 3}, kFloat32, [&](void* data) {
      BOOST_TEST(data == owned.data());
      ++given_back;
    });
    const Tensor row = raw::select(x, 0, 1);
    BOOST_TEST(row.to_vector<float>()[0] == 4);
    raw::fill_(row, 9);
    BOOST_TEST(given_back == 0);
  }
  BOOST_TEST(given_back == 1);
  BOOST_TEST(owned[5] == 9);
  const Tensor columns = raw::from_blob(owned.data(), {3, 2}, {1, 3}, kFloat32, {});
  BOOST_TEST(columns.to_vector<float>()[1] == 9);
  BOOST_CHECK_THROW(raw::from_blob(nullptr, {2}), Error);
}

BOOST_AUTO_TEST_CASE(an_absurd_size_is_an_error_that_says_how_much_was_asked_and_what_is_live) {
  const Tensor live = raw::empty({3 << 20});
  const auto too_much = [] { raw::empty({int64_t{1} << 58}); };
  const auto says_both = [](const Error& e) {
    const std::string text = e.what(), before = "cannot allocate 1152921504606846976 bytes on cpu; ";
    const std::size_t at = text.find(before);
    return at != std::string::npos && std::stoull(text.substr(at + before.size())) >= 12 << 20 &&
           text.find(" bytes are in use, ") != std::string::npos;
  };
  BOOST_CHECK_EXCEPTION(too_much(), Error, says_both);
}

BOOST_AUTO_TEST_CASE(data_is_given_out_under_its_own_type_only) {
  const Tensor x = raw::zeros({2});
  BOOST_TEST(x.data<float>() != nullptr);
  BOOST_CHECK_THROW(x.data<double>(), DTypeError);
  BOOST_CHECK_THROW(x.item<float>(), ShapeError);
  BOOST_CHECK_THROW(Tensor().data<float>(), Error);
  BOOST_CHECK_THROW(raw::zeros({1}, kFloat32, Device{DeviceType::cuda, 99}), Error);
}

BOOST_AUTO_TEST_SUITE_END()
