// What a thread costs: products in threads with small stacks, and in many threads.
#include <pthread.h>

#include <barrier>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <functional>
#include <semaphore>
#include <thread>
#include <vector>

#include "tendril/tensor/memory.h"
#include "tendril/tensor/raw.h"

BOOST_AUTO_TEST_SUITE(small_stacks)

using namespace tendril;

namespace {

/// Runs f in a thread with a stack of `bytes`, which must also hold all its thread-local objects; false if the system
/// does not start one.
bool in_thread_with_stack(std::size_t bytes, std::function<void()> f) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, bytes);
  pthread_t thread;
  const auto start = [](void* context) -> void* {
    (*static_cast<std::function<void()>*>(context))();
    return nullptr;
  };
  const bool started = pthread_create(&thread, &attributes, start, &f) == 0;
  if (started) pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  return started;
}

double first_of_product(const Dims& a, const Dims& b, DType dtype) {
  const Tensor product = raw::matmul(raw::ones(a, dtype), raw::ones(b, dtype));
  return raw::cast(product, kFloat64).to_vector<double>().front();
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_thread_with_a_small_stack_starts_and_multiplies) {
  for (const DType dtype : {kFloat32, kFloat64}) {
    double small = 0, large = 0;
    const bool started = in_thread_with_stack(std::size_t{512} << 10, [&] {
      small = first_of_product({3, 4}, {4, 5}, dtype);
      large = first_of_product({130, 300}, {300, 600}, dtype);
    });
    BOOST_TEST(started);
    BOOST_TEST(small == 4);
    BOOST_TEST(large == 300);
  }
}

BOOST_AUTO_TEST_CASE(threads_that_multiplied_hold_no_memory_for_the_next_time) {
  constexpr int kThreads = 64;
  const Tensor a = raw::ones({40, 256}, kFloat64), b = raw::ones({256, 40}, kFloat64);
  raw::matmul(a, b);
  const auto held = [] { return memory::stats().live_bytes + memory::stats().cached_bytes; };
  const std::size_t before = held();
  std::barrier<> all_done(kThreads + 1), measured(kThreads + 1);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    std::binary_semaphore done(0);  // one after another: one product at a time
    threads.emplace_back([&] {
      raw::matmul(a, b);
      done.release();
      all_done.arrive_and_wait();
      measured.arrive_and_wait();
    });
    done.acquire();
  }
  all_done.arrive_and_wait();
  const std::size_t after = held();
  measured.arrive_and_wait();
  for (std::thread& thread : threads) thread.join();
  // A thread's panels would be 180 kB. What it may keep is the block of a small result and slabs of headers.
  BOOST_TEST((after - before) / kThreads < 100'000u);
}

BOOST_AUTO_TEST_SUITE_END()
