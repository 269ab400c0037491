// Products on a device, against the CPU's.
#include <boost/test/unit_test.hpp>
#include <thread>

#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/kernels.h"
#include "tests/cuda/compare.h"
#include "tests/errors.h"
#include "tests/seed.h"
#include "tests/tensor/layouts.h"

using namespace tendril;
using namespace tendril::testing;

namespace {

double tolerance(DType dtype, int64_t k) {
  const double sums = 1 + std::sqrt(static_cast<double>(k));
  switch (dtype) {
    case kFloat32:
      return 1e-6 * sums;
    case kFloat64:
      return 1e-14 * sums;
    case kFloat16:
      return 2e-3 * sums;
    case kBFloat16:
      return 2e-2 * sums;
    default:
      return 0;
  }
}

void multiply(const Tensor& out, const std::vector<Tensor>& operands) {
  kernels(out.device())->matmul(raw::view_of(out), raw::view_of(operands[0]), raw::view_of(operands[1]));
}

/// A row-major product of two matrices or batches of them, on both.
void compare_products(const Tensor& a, const Tensor& b) {
  Dims sizes = a.sizes();
  sizes[a.dim() - 1] = b.sizes()[b.dim() - 1];
  const double atol = tolerance(a.dtype(), a.sizes()[a.dim() - 1]);
  compare_into(multiply, unwritten(sizes, a.dtype()), {a, b}, 0, atol);
}

constexpr DType kDTypes[] = {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kUInt8};

}  // namespace

BOOST_AUTO_TEST_SUITE(matmul)

BOOST_AUTO_TEST_CASE(matrices_of_all_sizes_and_dtypes_are_multiplied) {
  Generator generator(test_seed());
  const int64_t sizes[][3] = {{1, 1, 1}, {1, 4, 3}, {5, 7, 3}, {2, 1, 2}, {33, 17, 19}, {16, 16, 16}, {3, 40, 1}};
  for (const DType dtype : kDTypes) {
    for (const auto& [m, k, n] : sizes) {
      compare_products(noise({m, k}, dtype, generator), noise({k, n}, dtype, generator));
      compare_products(raw::transpose(noise({k, m}, dtype, generator), 0, 1),
                       raw::transpose(noise({n, k}, dtype, generator), 0, 1));
    }
  }
}

BOOST_AUTO_TEST_CASE(sums_of_nothing_are_zero_and_nothing_is_nothing) {
  Generator generator(test_seed());
  for (const DType dtype : {kFloat32, kBFloat16, kInt32}) {
    compare_products(noise({3, 0}, dtype, generator), noise({0, 4}, dtype, generator));
    compare_products(noise({2, 3, 0}, dtype, generator), noise({2, 0, 4}, dtype, generator));
    compare_products(noise({0, 3}, dtype, generator), noise({3, 4}, dtype, generator));
    compare_products(noise({3, 4}, dtype, generator), noise({4, 0}, dtype, generator));
    compare_products(noise({0, 3, 4}, dtype, generator), noise({0, 4, 2}, dtype, generator));
  }
}

BOOST_AUTO_TEST_CASE(operands_and_results_may_lie_anyhow) {
  Generator generator(test_seed());
  for (const DType dtype : {kFloat32, kFloat16, kInt64}) {
    const double atol = tolerance(dtype, 6);
    for (const auto& [name_a, a] : in_every_layout(noise({5, 6}, dtype, generator))) {
      for (const auto& [name_b, b] : in_every_layout(noise({6, 7}, dtype, generator))) {
        for (const auto& [name_out, out] : in_every_layout(unwritten({5, 7}, dtype))) {
          BOOST_TEST_CONTEXT(name_a << " by " << name_b << " to " << name_out)
          compare_into(multiply, out, {a, b}, 0, atol);
        }
      }
    }
    for (const auto& [name_a, a] : in_every_layout(noise({3, 5, 6}, dtype, generator))) {
      for (const auto& [name_out, out] : in_every_layout(unwritten({3, 5, 7}, dtype))) {
        BOOST_TEST_CONTEXT(name_a << " to " << name_out)
        compare_into(multiply, out, {a, noise({3, 6, 7}, dtype, generator)}, 0, atol);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(broadcast_operands_are_read_in_place_or_packed_once) {
  Generator generator(test_seed());
  for (const DType dtype : {kFloat64, kInt32}) {
    const Tensor a = noise({3, 5, 6}, dtype, generator), b = noise({3, 6, 7}, dtype, generator);
    const Tensor one_a = raw::expand(noise({5, 6}, dtype, generator), {3, 5, 6}),
                 one_b = raw::expand(noise({6, 7}, dtype, generator), {3, 6, 7});
    compare_products(a, one_b);
    compare_products(one_a, b);
    compare_products(one_a, one_b);
    compare_products(raw::transpose(noise({3, 6, 5}, dtype, generator), 1, 2), one_b);
    compare_products(a, raw::expand(noise({7}, dtype, generator), {3, 6, 7}));
    compare_products(raw::expand(noise({3, 5, 1}, dtype, generator), {3, 5, 6}), b);
    const Tensor gaps = noise({12, 14}, dtype, generator).slice(1, 0, 14, 2);
    compare_products(a, raw::expand(gaps.slice(0, 0, 12, 2), {3, 6, 7}));
  }
}

BOOST_AUTO_TEST_CASE(a_batch_of_many_small_products_is_right) {
  Generator generator(test_seed());
  compare_products(noise({300, 2, 3}, kFloat32, generator), noise({300, 3, 2}, kFloat32, generator));
  compare_products(noise({300, 2, 3}, kInt64, generator), noise({300, 3, 2}, kInt64, generator));
}

BOOST_AUTO_TEST_CASE(integers_wrap_around_as_on_the_cpu) {
  const Tensor large = raw::full({2, 2}, int64_t(1) << 62, kInt64), bytes = raw::full({3, 3}, 200, kUInt8);
  compare_products(large, raw::full({2, 2}, 3, kInt64));
  compare_products(bytes, bytes);
}

BOOST_AUTO_TEST_CASE(not_a_number_and_infinity_get_through) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const DType dtype : {kFloat32, kFloat16}) {
    const Tensor a = raw::cast(raw::from_data(std::vector<double>{1, std::nan(""), inf, 2, 3, 4}, {2, 3}), dtype);
    compare_products(a, raw::full({3, 2}, 1, dtype));
    compare_products(a, raw::full({3, 2}, 0, dtype));
  }
}

BOOST_AUTO_TEST_CASE(tf32_is_used_only_when_allowed) {
  // 1 + 2^-13 has no TF32 form.
  const Tensor a = raw::full({4, 8}, 1 + 1.0 / 8192, kFloat32), b = raw::full({8, 4}, 1, kFloat32);
  const auto product = [&] {
    const Tensor out = twin(unwritten({4, 4}, kFloat32));
    multiply(out, {twin(a), twin(b)});
    return raw::to(out, kCPU).to_vector<float>().front();
  };
  BOOST_TEST(product() == 8 + 8.0F / 8192);
  cuda::set_matmul_tf32(true);
  BOOST_TEST(std::abs(product() - 8) <= 8 * 2e-3F);
  if (cuda::device_name() == "emulated") BOOST_TEST(product() == 8);
  cuda::set_matmul_tf32(false);
  BOOST_TEST(product() == 8 + 8.0F / 8192);
}

BOOST_AUTO_TEST_CASE(truth_values_have_no_product) {
  const Tensor a = twin(raw::full({2, 2}, true, kBool));
  BOOST_CHECK_EXCEPTION(multiply(a, {a, a}), DTypeError, says("matmul", "no cuda kernel", "bool"));
}

BOOST_AUTO_TEST_CASE(threads_of_one_stream_share_its_scratch_memory) {
  Generator generator(test_seed());
  const Tensor b = twin(noise({300, 10}, kFloat32, generator));
  struct Product {
    Tensor a, want, got;
  };
  std::vector<Product> products(4);
  for (Product& one : products) {
    one.a = twin(noise({20, 300}, kFloat32, generator));
    one.want = raw::to(raw::matmul(one.a, b), kCPU);
  }
  const int64_t live = cuda::memory_stats().live_bytes;
  std::vector<std::thread> threads;
  for (Product& one : products) {
    // A part of another's product would be in one of many, were their kernels between each other's.
    threads.emplace_back([&] {
      std::vector<Tensor> all;
      for (int i = 0; i < 50; ++i) all.push_back(raw::matmul(one.a, b));
      for (const Tensor& got : all) {
        one.got = raw::to(got, kCPU);
        if (!raw::equal(one.got, one.want)) return;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Product& one : products) check_close(one.got, one.want, 0, 0);
  BOOST_TEST(cuda::memory_stats().live_bytes == live);
}

BOOST_AUTO_TEST_CASE(streams_and_devices_have_scratch_memory_of_their_own) {
  Generator generator(test_seed());
  const Tensor a = noise({20, 30}, kFloat32, generator), b = noise({30, 10}, kFloat32, generator);
  const Tensor want = raw::matmul(a, b);
  const int devices = device_count(DeviceType::cuda);
  std::vector<std::thread> threads;
  std::vector<Tensor> results(6);
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      const Device device{DeviceType::cuda, static_cast<int8_t>(t % devices)};
      const cuda::Stream stream(device.index);
      const cuda::StreamGuard guard(stream);
      const Tensor x = twin(a, device), y = twin(b, device);
      Tensor out;
      for (int i = 0; i < 5; ++i) out = raw::matmul(x, y);
      results[static_cast<std::size_t>(t)] = raw::to(out, kCPU);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Tensor& result : results) check_close(result, want, 0, tolerance(kFloat32, 30));
}

BOOST_AUTO_TEST_SUITE_END()
