// set_deterministic: the same bits for any number of threads.
#include "tendril/tensor/deterministic.h"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tendril/tensor/cpu/onednn.h"
#include "tendril/tensor/cpu/parallel.h"
#include "tendril/tensor/cpu/paths.h"
#include "tendril/tensor/cpu/workers.h"
#include "tendril/tensor/drivers/by_index.h"
#include "tendril/tensor/kernels.h"
#include "tendril/tensor/raw.h"
#include "tendril/tensor/threads.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(deterministic)

using namespace tendril;
using cpu::Path;
using tendril::testing::test_seed;

namespace {

/// The process's budget and the mode as they were, afterwards.
struct Settings {
  ~Settings() {
    set_num_threads(threads);
    set_deterministic(false);
  }
  int threads = thread_budget();
};

Tensor noise(const Dims& sizes, DType dtype = kFloat32) {
  Generator generator(test_seed());
  const Tensor x = raw::empty(sizes, kFloat64);
  raw::uniform_(x, -1, 1, generator);
  return raw::cast(x, dtype);
}

/// Which of `make`'s results have other bits with another number of threads.
std::string differing(const std::vector<std::pair<std::string, std::function<Tensor()>>>& calls) {
  std::string names;
  for (const auto& [name, call] : calls) {
    Tensor first;
    for (int threads : {1, 2, 3, 5, 2}) {
      set_num_threads(threads);
      const Tensor now = call();
      if (!first.defined()) first = now;
      if (!raw::equal(first, now)) {
        names += name + " ";
        break;
      }
    }
  }
  return names;
}

Tensor convolution(cpu::onednn::Map map, const Tensor& x, const Tensor& w, const Tensor& out, const ConvGeometry& g) {
  using raw::view_of;
  switch (map) {
    case cpu::onednn::Map::result:
      kernels(kCPU)->conv2d(view_of(out), view_of(x), view_of(w), g);
      return out;
    case cpu::onednn::Map::data:
      kernels(kCPU)->conv2d_data(view_of(x), view_of(out), view_of(w), g, nullptr);
      return x;
    default:
      kernels(kCPU)->conv2d_filter(view_of(w), view_of(x), view_of(out), g);
      return w;
  }
}

/// While it lives another thread has the whole budget.
class Busy {
 public:
  Busy() { begun_.wait(); }
  ~Busy() { done_.count_down(); }

 private:
  std::latch begun_{1}, done_{1};
  std::jthread other_{[this] {
    const cpu::ThreadShare all(thread_budget());
    begun_.count_down();
    done_.wait();
  }};
};

}  // namespace

BOOST_AUTO_TEST_CASE(who_else_computes_changes_no_bit) {
  const Settings settings;
  set_num_threads(3);
  std::vector<std::pair<std::string, std::function<Tensor()>>> calls;
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
    for (const auto& [m, k, n] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{{300, 700, 200}, {20, 3000, 90}}) {
      calls.emplace_back("product of " + std::to_string(m) + " rows", [m, k, n, dtype] {
        return raw::matmul(noise({m, k}, dtype), noise({k, n}, dtype));
      });
    }
    calls.emplace_back("batch", [dtype] { return raw::matmul(noise({7, 90, 80}, dtype), noise({7, 80, 90}, dtype)); });
  }
  using cpu::onednn::Map;
  for (const MemoryFormat order : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
    for (const auto& [images, channels, groups] :
         std::vector<std::tuple<int64_t, int64_t, int64_t>>{{1, 32, 1}, {1, 20, 1}, {5, 20, 1}, {1, 40, 2}}) {
      for (const int64_t kernel : {1, 3, 5}) {
        for (const Map map : {Map::result, Map::data, Map::filter}) {
          const std::string name = "map " + std::to_string(static_cast<int>(map)) + " of " + std::to_string(images) +
                                   " images, " + std::to_string(channels) + " channels, kernel " +
                                   std::to_string(kernel);
          calls.emplace_back(name, [images, channels, groups, kernel, map, order] {
            const Tensor x = raw::contiguous(noise({images, channels, 60, 50}), order);
            return convolution(map, x, noise({channels, channels / groups, kernel, kernel}),
                               raw::contiguous(raw::clone(x), order), {.padding = kernel / 2, .groups = groups});
          });
        }
      }
    }
  }
  for (const auto& [name, call] : calls) {
    const Tensor alone = call();
    const Busy busy;
    BOOST_TEST(raw::equal(call(), alone), name);
  }
}

BOOST_AUTO_TEST_CASE(a_kernel_has_the_same_cuts_for_what_it_calls_when_nobody_helps) {
  const Settings settings;
  set_num_threads(4);
  const ThreadLimit limit(2);
  const auto inner = [] {
    std::atomic<int> threads = 0;
    cpu::parallel_for(2, 1, [&](int64_t, int64_t) { threads = num_threads(); });
    return threads.load();
  };
  const int helped = inner();
  const Busy busy;
  BOOST_TEST(inner() == helped);
}

BOOST_AUTO_TEST_CASE(products_and_convolutions_have_the_same_bits_for_any_number_of_threads) {
  const Settings settings;
  BOOST_TEST(!tendril::deterministic());
  set_deterministic(true);
  BOOST_TEST(tendril::deterministic());
  std::vector<std::pair<std::string, std::function<Tensor()>>> calls;
  for (const auto& [m, k, n] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
           {700, 300, 500}, {64, 2000, 64}, {20, 200, 800}, {1000, 40, 3}, {5, 30, 900}, {257, 257, 257}}) {
    for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
      const std::string name = std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n);
      calls.emplace_back("product " + name, [m, k, n, dtype] {
        return raw::matmul(noise({m, k}, dtype), noise({k, n}, dtype));
      });
      calls.emplace_back("transposed " + name, [m, k, n, dtype] {
        return raw::matmul(raw::transpose(noise({k, m}, dtype), 0, 1), raw::transpose(noise({n, k}, dtype), 0, 1));
      });
    }
  }
  using cpu::onednn::Map;
  for (const MemoryFormat order : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
    for (const int64_t images : {1, 4}) {  // shared out by channels or by rows, and by images
      for (const int64_t kernel : {1, 3}) {
        for (const Map map : {Map::result, Map::data, Map::filter}) {
          const std::string name = "map " + std::to_string(static_cast<int>(map)) + ", kernel " +
                                   std::to_string(kernel) + ", images " + std::to_string(images);
          calls.emplace_back(name, [=] {
            const ConvGeometry g{.padding = kernel / 2};
            return convolution(map, raw::contiguous(noise({images, 32, 20, 20}), order),
                               noise({48, 32, kernel, kernel}), raw::contiguous(noise({images, 48, 20, 20}), order), g);
          });
        }
      }
    }
  }
  BOOST_TEST(differing(calls) == "");
}

BOOST_AUTO_TEST_CASE(products_are_still_onednns) {
  if (!cpu::onednn::available()) return;
  const Settings settings;
  const Tensor a = noise({300, 300}), b = noise({300, 300});
  const Tensor free = raw::matmul(a, b);
  set_deterministic(true);
  const uint64_t before = cpu::taken(Path::onednn_product);
  const Tensor fixed = raw::matmul(a, b);
  BOOST_TEST(cpu::taken(Path::onednn_product) > before);
  const auto x = free.to_vector<double>(), y = fixed.to_vector<double>();
  for (std::size_t i = 0; i < x.size(); ++i) BOOST_TEST_REQUIRE(std::abs(x[i] - y[i]) < 1e-4);
}

BOOST_AUTO_TEST_CASE(everything_else_has_them_without) {
  const Settings settings;
  const std::vector<std::pair<std::string, std::function<Tensor()>>> calls = {
      {"sum of all", [] { return noise({1000003}).sum(); }},
      {"sum of columns",
       [] {
         return noise({1021, 517}).sum({0});
       }},
      {"running sum",
       [] {
         return noise({300, 700}).cumsum(1);
       }},
      {"exp", [] { return raw::unary(Unary::exp, noise({200001})); }},
      {"float64 product",
       [] {
         return raw::matmul(noise({200, 300}, kFloat64), noise({300, 250}, kFloat64));
       }},
      {"sums by index",
       [] {
         Tensor out = raw::zeros({10, 700}), index = raw::empty({3000}, kInt64);
         Generator generator(test_seed());
         raw::randint_(index, 0, 10, generator);
         drivers::index_add_(out, 0, index, noise({3000, 700}));
         return out;
       }},
      {"random numbers",
       [] {
         Generator generator(test_seed());
         Tensor x = raw::empty({300001});
         raw::normal_(x, 0, 1, generator);
         return x;
       }},
      {"batch norm",
       [] {
         const Tensor x = noise({4, 30, 400}), mean = raw::empty({30}), var = raw::empty({30});
         Tensor out = raw::empty_like(x);
         kernels(kCPU)->batch_norm(raw::view_of(out), raw::view_of(mean), raw::view_of(var), raw::view_of(x), nullptr,
                                   nullptr, 1e-5, true, {});
         return out;
       }},
  };
  BOOST_TEST(differing(calls) == "");
}

BOOST_AUTO_TEST_SUITE_END()
