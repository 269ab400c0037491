#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernels/kernel.cuh"
#include "tendril/tensor/cuda/kernels/map.cuh"
#include "tendril/tensor/cuda/runtime/capture.h"
#include "tendril/tensor/detail/draw.h"

/// The CPU's numbers (detail/draw.h): a thread a Philox block, at a place that depends on nothing else. This file is
/// compiled without contraction of products and sums, so that uniform numbers are the same to the last bit.
namespace tendril::cuda {
namespace {

constexpr int kThreads = 256;

template <class T, class Draw>
__global__ void __launch_bounds__(kThreads)
    draw_kernel(T* out, int64_t numel, bool aligned, uint64_t seed, uint64_t offset, Draw draw) {
  constexpr int per_block = std::tuple_size_v<decltype(draw(philox::Block{}))>;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i * per_block < numel; i += step) {
    const auto numbers = draw(philox::block(seed, offset + static_cast<uint64_t>(i)));
    Pack<T, per_block> pack;
    for (int k = 0; k < per_block; ++k) pack.at[k] = convert<T>(numbers[static_cast<std::size_t>(k)]);
    T* const to = out + i * per_block;
    const int64_t rest = numel - i * per_block;
    if (aligned && rest >= per_block) {
      *reinterpret_cast<Pack<T, per_block>*>(to) = pack;
    } else {
      for (int k = 0; k < per_block; ++k) {
        if (k < rest) to[k] = pack.at[k];
      }
    }
  }
}

template <class T, class Draw>
void fill_by_block(const char* op, const View& out, uint64_t seed, uint64_t offset, const Draw& draw) {
  if (out.numel == 0) return;
  refuse_unless_renewed(op, "each replay would draw the same numbers");
  constexpr int per_block = std::tuple_size_v<decltype(draw(philox::Block{}))>;
  const bool aligned = reinterpret_cast<uintptr_t>(out.data) % alignof(Pack<T, per_block>) == 0;
  const int64_t blocks = (out.numel - 1) / per_block + 1;
  launch(op, draw_kernel<T, Draw>, grid_for(blocks, kThreads), out.as<T>(), out.numel, aligned, seed, offset, draw);
}

}  // namespace

void uniform(const View& out, double low, double high, uint64_t seed, uint64_t offset) {
  visit_floating("uniform", out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    fill_by_block<T>("uniform", out, seed, offset, tendril::detail::DrawUniform<Compute<T>>(low, high));
  });
}

void normal(const View& out, double mean, double stddev, uint64_t seed, uint64_t offset) {
  visit_floating("normal", out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    fill_by_block<T>("normal", out, seed, offset, tendril::detail::DrawNormal<Compute<T>>(mean, stddev));
  });
}

void bernoulli(const View& out, double p, uint64_t seed, uint64_t offset) {
  visit(out.dtype, [&](auto tag) {
    fill_by_block<typename decltype(tag)::type>("bernoulli", out, seed, offset, tendril::detail::DrawBernoulli(p));
  });
}

void randint(const View& out, int64_t low, int64_t high, uint64_t seed, uint64_t offset) {
  visit_numbers("randint", out.dtype, [&](auto tag) {
    fill_by_block<typename decltype(tag)::type>("randint", out, seed, offset, tendril::detail::DrawInteger(low, high));
  });
}

}  // namespace tendril::cuda
