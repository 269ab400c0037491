#include "tendril/tensor/cpu/parallel.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

#include "tendril/tensor/kernels.h"
#include "tendril/tensor/raw.h"

using namespace tendril;

namespace {

/// Sets the process's budget for one test.
struct Budget {
  explicit Budget(int n) : before(num_threads()) { set_num_threads(n); }
  ~Budget() { set_num_threads(before); }
  int before;
};

Tensor noise(const Dims& sizes, DType dtype) {
  Generator generator(5);
  const Tensor x = raw::empty(sizes, kFloat64);
  raw::uniform_(x, -1, 1, generator);
  return raw::cast(x, dtype);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(parallel)

BOOST_AUTO_TEST_CASE(every_item_is_visited_once_whatever_the_number_of_threads) {
  for (int threads : {1, 2, 3, 7}) {
    const Budget budget(threads);
    for (int64_t count : {0, 1, 5, 64, 1000}) {
      std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
      std::atomic<int> parts = 0;
      cpu::parallel_for(count, 10, [&](int64_t begin, int64_t end) {
        ++parts;
        for (int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
      });
      for (const auto& number : visits) BOOST_TEST(number == 1);
      BOOST_TEST(parts <= std::max<int64_t>(count > 0, std::min<int64_t>(threads, count / 10)));
    }
  }
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

BOOST_AUTO_TEST_CASE(the_number_of_threads_changes_no_bit) {
  // Large enough for several parts. float64 products are our own; oneDNN answers for its own.
  const Tensor a = noise({300, 200}, kFloat64), b = noise({200, 260}, kFloat64), tall = noise({2000, 40}, kFloat64);
  const Tensor x = noise({3, 16, 40, 40}, kFloat32), g = noise({3, 16, 40, 40}, kFloat32);
  const auto compute = [&] {
    std::vector<Tensor> results = {raw::matmul(a, b), raw::matmul(raw::transpose(b, 0, 1), raw::transpose(a, 0, 1)),
                                   raw::matmul(tall, raw::transpose(tall, 0, 1)), raw::unary(Unary::tanh, x),
                                   raw::binary(Binary::mul, x, g)};
    const Kernels& table = kernels(kCPU);
    const Tensor rows = raw::view(x, {3, 16, 1600}), g_rows = raw::view(g, {3, 16, 1600});
    Tensor out = raw::empty_like(rows), mean = raw::empty({16}), var = raw::empty({16}), dx = raw::empty_like(rows);
    table.batch_norm(raw::view_of(out), raw::view_of(mean), raw::view_of(var), raw::view_of(rows), nullptr, nullptr,
                     1e-5, true);
    const View to = raw::view_of(dx);
    table.batch_norm_backward(&to, nullptr, nullptr, raw::view_of(g_rows), raw::view_of(rows), raw::view_of(mean),
                              raw::view_of(var), nullptr, 1e-5, true);
    Tensor pooled = raw::empty({3, 16, 20, 20}), indices = raw::empty({3, 16, 20, 20}, kInt64);
    table.max_pool2d(raw::view_of(pooled), raw::view_of(indices), raw::view_of(x), {.kernel = 2, .stride = 2});
    const Tensor image = raw::cast(x, kFloat64), weight = noise({24, 16, 3, 3}, kFloat64);
    Tensor y = raw::empty({3, 24, 40, 40}, kFloat64), dw = raw::empty_like(weight), di = raw::empty_like(image);
    const ConvGeometry geometry{.padding = 1};
    table.conv2d(raw::view_of(y), raw::view_of(image), raw::view_of(weight), geometry);
    table.conv2d_data(raw::view_of(di), raw::view_of(y), raw::view_of(weight), geometry);
    table.conv2d_filter(raw::view_of(dw), raw::view_of(image), raw::view_of(y), geometry);
    for (const Tensor& t : {out, mean, var, dx, pooled, indices, y, dw, di}) results.push_back(t);
    return results;
  };
  std::vector<Tensor> expected;
  for (int threads : {1, 2, 5}) {
    const Budget budget(threads);
    const std::vector<Tensor> results = compute();
    if (expected.empty()) expected = results;
    for (std::size_t i = 0; i < results.size(); ++i) BOOST_TEST(raw::equal(results[i], expected[i]), "result " << i);
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
}

BOOST_AUTO_TEST_SUITE_END()
