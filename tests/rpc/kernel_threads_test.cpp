// Concurrent handlers share the process's budget of kernel threads (docs/threads.md). Each handler has its own thread;
// helpers join while the budget has room for them beside all handlers.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <thread>
#include <vector>

#include "tendril/rpc/call.h"
#include "tendril/tensor/cpu/parallel.h"
#include "tendril/tensor/cpu/workers.h"
#include "tendril/tensor/raw.h"
#include "tests/rpc/cluster.h"

BOOST_AUTO_TEST_SUITE(kernel_threads)

using namespace rpc_test;

/// Sets the process's budget for one test.
struct Budget {
  explicit Budget(int n) : before(thread_budget()) { set_num_threads(n); }
  ~Budget() { set_num_threads(before); }
  int before;
};

/// The current number of threads inside, and the highest so far.
struct Watched {
  void enter() {
    const int number = ++now;
    for (int seen = most; seen < number && !most.compare_exchange_weak(seen, number);) {
    }
  }
  void leave() { --now; }
  std::atomic<int> now{0}, most{0};
};

/// Threads inside the kernels of handlers, and those among them that help a handler.
struct Scene {
  Watched all, helpers;
  std::atomic<int> handlers{0}, ready{0}, arrived{0}, done{0}, alone{0};
};
Scene* scene = nullptr;

/// The sum of [0, count), computed by a kernel that counts its threads.
int64_t watched_sum(int64_t count) {
  const auto me = std::this_thread::get_id();
  std::atomic<int64_t> sum = 0;
  cpu::parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    const bool helper = std::this_thread::get_id() != me;
    scene->all.enter();
    if (helper) scene->helpers.enter();
    std::this_thread::yield();  // lets other threads enter
    for (int64_t i = begin; i < end; ++i) sum += i;
    if (helper) scene->helpers.leave();
    scene->all.leave();
  });
  return sum;
}

/// Runs kernels while all handlers are inside an outer kernel. Each handler waits for the others, so all `handlers`
/// need a thread of the agent.
int64_t sum_inside(int64_t count) {
  const auto all_of = [](std::atomic<int>& number) {
    if (!Cluster::eventually([&] { return number >= scene->handlers; }, 60s)) ++scene->alone;
  };
  // All begin at once, so that each requests what the others have left of the budget.
  ++scene->ready;
  all_of(scene->ready);
  int64_t sum = 0;
  cpu::parallel_for(2, 1, [&](int64_t begin, int64_t) {
    if (begin != 0) return;  // only one of the two chunks
    ++scene->arrived;
    all_of(scene->arrived);
    for (int i = 0; i < 3; ++i) sum = watched_sum(count);
    ++scene->done;
    all_of(scene->done);
  });
  return sum;
}

/// Runs kernels one after the other, as handlers do: counted ones, and operations on tensors.
double sums_and_products(int64_t count, const Tensor& numbers) {
  const Tensor a = raw::view(raw::narrow(numbers, 0, 0, 120 * 120), {120, 120});
  double total = 0;
  for (int i = 0; i < 3; ++i) {
    total += static_cast<double>(watched_sum(count));
    total += raw::matmul(a, raw::transpose(a, 0, 1)).sum().item<double>();
    total += raw::unary(Unary::sqrt, numbers).sum().item<double>();
  }
  return total;
}

template <class Call>
auto call_all(int handlers, Call call) {
  std::vector<decltype(call(0))> futures;
  for (int i = 0; i < handlers; ++i) futures.push_back(call(i));
  return wait_all(futures);
}

BOOST_AUTO_TEST_CASE(helpers_join_only_within_the_budget) {
  Cluster cluster(2, {.num_worker_threads = 16});
  struct Case {
    int handlers, budget;
  };
  for (const auto& [handlers, threads] : {Case{16, 2}, Case{16, 3}, Case{3, 3}, Case{2, 5}}) {
    const Budget budget(threads);
    Scene here;
    scene = &here;
    here.handlers = handlers;
    const std::vector<int64_t> sums =
        call_all(handlers, [&](int i) { return rpc_async<&sum_inside>(cluster[0], 1, int64_t{100 + i}); });
    for (int64_t i = 0; i < handlers; ++i) BOOST_TEST(sums[static_cast<std::size_t>(i)] == (100 + i) * (99 + i) / 2);
    const std::string which = std::to_string(handlers) + " handlers, a budget of " + std::to_string(threads);
    BOOST_TEST(here.alone == 0, which);
    BOOST_TEST(here.all.most <= std::max(handlers, threads), which << ": " << here.all.most << " inside");
    BOOST_TEST(here.helpers.most <= std::max(0, threads - handlers), which << ": " << here.helpers.most << " helpers");
  }
  BOOST_TEST(Cluster::eventually([] { return cpu::threads_inside() == 0; }));
}

BOOST_AUTO_TEST_CASE(changing_handlers_keep_the_budget_and_results) {
  Cluster cluster(2, {.num_worker_threads = 16});
  const Tensor numbers = raw::arange(0, 80'000, 1, kFloat64);
  Scene here;
  scene = &here;
  std::vector<double> expected;
  {
    const ThreadLimit alone(1);
    for (int64_t i = 0; i < 16; ++i) expected.push_back(sums_and_products(1000 + i, numbers));
  }
  for (const int threads : {2, 3}) {
    const Budget budget(threads);
    here.all.most = here.helpers.most = 0;
    for (int round = 0; round < 2; ++round) {
      const std::vector<double> results =
          call_all(16, [&](int i) { return rpc_async<&sums_and_products>(cluster[0], 1, int64_t{1000 + i}, numbers); });
      BOOST_TEST(results == expected, boost::test_tools::per_element());
    }
    // A helper that joined while there was room finishes its chunk beside handlers that began later.
    BOOST_TEST(here.helpers.most <= threads - 1, here.helpers.most << " helpers, a budget of " << threads);
    BOOST_TEST(here.all.most <= 16 + threads - 1, here.all.most << " inside, a budget of " << threads);
  }
  BOOST_TEST(Cluster::eventually([] { return cpu::threads_inside() == 0; }));
}

BOOST_AUTO_TEST_SUITE_END()
