#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tendril/autograd/ops/reduce.h"
#include "tendril/tensor/cpu/gemm.h"
#include "tendril/tensor/cpu/onednn.h"
#include "tendril/tensor/cpu/paths.h"
#include "tendril/tensor/deterministic.h"
#include "tendril/tensor/raw.h"
#include "tendril/tensor/threads.h"
#include "tests/make.h"
#include "tests/seed.h"
#include "tests/tensor/layouts.h"
#include "tests/tensor/thread_names.h"

BOOST_AUTO_TEST_SUITE(matmul)

using namespace tendril;
using cpu::Path;
using tendril::testing::test_seed;
using tendril::testing::thread_names;

namespace {

Tensor noise(const Dims& sizes, DType dtype, Generator& generator) {
  const Tensor x = make::empty(sizes, kFloat64);
  raw::uniform_(x, -1, 1, generator);
  return raw::cast(x, dtype);
}

/// The product, computed one element at a time. [..., m, k] by [..., k, n], float64.
std::vector<double> product(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = raw::cast(a, kFloat64).to_vector<double>(),
                            y = raw::cast(b, kFloat64).to_vector<double>();
  const int last = a.dim() - 1;
  const auto m = static_cast<std::size_t>(a.sizes()[last - 1]), k = static_cast<std::size_t>(a.sizes()[last]),
             n = static_cast<std::size_t>(b.sizes()[last]);
  std::vector<double> result(m * k > 0 ? x.size() / k * n : static_cast<std::size_t>(0), 0.0);
  for (std::size_t row = 0; k > 0 && row < x.size() / k; ++row) {
    const std::size_t batch = row / m;
    for (std::size_t i = 0; i < k; ++i) {
      for (std::size_t column = 0; column < n; ++column) {
        result[row * n + column] += x[row * k + i] * y[(batch * k + i) * n + column];
      }
    }
  }
  return result;
}

/// The largest difference between `out` and the product; an empty one is all zeros.
double worst(const Tensor& out, const std::vector<double>& expected) {
  const std::vector<double> got = raw::cast(out, kFloat64).to_vector<double>();
  double difference = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double want = expected.empty() ? 0 : expected.at(i);
    difference = std::max(difference, std::isnan(got[i]) ? INFINITY : std::abs(got[i] - want));
  }
  return difference;
}
double worst(const Tensor& out, const Tensor& a, const Tensor& b) { return worst(out, product(a, b)); }

}  // namespace

BOOST_AUTO_TEST_CASE(products_of_all_sizes_and_layouts_are_right) {
  Generator generator(test_seed());
  const int64_t sizes[][3] = {{1, 4, 128}, {1, 128, 2},   {5, 7, 3}, {2, 1, 2}, {33, 17, 65},   {64, 64, 64},
                              {4, 300, 9}, {70, 257, 33}, {3, 0, 4}, {0, 3, 4}, {130, 40, 600}, {65, 513, 17}};
  for (const auto& [m, k, n] : sizes) {
    for (const DType dtype : {kFloat32, kFloat64}) {
      const Tensor a = noise({m, k}, dtype, generator), b = noise({k, n}, dtype, generator);
      const std::vector<double> expected = product(a, b);
      const double tolerance = (dtype == kFloat32 ? 2e-6 : 4e-15) * (1 + std::sqrt(static_cast<double>(k)));
      for (const auto& [name_a, x] : testing::in_every_layout(a)) {
        for (const auto& [name_b, y] : testing::in_every_layout(b)) {
          const Tensor out = raw::matmul(x, y);
          BOOST_TEST(out.sizes() == Dims({m, n}));
          BOOST_TEST(worst(out, expected) <= tolerance,
                     m << "x" << k << "x" << n << " " << dtype << ", " << name_a << " by " << name_b);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(products_of_half_types_are_rounded_once_whatever_their_sizes_and_layouts) {
  Generator generator(test_seed());
  const int64_t sizes[][3] = {{1, 4, 128}, {5, 7, 3}, {2, 1, 2}, {33, 17, 65}, {64, 64, 64}, {70, 257, 33}, {3, 0, 4}};
  for (const DType dtype : {kFloat16, kBFloat16}) {
    const double part = dtype == kFloat16 ? 0x1p-11 : 0x1p-8;
    for (const auto& [m, k, n] : sizes) {
      const Tensor a = noise({m, k}, dtype, generator), b = noise({k, n}, dtype, generator);
      const std::vector<double> expected = product(a, b);
      double largest = 0;
      for (const double value : expected) largest = std::max(largest, std::abs(value));
      for (const auto& [name_a, x] : testing::in_every_layout(a)) {
        for (const auto& [name_b, y] : testing::in_every_layout(b)) {
          const Tensor out = raw::matmul(x, y);
          BOOST_TEST((out.dtype() == dtype));
          // The rounding, and the sum in float32.
          BOOST_TEST(worst(out, expected) <= std::exp2(std::ceil(std::log2(largest + 1))) * part + 5e-5,
                     m << "x" << k << "x" << n << " " << dtype << ", " << name_a << " by " << name_b);
        }
      }
    }
    const Tensor a = noise({3, 20, 30}, dtype, generator), b = noise({3, 30, 10}, dtype, generator);
    BOOST_TEST(worst(raw::matmul(a, b), a, b) <= 16 * part + 5e-5, dtype);
  }
}

BOOST_AUTO_TEST_CASE(large_float32_products_take_onednns_path_and_agree_with_ours) {
  const DefaultDeviceGuard here(kCPU);
  Generator generator(test_seed());
  for (const Dims& size : {Dims{40, 50, 60}, Dims{128, 3, 128}, Dims{3, 300, 70}}) {
    const Tensor a = noise({size[0], size[1]}, kFloat32, generator), b = noise({size[1], size[2]}, kFloat32, generator);
    const std::vector<double> expected = product(a, b);
    for (const auto& [name_a, x] : testing::in_every_layout(a)) {
      for (const auto& [name_b, y] : testing::in_every_layout(b)) {
        const uint64_t before = cpu::taken(Path::onednn_product);
        const Tensor out = raw::matmul(x, y);
        const bool taken = cpu::taken(Path::onednn_product) > before;
        const bool packed = name_a != "with gaps" && name_b != "with gaps";  // what BLAS can describe
        BOOST_TEST(taken == (cpu::onednn::available() && packed), name_a << " by " << name_b);
        BOOST_TEST(worst(out, expected) < 5e-5);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(large_products_whose_rows_crowd_the_cache_are_ours_on_any_number_of_threads) {
  if (!cpu::onednn::dislikes_crowded_rows()) return;  // loops_test has our kernels themselves
  const DefaultDeviceGuard here(kCPU);
  Generator generator(test_seed());
  const int budget = num_threads();
  for (const Dims& size : {Dims{200, 301, 512}, Dims{97, 130, 1024}}) {
    const Tensor a = noise({size[0], size[1]}, kFloat32, generator), b = noise({size[1], size[2]}, kFloat32, generator);
    const std::vector<double> expected = product(a, b);
    Tensor first, first_turned;
    for (const int threads : {1, 2, 5}) {
      set_num_threads(threads);
      const uint64_t before = cpu::taken(Path::onednn_product);
      const Tensor out = raw::matmul(a, b), turned = raw::matmul(b.t(), a.t());
      BOOST_TEST(cpu::taken(Path::onednn_product) == before);
      BOOST_TEST(worst(out, expected) < 5e-5);
      if (!first.defined()) first = out, first_turned = turned;
      BOOST_TEST(raw::equal(out, first), threads << " threads");
      BOOST_TEST(raw::equal(turned, first_turned), threads << " threads");
      BOOST_TEST(worst(raw::contiguous(turned.t()), expected) < 5e-5);
      set_deterministic(true);
      BOOST_TEST(raw::equal(raw::matmul(a, b), first), threads << " threads, deterministic");
      set_deterministic(false);
    }
  }
  set_num_threads(budget);
}

BOOST_AUTO_TEST_CASE(bfloat16_products_on_different_numbers_of_threads_are_within_the_bound_that_is_stated) {
  const DefaultDeviceGuard here(kCPU);
  Generator generator(test_seed());
  const int budget = num_threads();
  set_num_threads(3);
  for (const auto& [m, k, n] : std::vector<std::array<int64_t, 3>>{{130, 700, 90}, {40, 3000, 300}}) {
    const Tensor a = noise({m, k}, kBFloat16, generator), b = noise({k, n}, kBFloat16, generator);
    const auto magnitude = [](const Tensor& x) { return raw::unary(Unary::abs, raw::cast(x, kFloat32)); };
    const Tensor bound =
        raw::binary(Binary::mul, raw::matmul(magnitude(a), magnitude(b)), 2 * static_cast<double>(k) * 0x1p-24);
    Tensor one;
    for (const int threads : {1, 2, 3}) {
      const ThreadLimit limit(threads);
      const Tensor out = make::empty({m, n});  // float32: a rounding would hide the sums
      kernels(kCPU)->matmul(raw::view_of(out), raw::view_of(a), raw::view_of(b));
      if (threads == 1) one = out;
      const Tensor apart = raw::unary(Unary::abs, raw::binary(Binary::sub, out, one));
      BOOST_TEST(raw::binary(Binary::sub, apart, bound).max().item<double>() <= 0, threads << " threads");
    }
  }
  set_num_threads(budget);
}

BOOST_AUTO_TEST_CASE(products_on_different_numbers_of_threads_are_within_the_bound_that_is_stated) {
  const DefaultDeviceGuard here(kCPU);
  Generator generator(test_seed());
  const int budget = num_threads();
  set_num_threads(3);
  for (const auto& [m, k, n] : std::vector<std::array<int64_t, 3>>{{130, 700, 90}, {257, 1500, 33}, {40, 3000, 300}}) {
    const Tensor a = noise({m, k}, kFloat32, generator), b = noise({k, n}, kFloat32, generator);
    const Tensor magnitudes = raw::matmul(raw::unary(Unary::abs, a), raw::unary(Unary::abs, b));
    const Tensor bound = raw::binary(Binary::mul, magnitudes, 2 * static_cast<double>(k) * 0x1p-24);
    Tensor one;
    for (const int threads : {1, 2, 3}) {
      const ThreadLimit limit(threads);
      const Tensor out = raw::matmul(a, b);
      if (threads == 1) one = out;
      const Tensor apart = raw::unary(Unary::abs, raw::binary(Binary::sub, out, one));
      BOOST_TEST(raw::binary(Binary::sub, apart, bound).max().item<double>() <= 0, threads << " threads");
    }
  }
  set_num_threads(budget);
}

BOOST_AUTO_TEST_CASE(a_large_product_is_shared_out_among_threads) {
  if (!cpu::onednn::available()) return;
  const DefaultDeviceGuard here(kCPU);
  Generator generator(test_seed());
  const int budget = num_threads();
  set_num_threads(2);
  const Tensor a = noise({256, 64}, kFloat32, generator), b = noise({64, 256}, kFloat32, generator);
  const uint64_t before = cpu::taken(Path::onednn_product);
  (void)raw::matmul(a, b);
  const uint64_t parts = cpu::taken(Path::onednn_product) - before;
  set_num_threads(budget);
  BOOST_TEST(parts == 2U);
}

BOOST_AUTO_TEST_CASE(a_batch_is_shared_out_whole) {
  const DefaultDeviceGuard here(kCPU);
  Generator generator(test_seed());
  const Tensor a = noise({9, 128, 64}, kFloat32, generator), b = noise({9, 64, 128}, kFloat32, generator);
  const int budget = num_threads();
  Tensor first;
  for (const int threads : {1, 2, 3}) {
    set_num_threads(threads);
    const uint64_t before = cpu::taken(Path::onednn_product);
    const Tensor out = make::full({9, 128, 128}, NAN, kFloat32);
    kernels(kCPU)->matmul(raw::view_of(out), raw::view_of(a), raw::view_of(b));
    if (cpu::onednn::available()) BOOST_TEST(cpu::taken(Path::onednn_product) - before == 9U);
    if (!first.defined()) first = out;
    BOOST_TEST(raw::equal(out, first), threads << " threads");
  }
  set_num_threads(budget);
  for (int64_t i = 0; i < 9; ++i) BOOST_TEST(worst(first[i], product(a[i], b[i])) < 5e-5);
}

BOOST_AUTO_TEST_CASE(large_bfloat16_products_are_right_by_the_processors_instructions_and_without) {
  const DefaultDeviceGuard here(kCPU);
  Generator generator(test_seed());
  const auto made = [] { return cpu::taken(Path::onednn_bfloat16); };
  uint64_t before = made();
  (void)raw::matmul(noise({64, 64}, kBFloat16, generator), noise({64, 64}, kBFloat16, generator));
  const bool native = made() > before;  // decided by the processor; whichever way, the values are the same
  for (const Dims& size : {Dims{40, 50, 60}, Dims{128, 3, 128}, Dims{3, 300, 70}, Dims{2, 300, 70}}) {
    const Tensor a = noise({size[0], size[1]}, kBFloat16, generator),
                 b = noise({size[1], size[2]}, kBFloat16, generator);
    const std::vector<double> expected = product(a, b);
    for (const auto& [name_a, x] : testing::in_every_layout(a)) {
      for (const auto& [name_b, y] : testing::in_every_layout(b)) {
        for (const DType dtype : {kFloat32, kBFloat16}) {
          const Tensor out = make::full({size[0], size[2]}, NAN, dtype);
          before = made();
          kernels(kCPU)->matmul(raw::view_of(out), raw::view_of(x), raw::view_of(y));
          const bool packed = name_a != "with gaps" && name_b != "with gaps" && size[0] > 2;
          BOOST_TEST((made() > before) == (native && packed), name_a << " by " << name_b << size);
          // Sums of at most 300 products below 1 in float32; below 32, rounded to 8 bits.
          BOOST_TEST(worst(out, expected) <= (dtype == kFloat32 ? 5e-5 : 0.0626), name_a << " by " << name_b << size);
        }
      }
    }
  }
  const Tensor a = noise({3, 40, 50}, kBFloat16, generator), b = noise({3, 50, 60}, kBFloat16, generator);
  BOOST_TEST(worst(raw::matmul(a, b), a, b) <= 0.0626);
  const Tensor infinite = make::full({40, 50}, INFINITY, kBFloat16);
  BOOST_TEST(std::isnan(raw::matmul(infinite, make::zeros({50, 60}, kBFloat16)).to_vector<float>()[7]));
}

BOOST_AUTO_TEST_CASE(the_result_may_have_any_strides) {
  Generator generator(test_seed());
  for (const Dims& size : {Dims{3, 5, 4}, Dims{40, 60, 50}}) {
    const Tensor a = noise({size[0], size[1]}, kFloat32, generator), b = noise({size[1], size[2]}, kFloat32, generator);
    const Tensor out = raw::transpose(make::full({size[2], size[0]}, NAN), 0, 1);
    kernels(default_device())->matmul(raw::view_of(out), raw::view_of(a), raw::view_of(b));
    BOOST_TEST(worst(out, a, b) < 2e-5);
  }
}

BOOST_AUTO_TEST_CASE(batches_multiply_one_by_one) {
  Generator generator(test_seed());
  const Tensor a = noise({3, 4, 5}, kFloat64, generator), b = noise({3, 5, 2}, kFloat64, generator);
  BOOST_TEST(worst(raw::matmul(a, b), a, b) < 1e-14);
  const Tensor repeated = raw::expand(noise({1, 5, 2}, kFloat64, generator), {3, 5, 2});
  BOOST_TEST(worst(raw::matmul(a, repeated), a, repeated) < 1e-14);
  BOOST_TEST(raw::matmul(make::zeros({0, 2, 3}), make::zeros({0, 3, 2})).sizes() == Dims({0, 2, 2}));
}

BOOST_AUTO_TEST_CASE(a_product_can_be_added_to_what_is_there) {
  const DefaultDeviceGuard here(kCPU);
  Generator generator(test_seed());
  // One for each way that a product is made.
  const int64_t sizes[][3] = {{3, 5, 4}, {1, 90, 40}, {20, 100, 4}, {7, 100, 9}, {40, 300, 50}, {70, 2, 30}, {4, 0, 5}};
  for (const auto& [m, k, n] : sizes) {
    for (const DType dtype : {kFloat32, kFloat64, kInt64}) {
      const auto whole = [&](const Dims& shape) {  // small integers: every dtype adds them up exactly
        const Tensor x = make::empty(shape, kInt64);
        raw::randint_(x, -2, 3, generator);
        return raw::cast(x, dtype);
      };
      const Tensor a = whole({m, k}), b = whole({k, n}), column_major = raw::contiguous(raw::transpose(b, 0, 1));
      const Tensor before = whole({m, n});
      const Tensor expected = raw::binary(Binary::add, before, raw::matmul(a, b));
      for (const bool by_columns : {false, true}) {
        const Tensor out = raw::clone(before);
        cpu::multiply(dtype,
                      {m, n, k, a.raw_data(), k, 1, by_columns ? column_major.raw_data() : b.raw_data(),
                       by_columns ? 1 : n, by_columns ? k : 1, out.raw_data(), n, 1, true},
                      "test");
        BOOST_TEST(raw::equal(out, expected), m << "x" << k << "x" << n << " " << dtype << " " << by_columns);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(integers_and_half_types_multiply) {
  const Tensor a = raw::view(make::arange(0, 6), {2, 3}), b = raw::view(make::arange(0, 12), {3, 4});
  const auto expected = raw::matmul(a, b).to_vector<int64_t>();
  BOOST_TEST((expected == std::vector<int64_t>{20, 23, 26, 29, 56, 68, 80, 92}));
  for (const DType dtype : {kInt32, kUInt8, kFloat16, kBFloat16}) {
    BOOST_TEST((raw::matmul(raw::cast(a, dtype), raw::cast(b, dtype)).to_vector<int64_t>() == expected), dtype);
  }
  BOOST_CHECK_THROW(raw::matmul(make::zeros({2, 2}, kBool), make::zeros({2, 2}, kBool)), DTypeError);
}

BOOST_AUTO_TEST_CASE(operands_that_do_not_fit_are_refused) {
  BOOST_CHECK_EXCEPTION(raw::matmul(make::zeros({2, 3}), make::zeros({4, 2})), ShapeError, [](const Error& e) {
    return std::string(e.what()) == "matmul: shapes [2, 3] and [4, 2] cannot be multiplied";
  });
  BOOST_CHECK_THROW(raw::matmul(make::zeros({3}), make::zeros({3, 2})), ShapeError);
  BOOST_CHECK_THROW(raw::matmul(make::zeros({2, 2, 3}), make::zeros({3, 3, 2})), ShapeError);
  BOOST_CHECK_THROW(raw::matmul(make::zeros({2, 3}), make::zeros({3, 2}, kFloat64)), DTypeError);
}

BOOST_AUTO_TEST_CASE(small_products_start_no_threads) {
  // A thread's first region of OpenMP with several threads makes them, and waits for them each time.
  Tensor c;
  std::map<std::string, std::string> before, after;
  std::thread([&] {
    const Tensor a = raw::ones({256, 32}), b = raw::ones({32, 64});
    before = thread_names();
    c = raw::matmul(a, b);
    after = thread_names();
  }).join();
  for (const auto& [id, name] : after) BOOST_TEST(before.contains(id), "thread " << name << " was started");
  BOOST_TEST(c.to_vector<float>()[5] == 32);
}

BOOST_AUTO_TEST_SUITE_END()
