#include <numeric>

#include "cuda_emulator/sanitizer.h"
#include "emulated.h"

using namespace tendril::test;
using cuda_emulator::launch;

namespace {

constexpr unsigned kAll = 0xffffffffu;

__global__ void sum_of_blocks(const int* x, int* sum) {
  __shared__ int of_warp[32];
  int value = x[blockIdx.x * blockDim.x + threadIdx.x];
  for (unsigned step = 16; step > 0; step /= 2) value += __shfl_down_sync(kAll, value, step);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0) {
    int total = 0;
    for (unsigned i = 0; i < blockDim.x / 32; ++i) total += of_warp[i];
    atomicAdd(sum, total);
  }
}

__global__ void neighbour(int* out, bool wait) {
  __shared__ int values[64];
  values[threadIdx.x] = -1;
  __syncthreads();
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (wait) __syncthreads();
  out[threadIdx.x] = values[(threadIdx.x + 1) % blockDim.x];
}

__global__ void count_visits(int* visits) {
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  atomicAdd(&visits[block * blockDim.x * blockDim.y * blockDim.z + thread], 1);
}

__global__ void note_order(unsigned* order, unsigned* next) { order[(*next)++] = threadIdx.x; }

__global__ void shuffle_all_ways(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  out[lane] = __shfl_sync(kAll, 100 + lane, 5);
  out[32 + lane] = __shfl_sync(kAll, 100 + lane, 9, 8);
  out[64 + lane] = __shfl_up_sync(kAll, 100 + lane, 3);
  out[96 + lane] = __shfl_down_sync(kAll, 100 + lane, 3, 16);
  out[128 + lane] = __shfl_xor_sync(kAll, 100 + lane, 1);
  out[160 + lane] = static_cast<int>(__shfl_sync(kAll, 0.5 + lane, lane ^ 31));
}

/// Halves of a warp that shuffle apart from each other.
__global__ void half_warps(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane < 16) {
    out[lane] = __shfl_sync(0x0000ffffu, lane, 3);
  } else {
    out[lane] = __shfl_sync(0xffff0000u, lane, 20);
  }
}

__global__ void some_leave_early(int* out) {
  if (threadIdx.x >= 40) return;
  __syncthreads();
  out[threadIdx.x] = 1;
}

__global__ void divergent_barrier() {
  if (threadIdx.x < 7) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
__global__ void shuffle_that_some_miss(int* out) {
  if (threadIdx.x < 20) out[threadIdx.x] = __shfl_sync(kAll, 1, 0);
  if (threadIdx.x >= 20) __syncthreads();
}
__global__ void shuffle_from_the_gone(int* out) {
  if (threadIdx.x == 31) return;
  out[threadIdx.x] = __shfl_down_sync(kAll, 1, 1);
}
__global__ void shuffle_beyond_the_block(int* out) { out[threadIdx.x] = __shfl_xor_sync(kAll, 1, 16); }
__global__ void shuffle_outside_the_mask(int* out) { out[threadIdx.x] = __shfl_sync(0xffu, 1, 0); }
__global__ void use_dynamic_shared(unsigned* found, unsigned words) {
  auto* const shared = static_cast<unsigned*>(cuda_emulator::dynamic_shared());
  for (unsigned i = threadIdx.x; i < words; i += blockDim.x) {
    *found &= shared[i];
    shared[i] = blockIdx.x;
  }
}

template <class T>
__device__ T* helpers_shared() {
  __shared__ T values[40];
  return values;
}
/// Counts blocks that find shared memory to be NaN, their own and a helper's; leaves something else behind.
template <class T>
__global__ void look_at_static_shared(int* untouched) {
  __shared__ T own[8];
  T* const of_helper = helpers_shared<T>();
  if (own[3] != own[3]) atomicAdd(&untouched[0], 1);
  if (of_helper[39] != of_helper[39]) atomicAdd(&untouched[1], 1);
  own[3] = of_helper[39] = 7;
}

__global__ void do_nothing() {}

__global__ void atomics(int* i, unsigned long long* l, float* f, double* d, __half* h) {
  atomicAdd(i, 2);
  atomicAdd(l, 1ull << 33);
  atomicAdd(f, 0.5f);
  atomicAdd(d, 0.25);
  atomicAdd(h, __float2half(1.0f));
}

Death die_in(void (*kernel)(int*), unsigned threads) {
  return die([=] {
    Array<int> out(64);
    CUDA_OK(launch(kernel, dim3(1), dim3(threads), 0, nullptr, out.data()));
    cudaDeviceSynchronize();
  });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(kernels)

BOOST_AUTO_TEST_CASE(blocks_sum_by_shuffles_a_barrier_and_an_atomic) {
  std::vector<int> x(4 * 256);
  std::iota(x.begin(), x.end(), 1);
  const Array<int> in(x), sum(std::vector<int>{0});
  CUDA_OK(launch(sum_of_blocks, dim3(4), dim3(256), 0, nullptr, in.data(), sum.data()));
  BOOST_TEST(sum.values()[0] == 1024 * 1025 / 2);
}

BOOST_AUTO_TEST_CASE(a_missing_barrier_is_seen) {
  for (const bool wait : {true, false}) {
    const Array<int> out(64);
    CUDA_OK(launch(neighbour, dim3(1), dim3(64), 0, nullptr, out.data(), wait));
    int right = 0;
    const std::vector<int> got = out.values();
    for (std::size_t i = 0; i < 64; ++i) right += got[i] == static_cast<int>((i + 1) % 64);
    if (wait) {
      BOOST_TEST(right == 64);
    } else {
      BOOST_TEST(right < 60);
    }
  }
}

BOOST_AUTO_TEST_CASE(every_thread_of_every_block_runs_once) {
  const Array<int> visits(std::vector<int>(2 * 3 * 5 * 4 * 3 * 2, 0));
  CUDA_OK(launch(count_visits, dim3(2, 3, 5), dim3(4, 3, 2), 0, nullptr, visits.data()));
  for (const int n : visits.values()) BOOST_TEST(n == 1);
}

BOOST_AUTO_TEST_CASE(threads_run_in_no_order_of_theirs) {
  const Array<unsigned> order(256), next(std::vector<unsigned>{0});
  CUDA_OK(launch(note_order, dim3(1), dim3(256), 0, nullptr, order.data(), next.data()));
  std::vector<unsigned> got = order.values();
  BOOST_TEST(!std::is_sorted(got.begin(), got.end()));
  std::sort(got.begin(), got.end());
  for (unsigned i = 0; i < 256; ++i) BOOST_TEST(got[i] == i);
}

BOOST_AUTO_TEST_CASE(shuffles_read_the_lanes_that_the_manual_says) {
  const Array<int> out(192);
  CUDA_OK(launch(shuffle_all_ways, dim3(1), dim3(32), 0, nullptr, out.data()));
  const std::vector<int> got = out.values();
  for (int lane = 0; lane < 32; ++lane) {
    const auto at = [&](int row) { return got[static_cast<std::size_t>(32 * row + lane)]; };
    BOOST_TEST(at(0) == 105);
    BOOST_TEST(at(1) == 100 + lane / 8 * 8 + 1);
    BOOST_TEST(at(2) == 100 + (lane >= 3 ? lane - 3 : lane));
    BOOST_TEST(at(3) == 100 + (lane % 16 + 3 < 16 ? lane + 3 : lane));
    BOOST_TEST(at(4) == 100 + (lane ^ 1));
    BOOST_TEST(at(5) == 31 - lane);
  }
}

BOOST_AUTO_TEST_CASE(parts_of_a_warp_shuffle_apart) {
  const Array<int> out(32);
  CUDA_OK(launch(half_warps, dim3(1), dim3(32), 0, nullptr, out.data()));
  const std::vector<int> got = out.values();
  for (std::size_t lane = 0; lane < 32; ++lane) BOOST_TEST(got[lane] == (lane < 16 ? 3 : 20));
}

BOOST_AUTO_TEST_CASE(a_barrier_waits_for_live_threads_only) {
  const Array<int> out(std::vector<int>(64, 0));
  CUDA_OK(launch(some_leave_early, dim3(1), dim3(64), 0, nullptr, out.data()));
  const std::vector<int> got = out.values();
  BOOST_TEST(std::accumulate(got.begin(), got.end(), 0) == 40);
}

BOOST_AUTO_TEST_CASE(a_divergent_barrier_ends_the_process_and_names_the_threads) {
  const Death death = die([] {
    CUDA_OK(launch(divergent_barrier, dim3(1), dim3(16), 0, nullptr));
    cudaDeviceSynchronize();
  });
  BOOST_TEST(death.signal == SIGABRT);
  BOOST_TEST(death.said.find("different barriers") != std::string::npos, death.said);
  BOOST_TEST(death.said.find("divergent_barrier(), block (0, 0, 0) of (1, 1, 1), 16 threads") != std::string::npos,
             death.said);
  BOOST_TEST(death.said.find("__syncthreads at ") != std::string::npos, death.said);
}

BOOST_AUTO_TEST_CASE(a_shuffle_that_a_live_lane_never_meets_ends_the_process) {
  const Death death = die_in(shuffle_that_some_miss, 32);
  BOOST_TEST(death.signal == SIGABRT);
  BOOST_TEST(death.said.find("threads wait for others that never come") != std::string::npos, death.said);
  BOOST_TEST(death.said.find("threads (0, 0, 0) to (19, 0, 0): each waits in __shfl_sync") != std::string::npos,
             death.said);
  BOOST_TEST(death.said.find("threads (20, 0, 0) to (31, 0, 0): each waits in __syncthreads") != std::string::npos,
             death.said);
}

BOOST_AUTO_TEST_CASE(a_shuffle_from_a_lane_that_is_not_there_ends_the_process) {
  const Death gone = die_in(shuffle_from_the_gone, 32);
  BOOST_TEST(gone.signal == SIGABRT);
  BOOST_TEST(gone.said.find("thread (30, 0, 0) reads lane 31 in __shfl_down_sync") != std::string::npos, gone.said);
  BOOST_TEST(die_in(shuffle_beyond_the_block, 16).signal == SIGABRT);
  const Death outside = die_in(shuffle_outside_the_mask, 32);
  BOOST_TEST(outside.signal == SIGABRT);
  BOOST_TEST(outside.said.find("is not in the mask of its own __shfl_sync") != std::string::npos, outside.said);
}

BOOST_AUTO_TEST_CASE(dynamic_shared_memory_starts_as_nan_in_every_block) {
  const Array<unsigned> found(std::vector<unsigned>{0xffffffffu});
  CUDA_OK(launch(use_dynamic_shared, dim3(3), dim3(32), 4096, nullptr, found.data(), 1024u));
  BOOST_TEST(found.values()[0] == 0xffffffffu);
}

// Not with AddressSanitizer, whose red zones are part of what the symbols name (shared_memory.cpp).
const boost::unit_test::precondition without_red_zones([](boost::unit_test::test_unit_id) {
  return boost::test_tools::assertion_result(!cuda_emulator::kAddressSanitizer);
});

BOOST_AUTO_TEST_CASE(static_shared_memory_starts_as_nan_in_every_block, *without_red_zones) {
  const Array<int> untouched(std::vector<int>{0, 0});
  CUDA_OK(launch(look_at_static_shared<float>, dim3(10), dim3(1), 0, nullptr, untouched.data()));
  CUDA_OK(launch(look_at_static_shared<double>, dim3(10), dim3(1), 0, nullptr, untouched.data()));
  CUDA_OK(launch(look_at_static_shared<float>, dim3(10), dim3(1), 0, nullptr, untouched.data()));
  BOOST_TEST(untouched.values()[0] == 30);
  BOOST_TEST(untouched.values()[1] >= 28);  // the emulator has to see a helper's array in use before it knows it
}

BOOST_AUTO_TEST_CASE(a_launch_that_a_device_refuses_is_refused) {
  const auto with = [](dim3 grid, dim3 block, unsigned shared = 0) {
    return launch(do_nothing, grid, block, shared, nullptr);
  };
  BOOST_TEST(with(dim3(1), dim3(1025)) == cudaErrorInvalidConfiguration);
  BOOST_TEST(with(dim3(1), dim3(64, 32)) == cudaErrorInvalidConfiguration);
  BOOST_TEST(with(dim3(1), dim3(1, 1, 65)) == cudaErrorInvalidConfiguration);
  BOOST_TEST(with(dim3(1), dim3(0)) == cudaErrorInvalidConfiguration);
  BOOST_TEST(with(dim3(0), dim3(1)) == cudaErrorInvalidConfiguration);
  BOOST_TEST(with(dim3(1, 65536), dim3(1)) == cudaErrorInvalidConfiguration);
  BOOST_TEST(with(dim3(1, 1, 65536), dim3(1)) == cudaErrorInvalidConfiguration);
  BOOST_TEST(with(dim3(1), dim3(1), 48 * 1024 + 1) == cudaErrorInvalidValue);
  BOOST_TEST(with(dim3(1), dim3(1), 48 * 1024) == cudaSuccess);
  CUDA_OK(cudaFuncSetAttribute(reinterpret_cast<const void*>(do_nothing), cudaFuncAttributeMaxDynamicSharedMemorySize,
                               100 * 1024));
  BOOST_TEST(with(dim3(1), dim3(1), 100 * 1024) == cudaSuccess);
  CUDA_OK(cudaFuncSetAttribute(reinterpret_cast<const void*>(do_nothing), cudaFuncAttributeMaxDynamicSharedMemorySize,
                               48 * 1024));
  cudaGetLastError();
  CUDA_OK(cudaDeviceSynchronize());
}

BOOST_AUTO_TEST_CASE(atomics_of_all_threads_add_up) {
  const Array<int> i(std::vector<int>{0});
  const Array<unsigned long long> l(std::vector<unsigned long long>{0});
  const Array<float> f(std::vector<float>{0});
  const Array<double> d(std::vector<double>{0});
  const Array<__half> h(std::vector<__half>{__float2half(0)});
  CUDA_OK(launch(atomics, dim3(2), dim3(64), 0, nullptr, i.data(), l.data(), f.data(), d.data(), h.data()));
  BOOST_TEST(i.values()[0] == 256);
  BOOST_TEST(l.values()[0] == 128ull << 33);
  BOOST_TEST(f.values()[0] == 64.0f);
  BOOST_TEST(d.values()[0] == 32.0);
  BOOST_TEST(__half2float(h.values()[0]) == 128.0f);
}

BOOST_AUTO_TEST_SUITE_END()
