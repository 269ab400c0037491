#include <boost/test/unit_test.hpp>
#include <map>
#include <string>
#include <vector>

#include "tendril/tensor/cpu/nest.h"
#include "tendril/tensor/cuda/kernels/strided.h"

BOOST_AUTO_TEST_SUITE(strided)

namespace {

using namespace tendril;
using cuda::collapse;
using cuda::Divisor;
using cuda::for_each_piece;
using cuda::in_vectors;
using cuda::Offsets;
using cuda::Strided;
using cuda::transposition;

/// A view of nothing: only its layout is looked at.
struct Shape {
  Dims sizes, strides;
  View view;

  Shape(const Dims& with_sizes, const Dims& with_strides) : sizes(with_sizes), strides(with_strides) {
    int64_t expected = 1;
    bool contiguous = true;
    for (int d = sizes.size() - 1; d >= 0; --d) {
      if (sizes[d] == 1) continue;
      contiguous = contiguous && strides[d] == expected;
      expected *= sizes[d];
    }
    view = {nullptr, sizes.data(), strides.data(), numel_of(sizes), sizes.size(), kFloat32, contiguous};
  }
  explicit Shape(const Dims& with_sizes) : Shape(with_sizes, contiguous_strides(with_sizes)) {}
  Shape(const Shape&) = delete;
};

/// Offset of every element in operand 1, by that in operand 0, from the views themselves.
std::map<int64_t, int64_t> pairs_of(const View& out, const View& x) {
  std::map<int64_t, int64_t> pairs;
  for (int64_t i = 0; i < out.numel; ++i) {
    int64_t rest = i, a = 0, b = 0;
    for (int d = out.ndim - 1; d >= 0; --d) {
      a += rest % out.sizes[d] * out.strides[d];
      b += rest % out.sizes[d] * x.strides[d];
      rest /= out.sizes[d];
    }
    BOOST_REQUIRE(pairs.emplace(a, b).second);
  }
  return pairs;
}

/// The same, as a kernel would see it.
std::map<int64_t, int64_t> pairs_in_pieces(const Strided<2>& whole, int64_t limit, int width = 1) {
  std::map<int64_t, int64_t> pairs;
  const auto visit = [&](const Strided<2>& piece, const std::array<int64_t, 2>& start) {
    int64_t numel = 1;
    for (int d = 0; d < piece.ndim; ++d) numel *= piece.sizes[static_cast<std::size_t>(d)];
    BOOST_REQUIRE_LE(numel, limit);
    const Offsets<2> offsets(piece, width);
    for (int64_t i = 0; i * width < numel; ++i) {
      uint32_t at[2];
      offsets.of(static_cast<uint32_t>(i), at);
      BOOST_REQUIRE_LE(at[0], limit);
      BOOST_REQUIRE_LE(at[1], limit);
      for (int64_t j = 0; j < width && i * width + j < numel; ++j) {
        const int64_t step = piece.strides[1][0];
        BOOST_REQUIRE(pairs.emplace(start[0] + at[0] + j, start[1] + at[1] + j * step).second);
      }
    }
  };
  for_each_piece<2>(whole, visit, limit);
  return pairs;
}

struct Case {
  Dims sizes, out, x;
  int ndim;  ///< after merging
};
const std::vector<Case> cases = {
    {{}, {}, {}, 1},
    {{1}, {1}, {1}, 1},
    {{7}, {1}, {1}, 1},
    {{7}, {1}, {0}, 1},
    {{7}, {3}, {2}, 1},
    {{4, 6}, {6, 1}, {6, 1}, 1},
    {{4, 6}, {6, 1}, {0, 0}, 1},
    {{4, 6}, {6, 1}, {0, 1}, 2},
    {{4, 6}, {6, 1}, {1, 0}, 2},
    {{4, 6}, {6, 1}, {1, 4}, 2},
    {{4, 6}, {1, 4}, {1, 4}, 1},
    {{4, 6}, {1, 4}, {6, 1}, 2},
    {{4, 1, 6}, {6, 77, 1}, {6, 99, 1}, 1},
    {{2, 3, 4}, {12, 4, 1}, {12, 4, 1}, 1},
    {{2, 3, 4}, {12, 4, 1}, {4, 8, 1}, 3},
    {{2, 3, 4}, {12, 4, 1}, {0, 4, 1}, 2},
    {{2, 3, 4}, {12, 4, 1}, {1, 0, 2}, 3},
    {{2, 3, 4}, {4, 8, 1}, {4, 8, 1}, 1},
    {{2, 3, 5, 2}, {40, 10, 2, 1}, {60, 20, 4, 2}, 2},
    {{2, 1, 3, 2, 2, 1, 3, 2}, {72, 72, 24, 12, 6, 6, 2, 1}, {0, 0, 1, 3, 0, 0, 6, 18}, 6},
};

}  // namespace

BOOST_AUTO_TEST_CASE(dimensions_merge_where_all_operands_permit_it_and_every_element_is_visited_once) {
  for (const Case& c : cases) {
    BOOST_TEST_CONTEXT(c.sizes << " " << c.out << " " << c.x) {
      const Shape out(c.sizes, c.out), x(c.sizes, c.x);
      const auto s = collapse<2>({&out.view, &x.view});
      BOOST_TEST(s.ndim == c.ndim);
      for (int d = 1; d < s.ndim; ++d) {
        const auto i = static_cast<std::size_t>(d);
        BOOST_TEST(s.strides[0][i] >= s.strides[0][i - 1]);
      }
      BOOST_TEST((pairs_in_pieces(s, cuda::kMaxOffset) == pairs_of(out.view, x.view)));
    }
  }
}

BOOST_AUTO_TEST_CASE(the_cpu_walks_by_the_same_plan) {
  for (const Case& c : cases) {
    BOOST_TEST_CONTEXT(c.sizes << " " << c.out << " " << c.x) {
      const Shape out(c.sizes, c.out), x(c.sizes, c.x);
      const auto device = collapse<2>({&out.view, &x.view});
      const auto host = cpu::nest_of<2>({&out.view, &x.view});  // in bytes
      BOOST_TEST_REQUIRE(host.ndim == device.ndim);
      for (std::size_t d = 0; d < static_cast<std::size_t>(host.ndim); ++d) {
        BOOST_TEST(host.sizes[d] == device.sizes[d]);
        for (std::size_t k = 0; k < 2; ++k) BOOST_TEST(host.strides[k][d] == device.strides[k][d] * 4);
      }
      std::map<int64_t, int64_t> walked;
      cpu::for_each_row<2>(host, [&](char* const* at, const int64_t* steps, int64_t count) {
        const auto a = reinterpret_cast<intptr_t>(at[0]), b = reinterpret_cast<intptr_t>(at[1]);
        for (int64_t i = 0; i < count; ++i) walked.emplace((a + i * steps[0]) / 4, (b + i * steps[1]) / 4);
      });
      BOOST_TEST((walked == pairs_of(out.view, x.view)));
    }
  }
}

BOOST_AUTO_TEST_CASE(pieces_cover_the_whole_however_small_the_limit) {
  for (const Case& c : cases) {
    const Shape out(c.sizes, c.out), x(c.sizes, c.x);
    const auto s = collapse<2>({&out.view, &x.view});
    for (const int64_t limit : {1, 2, 5, 13, 30}) {
      BOOST_TEST((pairs_in_pieces(s, limit) == pairs_of(out.view, x.view)));
    }
  }
}

BOOST_AUTO_TEST_CASE(vectors_are_for_rows_that_begin_and_end_at_multiples) {
  const auto fits = [](const Dims& sizes, const Dims& out, const Dims& x, uintptr_t address = 0) {
    const Shape a(sizes, out), b(sizes, x);
    const auto s = collapse<2>({&a.view, &b.view});
    const bool wide = in_vectors<2>(s, 4, {0, address}, {4, 4});
    if (wide) BOOST_TEST((pairs_in_pieces(s, cuda::kMaxOffset, 4) == pairs_of(a.view, b.view)));
    return wide;
  };
  BOOST_TEST(fits({8}, {1}, {1}));
  BOOST_TEST(fits({7}, {1}, {1}));  // a rest
  BOOST_TEST(fits({1}, {1}, {1}));
  BOOST_TEST(fits({7}, {1}, {0}));
  BOOST_TEST(fits({7}, {1}, {0}, 4));  // one number may lie anywhere
  BOOST_TEST(!fits({8}, {1}, {1}, 4));
  BOOST_TEST(!fits({8}, {1}, {2}));
  BOOST_TEST(!fits({8}, {2}, {1}));
  BOOST_TEST(fits({3, 8}, {8, 1}, {0, 1}));
  BOOST_TEST(fits({3, 8}, {8, 1}, {1, 0}));
  BOOST_TEST(fits({3, 8}, {12, 1}, {16, 1}));
  BOOST_TEST(!fits({3, 8}, {9, 1}, {8, 1}));
  BOOST_TEST(!fits({3, 8}, {8, 1}, {10, 1}));
  BOOST_TEST(!fits({3, 6}, {6, 1}, {0, 1}));
  BOOST_TEST(!fits({8, 4}, {4, 1}, {1, 8}));
}

BOOST_AUTO_TEST_CASE(tensors_beyond_32_bits_become_pieces_that_fit) {
  constexpr int64_t kBillion = 1'000'000'000;
  const auto check = [](const Dims& sizes, const Dims& strides, std::size_t at_least) {
    const Shape out(sizes), x(sizes, strides);
    const auto s = collapse<2>({&out.view, &x.view});
    std::size_t pieces = 0;
    int64_t total = 0;
    std::map<int64_t, int64_t> intervals;  // of the output, which is contiguous or cut in rows
    for_each_piece<2>(s, [&](const Strided<2>& piece, const std::array<int64_t, 2>& start) {
      ++pieces;
      int64_t numel = 1;
      std::array<int64_t, 2> last{};
      for (std::size_t d = 0; d < static_cast<std::size_t>(piece.ndim); ++d) {
        numel *= piece.sizes[d];
        for (std::size_t k = 0; k < 2; ++k) last[k] += (piece.sizes[d] - 1) * piece.strides[k][d];
      }
      total += numel;
      BOOST_TEST(numel <= INT32_MAX);
      BOOST_TEST(last[0] <= INT32_MAX);
      BOOST_TEST(last[1] <= INT32_MAX);
      // The kernel's own arithmetic at the far end, against 64 bits.
      uint32_t at[2];
      const Offsets<2> offsets(piece);
      offsets.of(static_cast<uint32_t>(numel - 1), at);
      BOOST_TEST(at[0] == last[0]);
      BOOST_TEST(at[1] == last[1]);
      BOOST_TEST(intervals.emplace(start[0], last[0]).second);
    });
    BOOST_TEST(total == out.view.numel);
    BOOST_TEST(pieces >= at_least);
    return pieces;
  };
  BOOST_TEST(check({2 * kBillion}, {1}, 1) == 1U);
  check({3 * kBillion}, {1}, 2);
  check({3 * kBillion}, {0}, 2);
  check({5, kBillion}, {kBillion, 1}, 3);
  check({5, kBillion}, {0, 1}, 3);
  check({50'000, 50'000}, {1, 50'000}, 2);  // transposed
  check({3, 1000}, {2 * kBillion, 1}, 2);   // few elements, far apart
  check({1000, 3}, {1, 3 * kBillion}, 3);
  check({70'000, 3, 20'000}, {1, 70'000, 210'000}, 2);
}

BOOST_AUTO_TEST_CASE(halves_of_large_vectors_stay_aligned) {
  const Shape out(Dims{3'000'000'001}), x(Dims{3'000'000'001});
  const auto s = collapse<2>({&out.view, &x.view});
  int64_t seen = 0;
  for_each_piece<2>(s, [&](const Strided<2>& piece, const std::array<int64_t, 2>& start) {
    BOOST_TEST(start[0] % 64 == 0);
    BOOST_TEST(start[0] == seen);
    seen += piece.sizes[0];
  });
  BOOST_TEST(seen == 3'000'000'001);
}

BOOST_AUTO_TEST_CASE(matrices_are_found_where_close_elements_differ) {
  const auto find = [](const Dims& sizes, const Dims& x_strides) {
    const Shape out(sizes), x(sizes, x_strides);
    const auto s = collapse<2>({&out.view, &x.view});
    const auto t = transposition(s);
    if (!t) return std::string("none");
    // Every pair of offsets, by way of the matrices.
    std::map<int64_t, int64_t> pairs;
    for (const auto& [start_out, start_x] : pairs_in_pieces(t->matrices, cuda::kMaxOffset)) {
      for (int64_t r = 0; r < t->rows; ++r) {
        for (int64_t c = 0; c < t->columns; ++c) {
          BOOST_REQUIRE(pairs.emplace(start_out + r * t->out_row + c, start_x + c * t->x_column + r).second);
        }
      }
    }
    BOOST_TEST((pairs == pairs_of(out.view, x.view)));
    return std::to_string(t->rows) + " x " + std::to_string(t->columns);
  };
  BOOST_TEST(find({20, 30}, {1, 20}) == "20 x 30");
  BOOST_TEST(find({20, 30}, {1, 50}) == "20 x 30");
  BOOST_TEST(find({3, 20, 30}, {600, 1, 20}) == "20 x 30");
  BOOST_TEST(find({20, 3, 30}, {1, 600, 20}) == "20 x 90");
  BOOST_TEST(find({20, 3, 2, 30}, {1, 20, 5000, 60}) == "20 x 30");
  BOOST_TEST(find({2, 16, 5, 7}, {560, 1, 112, 16}) == "16 x 35");  // channels last: 5 and 7 are one dimension
  BOOST_TEST(find({20, 30}, {30, 1}) == "none");
  BOOST_TEST(find({20, 30}, {1, 0}) == "none");
  BOOST_TEST(find({20, 30}, {2, 40}) == "none");
  BOOST_TEST(find({8, 30}, {1, 8}) == "none");
  BOOST_TEST(find({20, 8}, {1, 20}) == "none");
}

BOOST_AUTO_TEST_CASE(division_by_an_invariant_is_division) {
  std::vector<uint32_t> divisors = {1, 2, 3, 5, 6, 7, 10, 641, 65535, 65536, 65537, 1000003, 0x7fffffff, 0x80000000};
  for (uint32_t shift = 2; shift < 31; ++shift) {
    divisors.push_back((1U << shift) - 1);
    divisors.push_back((1U << shift) + 1);
  }
  for (const uint32_t divisor : divisors) {
    const Divisor d(divisor);
    for (uint64_t factor : {0U, 1U, 2U, 3U, 1000U, 65536U, 0x7fffffffU}) {
      for (int64_t delta = -2; delta <= 2; ++delta) {
        const int64_t n = static_cast<int64_t>(factor * divisor) + delta;
        if (n < 0 || n > INT32_MAX) continue;
        BOOST_REQUIRE_EQUAL(d.quotient(static_cast<uint32_t>(n)), static_cast<uint64_t>(n) / divisor);
      }
    }
    for (uint32_t n = 0; n < 0x7fffffff - 104729; n += 104729) {
      if (d.quotient(n) != n / divisor) BOOST_FAIL(n << " / " << divisor);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
