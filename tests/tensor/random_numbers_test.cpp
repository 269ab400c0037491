#include "tendril/tensor/random.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <set>
#include <thread>

#include "tendril/tensor/philox.h"
#include "tendril/tensor/raw.h"
#include "tests/make.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(random_numbers)

using namespace tendril;
using tendril::testing::test_seed;

namespace {

struct Moments {
  double mean = 0, variance = 0, lowest = INFINITY, highest = -INFINITY;
};
Moments moments(const Tensor& x) {
  Moments m;
  const auto values = x.to_vector<double>();
  for (const double v : values) {
    m.mean += v / static_cast<double>(values.size());
    m.lowest = std::min(m.lowest, v);
    m.highest = std::max(m.highest, v);
  }
  for (const double v : values) m.variance += (v - m.mean) * (v - m.mean) / static_cast<double>(values.size());
  return m;
}

}  // namespace

BOOST_AUTO_TEST_CASE(philox_gives_random123s_known_answers) {  // kat_vectors of the Random123 library
  using philox::Block;
  BOOST_TEST((philox::encrypt({0, 0, 0, 0}, {0, 0}) == Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  BOOST_TEST(
      (philox::encrypt({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) == Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  BOOST_TEST((philox::encrypt({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
              Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

BOOST_AUTO_TEST_CASE(the_same_seed_and_offset_give_the_same_numbers) {
  Generator a(test_seed()), b(test_seed()), c(test_seed(1));
  const Tensor x = make::empty({1001}), y = make::empty({1001}), z = make::empty({1001});
  raw::normal_(x, 0, 1, a);
  raw::normal_(y, 0, 1, b);
  raw::normal_(z, 0, 1, c);
  BOOST_TEST(raw::equal(x, y));
  BOOST_TEST(!raw::equal(x, z));
  BOOST_TEST((a.state() == Generator::State{test_seed(), 251}));  // four numbers a block
  raw::normal_(y, 0, 1, b);
  BOOST_TEST(!raw::equal(x, y));
  b.set_state({test_seed(), 0});
  raw::normal_(y, 0, 1, b);
  BOOST_TEST(raw::equal(x, y));
}

BOOST_AUTO_TEST_CASE(an_elements_number_depends_on_its_place_only) {
  Generator a(test_seed()), b(test_seed());
  const Tensor whole = make::empty({100});
  raw::uniform_(whole, 0, 1, a);
  for (int64_t start = 0; start < 100; start += 20) {  // whole blocks of four
    const Tensor part = make::empty({20});
    raw::uniform_(part, 0, 1, b);
    BOOST_TEST(raw::equal(part, raw::narrow(whole, 0, start, 20)));
  }
  BOOST_TEST(whole.to_vector<float>()[5] == philox::uniform_float(philox::block(test_seed(), 1)[1]));
  const Tensor turned = raw::transpose(make::empty({10, 10}), 0, 1);
  a.set_state({test_seed(), 0});
  raw::uniform_(turned, 0, 1, a);
  BOOST_TEST(raw::equal(raw::view(raw::contiguous(turned), {100}), whole));
}

BOOST_AUTO_TEST_CASE(distributions_have_their_moments) {
  Generator generator(test_seed());
  constexpr int64_t n = 200'000;
  for (const DType dtype : {kFloat32, kFloat64}) {
    const Tensor x = make::empty({n}, dtype);
    raw::uniform_(x, -1, 3, generator);
    Moments m = moments(x);
    BOOST_TEST(std::abs(m.mean - 1) < 0.02);
    BOOST_TEST(std::abs(m.variance - 16.0 / 12) < 0.03);
    BOOST_TEST((m.lowest >= -1 && m.highest <= 3 && m.lowest < -0.99 && m.highest > 2.99));
    raw::normal_(x, 2, 3, generator);
    m = moments(x);
    BOOST_TEST(std::abs(m.mean - 2) < 0.047);
    BOOST_TEST(std::abs(m.variance - 9) < 0.2);
    BOOST_TEST((std::isfinite(m.lowest) && m.highest > 2 + 3 * 3.6));
    raw::bernoulli_(x, 0.3, generator);
    BOOST_TEST(std::abs(moments(x).mean - 0.3) < 0.007);
  }
  const Tensor k = make::empty({n}, kInt64);
  raw::randint_(k, -2, 5, generator);
  const Moments m = moments(k);
  BOOST_TEST((m.lowest == -2 && m.highest == 4));
  BOOST_TEST(std::abs(m.mean - 1) < 0.03);
  raw::randint_(k, INT64_MIN, INT64_MAX, generator);
  BOOST_TEST((moments(k).lowest < -9e18 && moments(k).highest > 9e18));
}

BOOST_AUTO_TEST_CASE(certain_events_are_certain) {
  Generator generator(test_seed());
  const Tensor x = make::empty({10'000}, kBool);
  raw::bernoulli_(x, 1, generator);
  BOOST_TEST(x.all().item<bool>());
  raw::bernoulli_(x, 0, generator);
  BOOST_TEST(!x.any().item<bool>());
}

BOOST_AUTO_TEST_CASE(a_permutation_holds_every_number_once) {
  Generator generator(test_seed());
  auto order = make::randperm(1000, generator).to_vector<int64_t>();
  BOOST_TEST(!std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  for (int64_t i = 0; i < 1000; ++i) BOOST_REQUIRE(order[static_cast<std::size_t>(i)] == i);
  BOOST_TEST(make::randperm(0, generator).numel() == 0);
}

BOOST_AUTO_TEST_CASE(threads_sharing_a_generator_never_get_the_same_numbers) {
  Generator generator(test_seed());
  std::vector<std::vector<uint64_t>> drawn(4);
  std::vector<std::thread> threads;
  for (auto& mine : drawn) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) mine.push_back(generator.bits());
    });
  }
  for (auto& thread : threads) thread.join();
  std::set<uint64_t> all;
  for (const auto& mine : drawn) all.insert(mine.begin(), mine.end());
  BOOST_TEST(all.size() == 4000);
}

BOOST_AUTO_TEST_CASE(wrong_parameters_are_refused_and_draw_nothing) {
  Generator generator(test_seed());
  const Tensor x = make::empty({3});
  BOOST_CHECK_THROW(raw::uniform_(x, 1, 0, generator), Error);
  BOOST_CHECK_THROW(raw::normal_(x, 0, -1, generator), Error);
  BOOST_CHECK_THROW(raw::bernoulli_(x, 1.5, generator), Error);
  BOOST_CHECK_THROW(raw::bernoulli_(x, NAN, generator), Error);
  BOOST_CHECK_THROW(raw::randint_(x, 3, 3, generator), Error);
  BOOST_CHECK_THROW(raw::uniform_(make::empty({3}, kInt64), 0, 1, generator), DTypeError);
  BOOST_CHECK_THROW(raw::normal_(make::empty({3}, kBool), 0, 1, generator), DTypeError);
  BOOST_CHECK_THROW(make::randperm(-1, generator), ShapeError);
  BOOST_TEST(generator.state().offset == 0);
}

BOOST_AUTO_TEST_CASE(the_upper_bound_of_a_uniform_number_is_never_reached) {
  Generator generator(test_seed());
  for (const DType dtype : {kFloat16, kBFloat16}) {
    for (const auto& [low, high] : {std::pair{0.0, 1.0}, std::pair{-1.0, 0.0}, std::pair{-4.0, -2.0}}) {
      const Tensor x = make::empty({100'000}, dtype);
      raw::uniform_(x, low, high, generator);
      const Moments m = moments(x);
      BOOST_TEST((m.lowest >= low && m.highest < high && m.highest > high - (high - low) / 64));
      BOOST_TEST(std::abs(m.mean - (low + high) / 2) < 0.01 * (high - low));
    }
  }
  // Of the numbers from 2^24 on, float32 has every other: half of those drawn would be rounded to the bound.
  const Tensor x = make::empty({1000}, kFloat32);
  raw::uniform_(x, 0x1p24, 0x1p24 + 2, generator);
  BOOST_TEST(moments(x).highest == 0x1p24);
}

BOOST_AUTO_TEST_SUITE_END()
