// Records of indices out of range, without kernels: what several threads that wait make of them.
#include "tendril/tensor/cuda/runtime/index_records.h"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tendril/tensor/error.h"

using namespace tendril;

BOOST_AUTO_TEST_SUITE(index_records)

BOOST_AUTO_TEST_CASE(each_error_is_thrown_once_whoever_waits) {
  constexpr int kErrors = 20000;
  cuda::IndexRecord record{};
  const cuda::SharedRecord shared{&record, &record};
  std::atomic<bool> noted_all{false};
  std::vector<std::map<std::string, int>> thrown(3);
  std::vector<std::thread> waiting;
  for (auto& mine : thrown) {
    waiting.emplace_back([&] {
      for (bool last = false; !last;) {
        last = noted_all;
        try {
          cuda::throw_noted(shared, 7, 0, false);
        } catch (const IndexError& error) {
          ++mine[error.what()];
        }
      }
    });
  }
  const std::atomic_ref<int> state(record.state);
  for (int i = 0; i < kErrors;) {  // as a kernel does
    int empty = cuda::IndexRecord::kEmpty;
    if (!state.compare_exchange_strong(empty, cuda::IndexRecord::kClaimed)) continue;
    record.value = 100 + i++;
    record.size = 5;
    record.owner = 7;
    state.store(cuda::IndexRecord::kComplete);
  }
  while (state.load() != cuda::IndexRecord::kEmpty) std::this_thread::yield();
  noted_all = true;
  for (std::thread& thread : waiting) thread.join();
  std::map<std::string, int> all;
  for (const auto& mine : thrown) {
    for (const auto& [text, times] : mine) all[text] += times;
  }
  BOOST_TEST(all.size() == static_cast<std::size_t>(kErrors));
  for (const auto& [text, times] : all) BOOST_TEST_REQUIRE(times == 1, text);
}

BOOST_AUTO_TEST_SUITE_END()
