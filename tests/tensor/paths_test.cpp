// That kernels take their fast paths, by counters; what users call is in tests/nn/paths_test.cpp.
#include "tendril/tensor/cpu/paths.h"

#include <boost/test/unit_test.hpp>
#include <utility>

#include "tendril/tensor/kernels.h"
#include "tendril/tensor/raw.h"
#include "tendril/tensor/threads.h"
#include "tests/paths.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(paths)

using namespace tendril;
using cpu::Path, cpu::taken;
using tendril::testing::test_seed;

namespace {

using raw::view_of;

const Kernels& table = *kernels(kCPU);

Tensor noise(const Dims& sizes, DType dtype = kFloat32) {
  Generator generator(test_seed());
  Tensor x = raw::empty(sizes, dtype);
  raw::uniform_(x, -1, 1, generator);
  return x;
}
/// [2, 16, side / 4, side / 4] in channels-last order.
Tensor pixels(int64_t side) { return raw::contiguous(noise({2, 16, side / 4, side / 4}), MemoryFormat::channels_last); }
Tensor indices(int64_t count) { return raw::arange(0, count); }

void batch_norm_of_pixels(int64_t side) {
  const int64_t s = side * side / 16;
  const Tensor x = raw::view(raw::transpose(noise({2, s, 16}), 1, 2), {2, 16, s}), out = raw::empty_in_format_of(x),
               mean = raw::empty({16}), var = raw::empty({16});
  table.batch_norm(view_of(out), view_of(mean), view_of(var), view_of(x), nullptr, nullptr, 1e-5, true, {});
  const View dx = view_of(out);
  table.batch_norm_backward(&dx, nullptr, nullptr, view_of(x), view_of(x), view_of(mean), view_of(var), nullptr, 1e-5,
                            true);
}

void pooling_of_pixels(int64_t side) {
  const Tensor x = pixels(side), like = raw::contiguous(noise({2, 16, side / 8, side / 8})),
               out = raw::contiguous(like, MemoryFormat::channels_last),
               places = raw::contiguous(raw::cast(like, kInt64), MemoryFormat::channels_last);
  const PoolGeometry halves{.kernel = 2, .stride = 2};
  table.max_pool2d(view_of(out), view_of(places), view_of(x), halves);
  table.max_pool2d_backward(view_of(x), view_of(out), view_of(places), halves);
}

/// As many multiplications as our own loops make faster than oneDNN begins.
void small_convolution(int64_t side) {
  const int64_t pixels = side / 16;
  const Tensor x = noise({1, 4, pixels, pixels}), weight = noise({4, 4, 3, 3}), out = raw::empty_like(x);
  table.conv2d(view_of(out), view_of(x), view_of(weight), {.padding = 1});
  table.conv2d_data(view_of(x), view_of(out), view_of(weight), {.padding = 1}, nullptr);
  table.conv2d_filter(view_of(weight), view_of(x), view_of(out), {.padding = 1});
}

/// `number` parameters after a step, and how often it was shared out among threads.
struct Stepped {
  explicit Stepped(int64_t number) : shared(taken(Path::shared)) {
    std::vector<StepBlock> blocks;
    for (int64_t i = 0; i < number; ++i) {
      for (const double start : {0.5, 0.25, 0.0, 0.0}) {
        arrays.push_back(noise({20'000 - i}));
        if (start == 0) raw::fill_(arrays.back(), 0);
      }
      const auto data = [&](int64_t k) { return arrays[static_cast<std::size_t>(4 * i + k)].raw_data(); };
      blocks.push_back({{data(0), data(1), data(2), data(3)}, 20'000 - i});
    }
    table.optimizer_step(blocks, kFloat32,
                         AdamStep{.step_size = 0.1,
                                  .v_scale = 1,
                                  .beta1 = 0.9,
                                  .one_minus_beta1 = 0.1,
                                  .beta2 = 0.99,
                                  .one_minus_beta2 = 0.01,
                                  .eps = 1e-8});
    shared = taken(Path::shared) - shared;
  }
  std::vector<Tensor> arrays;
  uint64_t shared;
};

}  // namespace

BOOST_AUTO_TEST_CASE(large_operations_take_their_fast_paths_and_small_ones_count_nothing) {
  const ThreadLimit alone(1);  // pieces of one operation are counted once
  testing::check_paths({
      {"matmul of float64", Path::own_product, 1,
       [](int64_t n) {
         (void)raw::matmul(noise({n, n}, kFloat64), noise({n, n}, kFloat64));
       }},
      {"a transposed copy", Path::tiles, 1,
       [](int64_t n) {
         (void)raw::contiguous(raw::transpose(noise({n, n}), 0, 1));
       }},
      {"a sum with a transposed operand", Path::tiles, 1,
       [](int64_t n) {
         (void)raw::binary(Binary::add, noise({n, n}), raw::transpose(noise({n, n}), 0, 1));
       }},
      {"batch_norm in channels-last order", Path::pixels, 2, batch_norm_of_pixels},
      {"max_pool2d in channels-last order", Path::pixels, 2, pooling_of_pixels},
      {"a convolution of few multiplications", Path::few_multiplications, 3, small_convolution},
      {"tanh of float16", Path::half_pieces, 1,
       [](int64_t n) {
         (void)raw::unary(Unary::tanh, noise({n, n}, kFloat16));
       }},
      {"a product of float16", Path::half_pieces, 1,
       [](int64_t n) {
         (void)raw::binary(Binary::mul, noise({n, n}, kFloat16), noise({n, n}, kFloat16));
       }},
      {"a step of an LSTM", Path::lstm_cell, 1,
       [](int64_t n) {
         const Tensor gates = noise({n, 4 * n}), cells = noise({n, n});
         const View c = view_of(cells);
         table.lstm_cell(view_of(gates), view_of(gates), c, c, c, c);
       }},
      {"index_select", Path::index_rows, 1,
       [](int64_t n) {
         (void)noise({n, n}).index_select(0, indices(n));
       }},
      {"index_add", Path::index_rows, 1,
       [](int64_t n) {
         const Tensor x = noise({n, n});
         table.index_add(view_of(x), 0, view_of(indices(n)), view_of(noise({n, n})), IndexUse::index_add);
       }},
      {"scatter_add of a long line", Path::row_copies, 1,
       [](int64_t n) {
         const Tensor x = noise({1}), index = raw::zeros({2 * n * n}, kInt64);
         table.scatter_add(view_of(x), 0, view_of(index), view_of(noise({2 * n * n})), IndexUse::scatter_add);
       }},
  });
}

BOOST_AUTO_TEST_CASE(a_transposed_copy_of_eight_mebibytes_is_written_past_the_caches) {
  const ThreadLimit alone(1);
  const auto copied = [](int64_t lines) {
    const uint64_t tiles = taken(Path::tiles), streamed = taken(Path::streamed_tiles);
    (void)raw::contiguous(raw::transpose(noise({lines, 1024}), 0, 1));
    return std::pair(taken(Path::tiles) - tiles, taken(Path::streamed_tiles) - streamed);
  };
  BOOST_TEST((copied(2047) == std::pair<uint64_t, uint64_t>(1, 0)));
  BOOST_TEST((copied(2048) == std::pair<uint64_t, uint64_t>(0, 1)));
}

BOOST_AUTO_TEST_CASE(sums_by_index_are_shared_out_by_rows_or_where_these_are_few_by_columns) {
  const int budget = thread_budget();
  set_num_threads(2);
  const auto added = [](int64_t number, int64_t rows, int64_t width) {
    const Tensor x = noise({rows, width}), index = raw::zeros({number}, kInt64);
    const uint64_t by_rows = taken(Path::own_rows), by_columns = taken(Path::own_columns);
    table.index_add(view_of(x), 0, view_of(index), view_of(noise({number, width})), IndexUse::index_add);
    return std::pair(taken(Path::own_rows) - by_rows, taken(Path::own_columns) - by_columns);
  };
  BOOST_TEST((added(4096, 4096, 16) == std::pair<uint64_t, uint64_t>(1, 0)));
  BOOST_TEST((added(4096, 1, 256) == std::pair<uint64_t, uint64_t>(0, 1)));
  const ThreadLimit alone(1);
  BOOST_TEST((added(4096, 4096, 16) == std::pair<uint64_t, uint64_t>(0, 0)));
  set_num_threads(budget);
}

BOOST_AUTO_TEST_CASE(a_sum_of_two_by_two_counts_nothing) {
  const Tensor a = noise({2, 2}), b = noise({2, 2});
  const auto before = testing::paths_taken();
  for (int i = 0; i < 1000; ++i) (void)raw::binary(Binary::add, a, b);
  BOOST_TEST((testing::paths_taken() == before));
}

BOOST_AUTO_TEST_CASE(a_large_operation_is_shared_out_among_threads_and_counted_once) {
  const int budget = thread_budget();
  set_num_threads(2);
  const Tensor x = noise({1 << 20});
  const uint64_t before = taken(Path::shared);
  (void)raw::unary(Unary::neg, x);
  BOOST_TEST(taken(Path::shared) - before == 1U);
  const ThreadLimit alone(1);
  (void)raw::unary(Unary::neg, x);
  BOOST_TEST(taken(Path::shared) - before == 1U);
  set_num_threads(budget);
}

BOOST_AUTO_TEST_CASE(an_optimizers_step_over_many_middling_parameters_is_shared_out_and_changes_no_bit) {
  const int budget = thread_budget();
  std::vector<Tensor> expected;
  for (const int threads : {1, 2, 3, 7}) {
    set_num_threads(threads);
    const uint64_t before = taken(Path::optimizer_step);
    const Stepped many(11), one(1);
    BOOST_TEST(many.shared == (threads > 1 ? 1U : 0U), threads << " threads");
    BOOST_TEST(one.shared == 0U);
    BOOST_TEST(taken(Path::optimizer_step) - before == 1U);
    if (expected.empty()) expected = many.arrays;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      BOOST_TEST(raw::equal(many.arrays[i], expected[i]), threads << " threads, array " << i);
    }
    for (std::size_t k = 0; k < 4; ++k) BOOST_TEST(raw::equal(one.arrays[k], expected[k]));
  }
  set_num_threads(budget);
}

BOOST_AUTO_TEST_SUITE_END()
