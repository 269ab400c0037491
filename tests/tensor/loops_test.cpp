#include <algorithm>
#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <numbers>
#include <utility>
#include <vector>

#include "tendril/tensor/cpu/level/level.h"
#include "tendril/tensor/philox.h"
#include "tendril/tensor/raw.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(loops)

using namespace tendril;
using tendril::testing::test_seed;

namespace {

Tensor noise(DType dtype, double low, double high) {
  Generator generator(test_seed());
  const Tensor x = raw::empty({1003}, kFloat64);
  raw::uniform_(x, low, high, generator);
  return raw::cast(x, dtype);
}

/// Runs one level's loop over `count` elements.
std::vector<char> result_of(cpu::Loop loop, const Tensor& x, std::size_t out_element) {
  std::vector<char> out(static_cast<std::size_t>(x.numel()) * out_element);
  char* pointers[] = {out.data(), static_cast<char*>(x.raw_data()), static_cast<char*>(x.raw_data())};
  const auto element = static_cast<int64_t>(size_of(x.dtype()));
  const int64_t steps[] = {static_cast<int64_t>(out_element), element, element};
  loop(pointers, steps, x.numel());
  return out;
}

template <class Op>
void compare_levels(const cpu::ByOp<Op, cpu::Loop>& plain, const cpu::ByOp<Op, cpu::Loop>& newer, bool logical) {
  for (std::size_t op = 0; op < plain.size(); ++op) {
    for (std::size_t d = 0; d < kNumDTypes; ++d) {
      const auto dtype = static_cast<DType>(d);
      BOOST_TEST((plain[op][d] == nullptr) == (newer[op][d] == nullptr));
      if (!plain[op][d]) continue;
      const Tensor x = noise(dtype, dtype == kUInt8 ? 0 : -3, 3);
      const std::size_t element = logical ? 1 : size_of(dtype);
      const bool same = result_of(plain[op][d], x, element) == result_of(newer[op][d], x, element);
      BOOST_TEST(same, name_of(static_cast<Op>(op)) << " of " << dtype);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_level_gives_the_same_bits) {
  const auto levels = cpu::all_loops();
  BOOST_TEST(levels.back() == cpu::best_loops);
  for (std::size_t i = 1; i < levels.size(); ++i) {
    BOOST_TEST_CONTEXT(levels[i]->name) {
      compare_levels<Unary>(levels[0]->unary, levels[i]->unary, false);
      compare_levels<Predicate>(levels[0]->predicate, levels[i]->predicate, true);
      compare_levels<Binary>(levels[0]->binary, levels[i]->binary, false);
      compare_levels<Compare>(levels[0]->compare, levels[i]->compare, true);
    }
  }
}

BOOST_AUTO_TEST_CASE(every_level_transposes_tiles_of_any_size_near_far_and_past_the_caches) {
  constexpr int64_t kRows = 200, kColumns = cpu::kTileAcross + 3;
  for (const cpu::Loops* level : cpu::all_loops()) {
    for (std::size_t kind = 0; kind < 4; ++kind) {
      const int64_t unit = int64_t{1} << kind, x_step = kColumns * unit + 24,
                    out_step = kRows * unit + 192 - kRows * unit % 64;
      std::vector<char> x(static_cast<std::size_t>(kRows * x_step));
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<char>(i * 37 + i / 251);
      for (const auto& tiles : {level->transpose.near, level->transpose.far, level->transpose.streamed}) {
        for (const int64_t width : {1, 3, 16, 64, 100, 200}) {
          for (const int64_t height : {1, 5, 15, 16}) {
            for (const int64_t apart : {0, 8}) {  // on a cache line, and beside it
              std::vector<char> room(static_cast<std::size_t>((cpu::kTileAcross + 1) * (out_step + apart) + 64), 'n');
              char* const lined = room.data() + (64 - reinterpret_cast<uintptr_t>(room.data()) % 64) % 64;
              char* const out = lined + apart;
              const int64_t step = out_step + apart;
              std::vector<char> expected = room;
              for (int64_t j = 0; j < height; ++j) {
                for (int64_t i = 0; i < width; ++i) {
                  std::memcpy(expected.data() + (out - room.data()) + j * step + i * unit,
                              x.data() + i * x_step + j * unit, static_cast<std::size_t>(unit));
                }
              }
              tiles[kind](out, step, x.data(), x_step, width, height);
              BOOST_TEST((room == expected), level->name << ", " << unit << " bytes, " << width << " by " << height);
            }
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(every_level_casts_float16_as_one_element_at_a_time) {
  std::vector<Half> halves(65536 + 5);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i].bits = static_cast<uint16_t>(i);
  std::vector<float> floats;
  for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 65521) {
    floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  const int64_t to_float[] = {sizeof(float), sizeof(Half)}, to_half[] = {sizeof(Half), sizeof(float)};
  for (const cpu::Loops* level : cpu::all_loops()) {
    std::vector<float> widened(halves.size());
    std::vector<Half> narrowed(floats.size());
    char* widening[] = {reinterpret_cast<char*>(widened.data()), reinterpret_cast<char*>(halves.data())};
    char* narrowing[] = {reinterpret_cast<char*>(narrowed.data()), reinterpret_cast<char*>(floats.data())};
    level->half_casts.widen(widening, to_float, std::ssize(halves));
    level->half_casts.narrow(narrowing, to_half, std::ssize(floats));
    for (std::size_t i = 0; i < halves.size(); ++i) {
      const auto expected = static_cast<float>(halves[i]);
      BOOST_TEST_REQUIRE((widened[i] == expected || (std::isnan(widened[i]) && std::isnan(expected))), level->name);
    }
    for (std::size_t i = 0; i < floats.size(); ++i) {
      const Half expected(floats[i]);
      const bool both_nan = std::isnan(floats[i]) && std::isnan(static_cast<float>(narrowed[i]));
      BOOST_TEST_REQUIRE((narrowed[i].bits == expected.bits || both_nan), level->name << ", " << floats[i]);
    }
  }
}

/// Row-major, or column by column.
Tensor matrix(int64_t rows, int64_t columns, bool turned, DType dtype, Generator& generator) {
  const Tensor x = raw::empty(turned ? Dims{columns, rows} : Dims{rows, columns}, dtype);
  raw::normal_(x, 0, 1, generator);
  return turned ? raw::transpose(x, 0, 1) : x;
}

BOOST_AUTO_TEST_CASE(every_level_draws_the_words_of_the_same_blocks) {
  constexpr uint64_t kSeed = 0x0123456789abcdef;
  for (const cpu::Loops* level : cpu::all_loops()) {
    for (const uint64_t first : {uint64_t{0}, (uint64_t{1} << 32) - 5, ~uint64_t{0} - 2}) {
      for (const int64_t blocks : {1, 7, 8, 21}) {
        std::vector<uint32_t> words(static_cast<std::size_t>(4 * (blocks + cpu::kRandomBlocks)), 0);
        level->random_words(kSeed, first, blocks, words.data());
        for (int64_t i = 0; i < blocks; ++i) {
          const philox::Block expected = philox::block(kSeed, first + static_cast<uint64_t>(i));
          BOOST_TEST_REQUIRE(std::equal(expected.begin(), expected.end(), words.data() + 4 * i), level->name);
        }
        BOOST_TEST(std::all_of(words.end() - 4, words.end(), [](uint32_t w) { return w == 0; }));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(every_level_multiplies_matrices_of_any_order) {
  Generator generator(test_seed());
  struct Size {
    int64_t m, n, k;
  };
  for (const auto& [m, n, k] : {Size{17, 17, 59}, Size{97, 300, 70}, Size{6, 16, 256}, Size{101, 529, 300}}) {
    for (int order = 0; order < 8; ++order) {
      for (const DType dtype : {kFloat32, kFloat64}) {
        const Tensor a = matrix(m, k, order % 2, dtype, generator), b = matrix(k, n, order / 2 % 2, dtype, generator);
        const Tensor before = matrix(m, n, order / 4 % 2, dtype, generator);
        const auto wide = [](const Tensor& x) { return raw::cast(x, kFloat64); };
        const auto size = [&](const Tensor& x) { return raw::unary(Unary::abs, wide(x)); };
        const Tensor product = raw::matmul(wide(a), wide(b));
        // Two sums of k terms, each off by at most k roundings of the sum of their sizes (Higham, Accuracy and
        // Stability of Numerical Algorithms, 2002, section 3.1).
        const double unit = (dtype == kFloat32 ? 0x1p-24 : 0x1p-53) * static_cast<double>(2 * k + 2);
        const Tensor sizes = raw::binary(Binary::add, raw::matmul(size(a), size(b)), size(before));
        const Tensor allowed = raw::binary(Binary::mul, sizes, unit);
        for (const cpu::Loops* level : cpu::all_loops()) {
          for (const bool add : {false, true}) {
            const Tensor out = raw::clone(before);
            const auto &x = a.strides(), &y = b.strides(), &to = out.strides();
            level->gemm[static_cast<std::size_t>(dtype)](
                {m, n, k, a.raw_data(), x[0], x[1], b.raw_data(), y[0], y[1], out.raw_data(), to[0], to[1], add});
            const Tensor expected = add ? raw::binary(Binary::add, product, wide(before)) : product;
            const Tensor error = raw::unary(Unary::abs, raw::binary(Binary::sub, wide(out), expected));
            BOOST_TEST(error.le(allowed).all().item<bool>(),
                       level->name << " " << m << "x" << n << "x" << k << " order " << order << " " << dtype);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(every_level_takes_the_same_lstm_step) {
  constexpr int64_t batch = 3;
  for (const int64_t cells : {1, 5, 16, 37}) {
    const auto filled = [&](int64_t width) {
      return raw::reshape(raw::narrow(noise(kFloat32, -3, 3), 0, 0, batch * width), {batch, width});
    };
    const Tensor x = filled(4 * cells), c = filled(cells), d_h = filled(cells), d_out = filled(cells);
    std::vector<Tensor> expected;
    for (const cpu::Loops* level : cpu::all_loops()) {
      const Tensor gates = raw::clone(x), next_c = raw::empty_like(c), tanh_c = raw::empty_like(c),
                   h = raw::empty_like(c);
      level->lstm[0].forward({gates.raw_data(), x.raw_data(), c.raw_data(), next_c.raw_data(), tanh_c.raw_data(),
                              h.raw_data(), batch, cells});
      const Tensor d_gates = raw::empty_like(gates), d_c = raw::clone(c);
      level->lstm[0].backward({d_gates.raw_data(), d_c.raw_data(), d_h.raw_data(), d_out.raw_data(), gates.raw_data(),
                               c.raw_data(), tanh_c.raw_data(), batch, cells});
      const std::vector<Tensor> results = {gates, next_c, tanh_c, h, d_gates, d_c};
      if (expected.empty()) expected = results;
      for (std::size_t i = 0; i < results.size(); ++i) {
        BOOST_TEST(raw::equal(results[i], expected[i]), level->name << ", " << cells << " cells, result " << i);
      }
    }
  }
}

// One float32 in 99991 of all there are, and the special ones, against double.
BOOST_AUTO_TEST_CASE(exponentials_of_float32_are_within_a_few_units_in_the_last_place) {
  std::vector<float> inputs;
  for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 99991) {
    inputs.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  inputs.insert(inputs.end(), {88.72F, 88.73F, -87.34F, -103.97F, -104.1F, 0.625F, -13.1076F, -0.7F, -0.0F, INFINITY,
                               -INFINITY, NAN});
  const Tensor x = raw::from_data(inputs, {std::ssize(inputs)});
  const auto check = [&](const Tensor& y, const char* name, double units, double floor, auto reference) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const float got = y.data<float>()[i];
      const double want = reference(static_cast<double>(inputs[i]));
      const auto rounded = static_cast<float>(want);
      if (got == rounded || (std::isnan(want) && std::isnan(got))) continue;
      const double unit = static_cast<double>(std::nextafter(std::abs(rounded), INFINITY)) - std::abs(rounded);
      if (std::isfinite(got) && std::abs(got - want) <= std::max(units * unit, floor)) continue;
      BOOST_ERROR(name << " of " << inputs[i] << " is " << got << ", expected " << want);
    }
  };
  check(raw::unary(Unary::exp, x), "exp", 1.5, 0, [](double v) { return std::exp(v); });
  check(raw::unary(Unary::tanh, x), "tanh", 1.5, 0, [](double v) { return std::tanh(v); });
  // Where e^-x is infinite the result is 0 instead of a subnormal number.
  constexpr double kMin = std::numeric_limits<float>::min();
  check(raw::unary(Unary::sigmoid, x), "sigmoid", 3, kMin, [](double v) { return 1 / (1 + std::exp(-v)); });
  check(raw::unary(Unary::gelu, x), "gelu", 11, kMin,
        [](double v) { return std::isinf(v) && v < 0 ? 0 : v * 0.5 * std::erfc(-v * std::sqrt(0.5)); });
  // Two terms, of which the sum may be much smaller than they are: 4 units of them.
  check(raw::unary_gradient(Unary::gelu, raw::full(x.sizes(), 1, kFloat32), x), "gelu's gradient", 9, 4 * 0x1p-24,
        [](double v) {
          if (std::isinf(v)) return v < 0 ? 0.0 : 1.0;
          return 0.5 * std::erfc(-v * std::sqrt(0.5)) + v * std::exp(-v * v / 2) / std::sqrt(2 * std::numbers::pi);
        });
  BOOST_TEST(std::signbit(raw::unary(Unary::tanh, raw::from_data(std::vector<float>{-0.0F}, {})).data<float>()[0]));
}

BOOST_AUTO_TEST_CASE(a_product_with_a_packed_operand_is_that_of_each_row_and_writes_nothing_else) {
  for (const cpu::Loops* level : cpu::all_loops()) {
    const cpu::PackedProduct& product = level->packed_product[static_cast<std::size_t>(kFloat32)];
    for (const auto& [k, n] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {7, 16}, {256, 33}, {300, 70}}) {
      for (const bool turned : {false, true}) {
        const int64_t most = 14, wide = n + 3;
        Generator generator(test_seed());
        const Tensor a = raw::empty({most, k}), b = raw::empty({k, n});
        raw::uniform_(a, -1, 1, generator), raw::uniform_(b, -1, 1, generator);
        cpu::Gemm g{};
        g.k = k, g.n = n, g.b = b.raw_data(), g.b_row = turned ? 1 : n, g.b_column = turned ? k : 1;
        const auto element = [&](int64_t p, int64_t j) { return b.data<float>()[p * g.b_row + j * g.b_column]; };
        const auto bytes = static_cast<std::size_t>(product.bytes(k, n));
        std::unique_ptr<void, decltype(&std::free)> packed(std::aligned_alloc(64, (bytes + 63) / 64 * 64), &std::free);
        product.pack(g, packed.get());
        for (int64_t m = 1; m <= most; ++m) {
          std::vector<float> all(static_cast<std::size_t>(m * wide), 7), each = all;
          g.m = m, g.a = a.raw_data(), g.a_row = k, g.a_column = 1;
          g.out = all.data(), g.out_row = wide, g.out_column = 1;
          product.run(g, packed.get());
          for (int64_t i = 0; i < m; ++i) {
            g.m = 1, g.a = a.data<float>() + i * k, g.out = each.data() + i * wide;
            product.run(g, packed.get());
            for (int64_t j = 0; j < wide; ++j) {
              double sum = 0;
              for (int64_t p = 0; j < n && p < k; ++p) sum += double{a.data<float>()[i * k + p]} * element(p, j);
              const float got = all[static_cast<std::size_t>(i * wide + j)];
              BOOST_REQUIRE_MESSAGE(
                  j < n ? std::abs(got - sum) < 1e-4 : got == 7,
                  level->name << " m " << m << " k " << k << " n " << n << ": " << got << ", expected " << sum);
            }
          }
          BOOST_TEST((all == each), level->name << " m " << m << " k " << k << " n " << n);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
