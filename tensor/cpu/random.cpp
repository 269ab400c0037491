#include <algorithm>

#include "tendril/tensor/cpu/convert.h"
#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/parallel.h"
#include "tendril/tensor/cpu/words.h"
#include "tendril/tensor/detail/dispatch.h"
#include "tendril/tensor/detail/draw.h"

namespace tendril::cpu {
namespace {

/// Calls `draw(block)` for every block needed and stores the numbers that it returns.
template <class T, class Draw>
void fill_by_block(const View& out, uint64_t seed, uint64_t offset, const Draw& draw) {
  constexpr int64_t per_block = std::tuple_size_v<decltype(draw(philox::Block{}))>;
  constexpr int64_t kGrain = 4096;  // blocks that one needs tens of microseconds for
  T* data = out.as<T>();
  parallel_for((out.numel + per_block - 1) / per_block, kGrain, [&](int64_t begin, int64_t end) {
    for_random_words(seed, offset, begin, end, [&](int64_t block, const uint32_t* words, int64_t blocks) {
      for (; blocks > 0; ++block, --blocks, words += 4) {
        const auto numbers = draw(philox::Block{words[0], words[1], words[2], words[3]});
        const int64_t i = block * per_block, count = std::min<int64_t>(per_block, out.numel - i);
        for (int64_t k = 0; k < count; ++k) data[i + k] = convert<T>(numbers[static_cast<std::size_t>(k)]);
      }
    });
  });
}

template <class F>
void visit_floating(DType dtype, const char* op, F&& f) {
  TENDRIL_CHECK_AS(DTypeError, is_floating(dtype), op, ": needs a floating dtype, got ", dtype);
  detail::visit(dtype, [&](auto tag) {
    if constexpr (std::is_floating_point_v<Compute<typename decltype(tag)::type>>) f(tag);
  });
}

}  // namespace

void uniform(const View& out, double low, double high, uint64_t seed, uint64_t offset) {
  visit_floating(out.dtype, "uniform", [&](auto tag) {
    using T = typename decltype(tag)::type;
    fill_by_block<T>(out, seed, offset, detail::DrawUniform<Compute<T>>(low, high));
  });
}

void normal(const View& out, double mean, double stddev, uint64_t seed, uint64_t offset) {
  visit_floating(out.dtype, "normal", [&](auto tag) {
    using T = typename decltype(tag)::type;
    fill_by_block<T>(out, seed, offset, detail::DrawNormal<Compute<T>>(mean, stddev));
  });
}

void bernoulli(const View& out, double p, uint64_t seed, uint64_t offset) {
  detail::visit(out.dtype, [&](auto tag) {
    fill_by_block<typename decltype(tag)::type>(out, seed, offset, detail::DrawBernoulli(p));
  });
}

void randint(const View& out, int64_t low, int64_t high, uint64_t seed, uint64_t offset) {
  TENDRIL_CHECK_AS(DTypeError, out.dtype != kBool, "randint: not for bool");
  detail::visit(out.dtype, [&](auto tag) {
    fill_by_block<typename decltype(tag)::type>(out, seed, offset, detail::DrawInteger(low, high));
  });
}

}  // namespace tendril::cpu
