#include "tendril/tensor/cuda/cublas/gemm_layout.h"

#include <algorithm>

#include <boost/test/unit_test.hpp>
#include <climits>
#include <vector>

BOOST_AUTO_TEST_SUITE(gemm_layout)

using namespace tendril;
using cuda::GemmLayout;
using cuda::GemmOperand;

namespace {

/// A view with sizes and strides of its own, over memory of its own.
struct Block {
  std::vector<int64_t> sizes, strides;
  mutable std::vector<double> memory;

  Block(std::vector<int64_t> sizes_, std::vector<int64_t> strides_)
      : sizes(std::move(sizes_)), strides(std::move(strides_)) {
    int64_t last = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * strides[d];
    memory.resize(static_cast<std::size_t>(last + 1));
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<double>(i * 7 % 11) - 5;
  }
  double* data() const { return memory.data(); }
  View view() const {
    int64_t numel = 1;
    for (const int64_t size : sizes) numel *= size;
    return {data(), sizes.data(), strides.data(), numel, static_cast<int>(sizes.size()), kFloat64, false};
  }
  double& at(int64_t batch, int64_t row, int64_t column) const {
    const std::size_t r = sizes.size() - 2;
    return data()[(r == 1 ? batch * strides[0] : 0) + row * strides[r] + column * strides[r + 1]];
  }
};

/// The memory that the layout describes: the view's own, or a packed copy as the layout promises it.
struct Given {
  std::vector<double> copy;
  double* data;

  Given(const Block& x, const GemmOperand& operand) : data(x.data()) {
    if (!operand.copied) return;
    const std::size_t r = x.sizes.size() - 2;
    const int64_t batch = r == 1 && operand.batch_stride != 0 ? x.sizes[0] : 1;
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t i = 0; i < x.sizes[r]; ++i) {
        for (int64_t j = 0; j < x.sizes[r + 1]; ++j) copy.push_back(x.at(n, i, j));
      }
    }
    data = copy.data();
  }
};

/// What BLAS does with the layout, checking what it demands.
void blas(const GemmLayout& g, const double* first, const double* second, double* out) {
  BOOST_REQUIRE(g.first.ld >= std::max<int64_t>(1, g.first.transposed ? g.k : g.m));
  BOOST_REQUIRE(g.second.ld >= std::max<int64_t>(1, g.second.transposed ? g.n : g.k));
  BOOST_REQUIRE(g.out.ld >= std::max<int64_t>(1, g.m));
  BOOST_REQUIRE(!g.out.transposed);
  const auto at = [](const GemmOperand& x, int64_t batch, int64_t i, int64_t j) {
    return batch * x.batch_stride + (x.transposed ? j + i * x.ld : i + j * x.ld);
  };
  for (int64_t batch = 0; batch < g.batch; ++batch) {
    for (int64_t i = 0; i < g.m; ++i) {
      for (int64_t j = 0; j < g.n; ++j) {
        double sum = 0;
        for (int64_t p = 0; p < g.k; ++p) sum += first[at(g.first, batch, i, p)] * second[at(g.second, batch, p, j)];
        out[at(g.out, batch, i, j)] = sum;
      }
    }
  }
}

GemmLayout check(const Block& out, const Block& a, const Block& b) {
  const GemmLayout g = cuda::gemm_layout(out.view(), a.view(), b.view());
  Given x(a, g.swapped ? g.second : g.first), y(b, g.swapped ? g.first : g.second), z(out, g.out);
  blas(g, g.swapped ? y.data : x.data, g.swapped ? x.data : y.data, z.data);
  const std::size_t r = out.sizes.size() - 2;
  const double* packed = z.copy.data();
  for (int64_t n = 0; n < (r == 1 ? out.sizes[0] : 1); ++n) {
    for (int64_t i = 0; i < out.sizes[r]; ++i) {
      for (int64_t j = 0; j < out.sizes[r + 1]; ++j) {
        double sum = 0;
        for (int64_t p = 0; p < a.sizes[r + 1]; ++p) sum += a.at(n, i, p) * b.at(n, p, j);
        const double got = g.out.copied ? *packed++ : out.at(n, i, j);
        BOOST_REQUIRE_EQUAL(got, sum);
      }
    }
  }
  return g;
}

/// A matrix, or a batch of them, of every kind of strides.
std::vector<Block> in_every_stride(int64_t batch, int64_t rows, int64_t columns, bool broadcast) {
  std::vector<Block> all;
  const int64_t inner[][2] = {{columns, 1},     {1, rows},         {columns + 3, 1}, {1, rows + 2},
                              {2 * columns, 2}, {2, 2 * rows + 1}, {1, 1},           {3 * columns, 3}};
  for (const auto& [down, right] : inner) {
    if (down == 1 && right == 1 && rows > 1 && columns > 1) continue;
    if (batch == 0) {
      all.push_back(Block({rows, columns}, {down, right}));
      continue;
    }
    const int64_t extent = (rows - 1) * down + (columns - 1) * right + 1;
    all.push_back(Block({batch, rows, columns}, {std::max(rows * down, columns * right), down, right}));
    all.push_back(Block({batch, rows, columns}, {extent + 5, down, right}));
    if (broadcast) all.push_back(Block({batch, rows, columns}, {0, down, right}));
  }
  if (broadcast) {
    if (batch == 0) {
      all.push_back(Block({rows, columns}, {0, 1}));
      all.push_back(Block({rows, columns}, {1, 0}));
      all.push_back(Block({rows, columns}, {0, 0}));
    } else {
      all.push_back(Block({batch, rows, columns}, {columns, 0, 1}));
      all.push_back(Block({batch, rows, columns}, {0, 1, 0}));
    }
  }
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_layout_is_said_so_that_blas_computes_the_product) {
  const int64_t sizes[][4] = {{0, 3, 4, 5}, {0, 1, 4, 5}, {0, 3, 1, 5}, {0, 3, 4, 1}, {0, 1, 1, 1}, {0, 1, 4, 1},
                              {1, 2, 3, 2}, {2, 3, 4, 2}, {3, 1, 2, 4}, {2, 3, 1, 1}, {2, 1, 5, 1}};
  for (const auto& [batch, m, k, n] : sizes) {
    for (const Block& a : in_every_stride(batch, m, k, true)) {
      for (const Block& b : in_every_stride(batch, k, n, true)) {
        for (const Block& out : in_every_stride(batch, m, n, false)) check(out, a, b);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(rows_columns_transposes_and_narrowed_matrices_are_not_copied) {
  const std::vector<Block> left = {Block({6, 5}, {5, 1}), Block({6, 5}, {1, 6}), Block({6, 5}, {9, 1})};
  const std::vector<Block> right = {Block({5, 7}, {7, 1}), Block({5, 7}, {1, 5}), Block({5, 7}, {1, 8})};
  const std::vector<Block> result = {Block({6, 7}, {7, 1}), Block({6, 7}, {1, 6}), Block({6, 7}, {8, 1})};
  for (const Block& a : left) {
    for (const Block& b : right) {
      for (const Block& out : result) {
        const GemmLayout g = check(out, a, b);
        BOOST_TEST((!g.first.copied && !g.second.copied && !g.out.copied));
        BOOST_TEST(g.swapped == (out.strides[1] == 1));
      }
    }
  }
  const GemmLayout column = check(Block({6, 1}, {1, 1}), Block({6, 5}, {5, 1}), Block({5, 1}, {3, 1}));
  BOOST_TEST((!column.first.copied && !column.second.copied), "a vector with gaps is a column of a wider matrix");
}

BOOST_AUTO_TEST_CASE(gaps_in_both_directions_and_broadcast_rows_are_copied) {
  const Block out({4, 3}, {3, 1}), b({5, 3}, {3, 1});
  BOOST_TEST(check(out, Block({4, 5}, {11, 2}), b).second.copied);
  BOOST_TEST(check(out, Block({4, 5}, {0, 1}), b).second.copied);
  BOOST_TEST(check(out, Block({4, 5}, {1, 0}), b).second.copied);
  BOOST_TEST(check(Block({4, 3}, {7, 2}), Block({4, 5}, {5, 1}), b).out.copied);
  BOOST_TEST(check(Block({4, 3}, {7, 2}), Block({4, 5}, {5, 1}), b).first.copied == false);
}

BOOST_AUTO_TEST_CASE(a_shared_matrix_is_passed_once_and_a_batch_of_rows_becomes_one_product) {
  const Block a({3, 4, 5}, {20, 5, 1}), out({3, 4, 2}, {8, 2, 1});
  const GemmLayout shared = check(out, a, Block({3, 5, 2}, {0, 2, 1}));
  BOOST_TEST(shared.batch == 1);
  BOOST_TEST(shared.n == 12);
  const GemmLayout first_shared = check(out, Block({3, 4, 5}, {0, 5, 1}), Block({3, 5, 2}, {10, 2, 1}));
  BOOST_TEST(first_shared.batch == 3);
  BOOST_TEST(first_shared.second.batch_stride == 0);
  const GemmLayout apart = check(Block({3, 4, 2}, {9, 2, 1}), a, Block({3, 5, 2}, {0, 2, 1}));
  BOOST_TEST(apart.batch == 3);
  const GemmLayout copied_once = check(out, a, Block({3, 5, 2}, {0, 5, 2}));
  BOOST_TEST(copied_once.first.copied);
  BOOST_TEST(copied_once.first.batch_stride == 0);
}

BOOST_AUTO_TEST_CASE(numbers_above_an_int_ask_for_the_wide_interface) {
  const int64_t many = int64_t(INT_MAX) + 1;
  const auto small = [](int64_t m, int64_t k, int64_t n, int64_t a_row) {
    const int64_t a_sizes[] = {m, k}, b_sizes[] = {k, n}, out_sizes[] = {m, n};
    const int64_t a_strides[] = {a_row, 1}, b_strides[] = {n, 1}, out_strides[] = {n, 1};
    return cuda::gemm_layout({nullptr, out_sizes, out_strides, m * n, 2, kFloat32, true},
                             {nullptr, a_sizes, a_strides, m * k, 2, kFloat32, false},
                             {nullptr, b_sizes, b_strides, k * n, 2, kFloat32, true})
        .is_small();
  };
  BOOST_TEST(small(2, 3, 4, 3));
  BOOST_TEST(small(INT_MAX, 3, 4, 3));
  BOOST_TEST(!small(many, 3, 4, 3));
  BOOST_TEST(!small(2, many, 4, many));
  BOOST_TEST(!small(2, 3, many, 3));
  BOOST_TEST(!small(2, 3, 4, many));
}

BOOST_AUTO_TEST_SUITE_END()
