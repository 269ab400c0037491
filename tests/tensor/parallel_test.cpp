#include "tendril/tensor/cpu/parallel.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <new>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tendril/tensor/cpu/workers.h"
#include "tendril/tensor/drivers/by_index.h"
#include "tendril/tensor/kernels.h"
#include "tendril/tensor/raw.h"
#include "tests/seed.h"
#include "tests/tensor/thread_names.h"
#include "tests/wait_until.h"

BOOST_AUTO_TEST_SUITE(parallel)

using namespace tendril;
using tendril::test::holds_within;
using tendril::testing::test_seed;
using tendril::testing::thread_names;

namespace {

/// Sets the process's budget for one test.
struct Budget {
  explicit Budget(int n) : before(num_threads()) { set_num_threads(n); }
  ~Budget() { set_num_threads(before); }
  int before;
};

Tensor noise(const Dims& sizes, DType dtype) {
  Generator generator(test_seed());
  const Tensor x = raw::empty(sizes, kFloat64);
  raw::uniform_(x, -1, 1, generator);
  return raw::cast(x, dtype);
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_item_is_visited_once_whatever_the_number_of_threads) {
  for (int threads : {1, 2, 3, 7}) {
    const Budget budget(threads);
    for (int64_t count : {0, 1, 5, 64, 1000}) {
      std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
      cpu::parallel_for(count, 10, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
      });
      for (const auto& number : visits) BOOST_TEST(number == 1);
    }
  }
}

BOOST_AUTO_TEST_CASE(an_exception_of_one_part_comes_to_the_caller_when_all_others_are_done) {
  for (int threads : {1, 2, 3}) {
    const Budget budget(threads);
    for (int64_t bad : {0, 3, 7}) {
      std::atomic<int> done = 0;
      std::atomic<bool> alone = true;
      std::string caught;
      try {
        cpu::for_each_part(8, [&](int64_t i) {
          if (num_threads() != 1) alone = false;
          if (i == bad) throw std::bad_alloc();
          ++done;
        });
      } catch (const std::bad_alloc&) {
        caught = "bad_alloc";
      }
      BOOST_TEST(caught == "bad_alloc");
      BOOST_TEST(done == 7);
      BOOST_TEST(alone);
    }
  }
}

BOOST_AUTO_TEST_CASE(every_item_is_visited_once_however_many_callers_there_are) {
  const Budget budget(4);
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> callers;
    for (unsigned caller = 0; caller < 4; ++caller) {
      callers.emplace_back([&, caller] {
        std::mt19937 dice(test_seed(caller));
        for (int round = 0; round < 300; ++round) {
          const int64_t count = static_cast<int64_t>(dice() % 5000), grain = static_cast<int64_t>(dice() % 40);
          std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
          cpu::parallel_for(count, grain, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
          });
          for (const auto& number : visits) wrong += number != 1;
        }
      });
    }
  }
  BOOST_TEST(wrong == 0);
  BOOST_TEST(cpu::threads_inside() == 0);
}

BOOST_AUTO_TEST_CASE(regions_may_nest_and_may_be_entered_by_many_threads) {
  const Budget budget(3);
  std::atomic<int64_t> sum = 0;
  {
    std::vector<std::jthread> callers;
    for (int t = 0; t < 3; ++t) {
      callers.emplace_back([&] {
        cpu::parallel_for(8, 1, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            cpu::parallel_for(100, 1, [&](int64_t b, int64_t e) { sum += e - b; });
          }
        });
      });
    }
  }
  BOOST_TEST(sum == 3 * 8 * 100);
}

/// Waits for what other threads do, but not for ever.
template <class Ready>
bool comes_true(const Ready& ready) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!ready()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

/// That so many threads are inside one call at the same time.
bool meet(int threads) {
  std::atomic<int> here = 0, alone = 0;
  cpu::parallel_for(threads, 1, [&](int64_t begin, int64_t end) {
    here += static_cast<int>(end - begin);
    if (!comes_true([&] { return here == threads; })) ++alone;
  });
  return alone == 0;
}

BOOST_AUTO_TEST_CASE(as_many_threads_help_as_the_budget_has_also_when_it_grows) {
  for (int threads : {2, 3, 6}) {
    const Budget budget(threads);
    BOOST_TEST(meet(threads));
  }
}

BOOST_AUTO_TEST_CASE(no_more_threads_than_the_budget_are_inside_kernels) {
  const Budget budget(3);
  std::atomic<int> inside = 0, most = 0;
  cpu::parallel_for(50, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      cpu::parallel_for(64, 1, [&](int64_t, int64_t) {
        const int now = ++inside;
        for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        std::this_thread::yield();
        --inside;
      });
    }
  });
  BOOST_TEST(most <= 3);
  BOOST_TEST(cpu::threads_inside() == 0);
}

BOOST_AUTO_TEST_CASE(a_call_is_alone_when_the_budget_is_spent) {
  const Budget budget(4);
  const cpu::ThreadShare first(3);
  BOOST_TEST(first.threads() == 3);
  {
    const cpu::ThreadShare second(3);  // within the first: the caller counts once
    BOOST_TEST(second.threads() == 2);
    std::jthread([] {
      if (cpu::ThreadShare(4).threads() != 1) std::abort();
    }).join();
  }
  BOOST_TEST(cpu::threads_inside() == 3);
}

BOOST_AUTO_TEST_CASE(a_caller_does_all_by_itself_while_others_hold_the_workers) {
  const Budget budget(2);
  std::atomic<int> held = 0;
  std::atomic<bool> go_on = false;
  std::jthread holder([&] {
    cpu::parallel_for(2, 1, [&](int64_t, int64_t) {
      ++held;
      comes_true([&] { return go_on.load(); });
    });
  });
  BOOST_TEST(comes_true([&] { return held == 2; }));
  const auto me = std::this_thread::get_id();
  int64_t visited = 0;
  cpu::parallel_for(1000, 1, [&](int64_t begin, int64_t end) {
    if (std::this_thread::get_id() == me) visited += end - begin;
  });
  BOOST_TEST(visited == 1000);
  go_on = true;
}

BOOST_AUTO_TEST_CASE(a_helper_leaves_when_another_caller_comes) {
  const Budget budget(2);
  std::atomic<int> began = 0, by_helper = 0;
  std::atomic<bool> came = false, done = false;
  std::jthread other([&] {
    comes_true([&] { return began >= 2; });
    const cpu::ThreadShare share(2);
    came = true;
    comes_true([&] { return done.load(); });
  });
  const auto me = std::this_thread::get_id();
  cpu::parallel_for(1000, 1, [&](int64_t, int64_t) {
    ++began;
    if (std::this_thread::get_id() != me) ++by_helper;
    comes_true([&] { return came.load(); });
  });
  BOOST_TEST(by_helper == 1);  // the chunk that it was in
  BOOST_TEST(began > 2);
  done = true;
}

BOOST_AUTO_TEST_CASE(a_child_has_workers_of_its_own) {
  const Budget budget(3);
  BOOST_TEST(meet(3));
  const pid_t child = ::fork();
  if (child == 0) {
#ifdef __SANITIZE_THREAD__  // refuses threads in a child
    set_num_threads(1);
#endif
    ::_exit(meet(num_threads()) && cpu::threads_inside() == 0 ? 0 : 1);
  }
  int status = -1;
  BOOST_TEST(::waitpid(child, &status, 0) == child);
  BOOST_TEST(status == 0);
  BOOST_TEST(meet(3));
}

BOOST_AUTO_TEST_CASE(a_limit_counts_for_the_thread_that_has_it) {
  const Budget budget(4);
  const ThreadLimit limit(1);
  int parts = 0;
  cpu::parallel_for(1000, 1, [&](int64_t, int64_t) { ++parts; });
  BOOST_TEST(parts == 1);
}

#ifdef _OPENMP
BOOST_AUTO_TEST_CASE(the_budget_is_not_that_of_the_users_own_regions) {
  // Products on both paths, oneDNN's (where the build has it) and our own, and a kernel cut into parts.
  const Tensor a = noise({200, 200}, kFloat32), b = noise({200, 200}, kFloat64), x = noise({100'000}, kFloat32);
  const auto threads_of_a_region = [] {
    int number = 0;
#pragma omp parallel
#pragma omp single
    number = omp_get_num_threads();
    return number;
  };
  const auto compute = [&] {
    raw::matmul(a, a);
    raw::matmul(b, b);
    raw::unary(Unary::tanh, x);
  };
  const int before = omp_get_max_threads();
  for (const int users : {3, 1, 2}) {
    omp_set_num_threads(users);
    for (const int budget : {1, 2, 4}) {
      const Budget ours(budget);
      BOOST_TEST(threads_of_a_region() == users);
      compute();
      BOOST_TEST(omp_get_max_threads() == users);
      BOOST_TEST(threads_of_a_region() == users);
    }
    BOOST_TEST(threads_of_a_region() == users);
#pragma omp parallel num_threads(2)
    {
      omp_set_num_threads(5);  // of this thread
      compute();
      if (omp_get_max_threads() != 5) std::abort();
    }
    BOOST_TEST(threads_of_a_region() == users);
  }
  omp_set_num_threads(before);
}
#endif

BOOST_AUTO_TEST_CASE(no_threads_but_ours_compute) {
  const Budget budget(3);
  const auto before = thread_names();
  for (const MemoryFormat order : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
    const Tensor x = raw::contiguous(noise({1, 24, 60, 60}, kFloat32), order),
                 y = raw::contiguous(raw::clone(x), order);
    const Tensor weight = noise({24, 24, 5, 5}, kFloat32);
    const ConvGeometry geometry{.padding = 2};
    kernels(kCPU)->conv2d(raw::view_of(y), raw::view_of(x), raw::view_of(weight), geometry);
    kernels(kCPU)->conv2d_data(raw::view_of(x), raw::view_of(y), raw::view_of(weight), geometry, nullptr);
    kernels(kCPU)->conv2d_filter(raw::view_of(weight), raw::view_of(x), raw::view_of(y), geometry);
  }
  for (const DType dtype : {kFloat32, kFloat16, kBFloat16})
    raw::matmul(noise({300, 300}, dtype), noise({300, 300}, dtype));
  // Each of our threads names itself first of all, but it may not have run yet.
  BOOST_TEST(holds_within(std::chrono::seconds(10), [&] {
    return std::ranges::all_of(thread_names(), [&](const auto& thread) {
      return before.contains(thread.first) || thread.second.starts_with("kernels/");
    });
  }));
}

BOOST_AUTO_TEST_CASE(the_number_of_threads_changes_no_bit) {
  // Large enough for several parts. float64 products are our own; oneDNN answers for its own.
  const Tensor a = noise({300, 200}, kFloat64), b = noise({200, 260}, kFloat64), tall = noise({2000, 40}, kFloat64);
  const Tensor x = noise({3, 16, 40, 40}, kFloat32), g = noise({3, 16, 40, 40}, kFloat32);
  const auto compute = [&] {
    std::vector<Tensor> results = {raw::matmul(a, b), raw::matmul(raw::transpose(b, 0, 1), raw::transpose(a, 0, 1)),
                                   raw::matmul(tall, raw::transpose(tall, 0, 1)), raw::unary(Unary::tanh, x),
                                   raw::binary(Binary::mul, x, g)};
    const Kernels& table = *kernels(kCPU);
    const Tensor rows = raw::view(x, {3, 16, 1600}), g_rows = raw::view(g, {3, 16, 1600});
    Tensor out = raw::empty_like(rows), mean = raw::empty({16}), var = raw::empty({16}), dx = raw::empty_like(rows);
    table.batch_norm(raw::view_of(out), raw::view_of(mean), raw::view_of(var), raw::view_of(rows), nullptr, nullptr,
                     1e-5, true, {});
    const View to = raw::view_of(dx);
    table.batch_norm_backward(&to, nullptr, nullptr, raw::view_of(g_rows), raw::view_of(rows), raw::view_of(mean),
                              raw::view_of(var), nullptr, 1e-5, true);
    Tensor pooled = raw::empty({3, 16, 20, 20}), indices = raw::empty({3, 16, 20, 20}, kInt64);
    table.max_pool2d(raw::view_of(pooled), raw::view_of(indices), raw::view_of(x), {.kernel = 2, .stride = 2});
    const Tensor image = raw::cast(x, kFloat64), weight = noise({24, 16, 3, 3}, kFloat64);
    Tensor y = raw::empty({3, 24, 40, 40}, kFloat64), dw = raw::empty_like(weight), di = raw::empty_like(image);
    const ConvGeometry geometry{.padding = 1};
    table.conv2d(raw::view_of(y), raw::view_of(image), raw::view_of(weight), geometry);
    table.conv2d_data(raw::view_of(di), raw::view_of(y), raw::view_of(weight), geometry, nullptr);
    table.conv2d_filter(raw::view_of(dw), raw::view_of(image), raw::view_of(y), geometry);
    Tensor dpool = raw::empty_like(x);
    table.max_pool2d_backward(raw::view_of(dpool), raw::view_of(pooled), raw::view_of(indices),
                              {.kernel = 2, .stride = 2});
    for (const Tensor& t : {out, mean, var, dx, pooled, indices, y, dw, di, dpool}) results.push_back(t);

    Generator generator(test_seed());
    const Tensor at = raw::empty({2000}, kInt64), numbers = raw::empty({50'000}, kFloat32);
    raw::randint_(at, 0, 30, generator);
    for (int64_t width : {1, 40, 300}) {  // alone, by rows and by columns
      const Tensor sums = raw::zeros({30, width}, kFloat32), source = noise({2000, width}, kFloat32);
      drivers::index_add_(sums, 0, at, source);
      results.push_back(sums);
      results.push_back(source.index_select(0, at));
      const Tensor lines = raw::zeros({width, 30}, kFloat32);
      drivers::index_add_(lines, 1, at, raw::transpose(source, 0, 1));
      results.push_back(lines);
    }
    raw::normal_(numbers, 0, 1, generator);
    results.push_back(raw::clone(numbers));
    const Tensor p = noise({100'000}, kFloat32), grad = raw::unary(Unary::neg, p), m = noise({100'000}, kFloat32);
    const auto data = [](const Tensor& t) { return raw::view_of(t).data; };
    const Tensor v = raw::zeros({100'000}, kFloat32), most = raw::zeros({100'000}, kFloat32);
    const StepBlock block{{data(p), data(grad), data(m), data(v), data(most)}, 100'000};
    table.optimizer_step({&block, 1}, kFloat32,
                         SgdStep{.lr = 0.1, .weight_decay = 0.01, .momentum = 0.9, .kept = 0.9, .entering = 1});
    table.optimizer_step({&block, 1}, kFloat32,
                         AdamStep{.step_size = 0.1,
                                  .v_scale = 1,
                                  .beta1 = 0.9,
                                  .one_minus_beta1 = 0.1,
                                  .beta2 = 0.99,
                                  .one_minus_beta2 = 0.01,
                                  .eps = 1e-8,
                                  .amsgrad = true});
    for (const Tensor& t : {p, m, v, most}) results.push_back(t);
    const Tensor gates = noise({100, 400}, kFloat32), cell = noise({100, 100}, kFloat32);
    std::vector<Tensor> made;
    for (int64_t width : {100, 100, 100, 400, 100}) made.push_back(raw::zeros({100, width}, kFloat32));
    table.lstm_cell(raw::view_of(gates), raw::view_of(gates), raw::view_of(cell), raw::view_of(made[0]),
                    raw::view_of(made[1]), raw::view_of(made[2]));
    table.lstm_cell_backward(raw::view_of(made[3]), raw::view_of(made[4]), raw::view_of(made[2]), nullptr,
                             raw::view_of(gates), raw::view_of(cell), raw::view_of(made[1]));
    results.insert(results.end(), made.begin(), made.end());
    const Tensor x_gates = noise({5, 33, 4 * 300}, kFloat32), recurrent = noise({4 * 300, 300}, kFloat32),
                 state = noise({33, 300}, kFloat32), d_output = noise({5, 33, 300}, kFloat32), d_c = raw::clone(state),
                 d_h = raw::clone(state);
    std::vector<Tensor> all{raw::empty_like(x_gates), raw::empty_like(x_gates)};
    for (int i = 0; i < 3; ++i) all.push_back(raw::empty_like(d_output));
    const LstmSteps steps{raw::view_of(x_gates), raw::view_of(recurrent), raw::view_of(state), raw::view_of(state),
                          false};
    BOOST_REQUIRE(table.lstm_steps(steps, raw::view_of(all[0]), raw::view_of(all[2]), raw::view_of(all[3]),
                                   raw::view_of(all[4])));
    const View given = raw::view_of(d_output);
    BOOST_REQUIRE(table.lstm_steps_backward(steps, raw::view_of(all[1]), raw::view_of(d_c), raw::view_of(d_h), &given,
                                            raw::view_of(all[0]), raw::view_of(all[2]), raw::view_of(all[3]), true));
    results.insert(results.end(), all.begin(), all.end());
    results.push_back(d_c), results.push_back(d_h);
    // One long line: the first of two largest elements, in pieces that threads share; and an order that they share.
    const Tensor line = noise({300'000}, kFloat32);
    for (const int64_t like : {70'000, 280'000}) raw::fill_(raw::narrow(line, 0, like, 1), 7);
    const Tensor top = raw::empty({1}, kFloat32), place = raw::empty({1}, kInt64),
                 order = raw::empty({300'000}, kInt64);
    const View value = raw::view_of(top), index = raw::view_of(place);
    table.extremum(true, &value, &index, raw::view_of(line), 0);
    BOOST_TEST(place.item<int64_t>() == 70'000);
    table.sort_places(raw::view_of(order), raw::view_of(line), false);
    results.push_back(order);
    raw::fill_(raw::narrow(line, 0, 200'000, 1), std::numeric_limits<float>::quiet_NaN());
    raw::fill_(raw::narrow(line, 0, 290'000, 1), std::numeric_limits<float>::quiet_NaN());
    table.extremum(true, &value, &index, raw::view_of(line), 0);
    BOOST_TEST(place.item<int64_t>() == 200'000);
    table.extremum(false, &value, &index, raw::view_of(line), 0);
    BOOST_TEST(place.item<int64_t>() == 200'000);
    return results;
  };
  std::vector<Tensor> expected;
  for (int threads : {1, 2, 5}) {
    const Budget budget(threads);
    const std::vector<Tensor> results = compute();
    if (expected.empty()) expected = results;
    for (std::size_t i = 0; i < results.size(); ++i)
      BOOST_TEST(raw::equal(results[i], expected[i]), "result " << i << " of " << results[i].sizes());
  }
}

BOOST_AUTO_TEST_CASE(windows_are_counted_as_pytorch_counts_them) {
  BOOST_TEST(window_count(7, 3, 2, 1, 1) == 4);
  BOOST_TEST(window_count(7, 3, 2, 0, 2) == 2);
  BOOST_TEST(window_count(6, 3, 2, 0, 1, true) == 3);
  BOOST_TEST(window_count(4, 2, 3, 1, 1, true) == 2);  // a third would start behind the image
  BOOST_TEST(window_count(2, 3, 1, 0, 1) == 0);
  BOOST_TEST(window_count(2, 3, 1, 0, 1, true) == 0);
  BOOST_TEST(window_count(2, 3, 2, 0, 1, true) == 1);  // it hangs over the end
  BOOST_TEST(window_count(1, 3, 2, 0, 1, true) == 0);
  BOOST_TEST(window_count(4, 1, 1, INT64_MAX, 1) == 0);  // and these leave 64 bits
  BOOST_TEST(window_count(4, 5, 1, 0, int64_t{1} << 62) == 0);
  BOOST_TEST(window_count(4, 2, INT64_MAX, 4, 1, true) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
