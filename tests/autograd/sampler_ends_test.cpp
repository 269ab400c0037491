// Samplers return no number outside of their interval, with any dtype and any parameters.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "tendril/autograd/ops/random.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/philox.h"
#include "tendril/tensor/random.h"
#include "tests/autograd/raises.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(sampler_ends)

using namespace tendril;
using testing::test_seed;

namespace {

const DType kFloating[] = {kFloat64, kFloat32, kFloat16, kBFloat16};

/// A block with a word whose upper 24 bits, which a float is made of, are all 0 or all 1.
struct Extreme {
  uint64_t offset;
  std::size_t word;
};
constexpr Extreme kZero{10460476, 3}, kOnes{6318945, 1};  // of seed 1

/// The numbers of one block of seed 1 that draw(tensor, generator) makes.
template <class Draw>
Tensor draw_block(const Extreme& extreme, DType dtype, const Draw& draw) {
  Generator generator(1);
  generator.set_state({1, extreme.offset});
  Tensor x = empty({4}, {.dtype = dtype});
  draw(x, generator);
  return x;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_extreme_blocks_are_extreme) {
  BOOST_TEST((philox::block(1, kZero.offset)[kZero.word] >> 8) == 0u);
  BOOST_TEST((philox::block(1, kOnes.offset)[kOnes.word] >> 8) == 0xffffffu);
}

BOOST_AUTO_TEST_CASE(exponential_numbers_are_positive_and_finite) {
  for (const DType dtype : kFloating) {
    for (const double rate : {1.0, 1e-3, 1e4, 1e-37, 1e37, 1e-300, 1e300}) {
      for (const Extreme& extreme : {kZero, kOnes}) {
        const Tensor x = draw_block(extreme, dtype, [rate](const Tensor& t, Generator& g) { t.exponential_(rate, g); });
        BOOST_TEST(x.gt(0).logical_and(x.isfinite()).all().item<bool>(), dtype << ", rate " << rate << ": " << x);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(exponential_numbers_have_the_right_distribution_near_zero) {
  Generator generator(test_seed());
  const Tensor x = zeros({1 << 20}).exponential_(1, generator);
  for (const double bound : {0.5, 0.01, 0.001}) {
    const double expected = -std::expm1(-bound), n = 1 << 20;
    const double found = x.lt(bound).to(kFloat64).mean().item<double>();
    BOOST_TEST(std::abs(found - expected) < 6 * std::sqrt(expected / n), bound << ": " << found);
  }
}

BOOST_AUTO_TEST_CASE(uniform_numbers_are_below_the_upper_bound) {
  for (const DType dtype : kFloating) {
    for (const auto& [low, high] :
         {std::pair{0.0, 1.0}, {1e4, 10008.0}, {-1.0, 0.0}, {-1e38, 1e38}, {1.0, 1.0078125}}) {
      if (dtype == kFloat16 && low < -1e5) continue;
      const Tensor x = draw_block(kOnes, dtype, [&](const Tensor& t, Generator& g) { t.uniform_(low, high, g); });
      BOOST_TEST(x.to(kFloat64).lt(high).all().item<bool>(), dtype << ", " << high << ": " << x);
      const Tensor least = tensor({low}, {.dtype = dtype}).to(kFloat64);  // the bound is rounded, too
      BOOST_TEST(x.to(kFloat64).ge(least).all().item<bool>(), dtype << ", " << low << ": " << x);
    }
  }
}

BOOST_AUTO_TEST_CASE(uniform_rejects_an_interval_that_is_too_long) {
  const Tensor wide = zeros({2}, {.dtype = kFloat64}), narrow = zeros({2});
  CHECK_RAISES(Error, "uniform_: high - low: got inf", wide.uniform_(-1.7e308, 1.7e308));
  CHECK_RAISES(Error, "uniform_: high - low: got 6e+38", narrow.uniform_(-3e38, 3e38));
  CHECK_RAISES(Error, "uniform_: high - low: got inf", narrow.uniform_(0, HUGE_VAL));
  BOOST_TEST(narrow.eq(0).all().item<bool>());
}

BOOST_AUTO_TEST_CASE(multinomial_accepts_weights_whose_sum_overflows) {
  Generator generator(test_seed());
  for (const double scale : {1e308, 5e-324, 1e-320}) {
    const Tensor weights = tensor({0., scale, scale, 0.}, {.dtype = kFloat64});
    const Tensor drawn = multinomial(weights, 200, true, generator);
    BOOST_TEST((drawn.min().item<int64_t>() == 1 && drawn.max().item<int64_t>() == 2), scale << ": " << drawn);
    const Tensor both = multinomial(weights, 2, false, generator);
    BOOST_TEST((both.min().item<int64_t>() == 1 && both.max().item<int64_t>() == 2), scale << ": " << both);
  }
}

BOOST_AUTO_TEST_SUITE_END()
