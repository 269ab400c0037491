#include <boost/test/unit_test.hpp>

#include "tests/cuda/compare.h"
#include "tests/cuda/operands.h"
#include "tests/seed.h"

namespace {

using namespace tendril;
using namespace tendril::testing;

/// The stream as it stands after one draw, from a generator of one's own.
template <class Draw>
auto drawn(Draw draw, uint64_t seed) {
  return [draw, seed](const Tensor& out, const std::vector<Tensor>&) {
    Generator generator(seed);
    generator.reserve((uint64_t{1} << 32) - 2);  // the counter's words carry
    draw(out, generator);
    const Tensor next = raw::empty({}, kFloat64);
    raw::uniform_(next, 0, 1, generator);
    Generator again(seed);
    again.reserve((uint64_t{1} << 32) - 2);
    const Tensor twin_of_out = twin(out, kCPU), expected = raw::empty({}, kFloat64);
    draw(twin_of_out, again);
    raw::uniform_(expected, 0, 1, again);
    BOOST_TEST(next.item<double>() == expected.item<double>());  // the generator is where the CPU's is
  };
}

template <class Draw>
void check(Draw draw, const std::vector<DType>& dtypes, bool exact = true) {
  for (const DType dtype : dtypes) {
    for (const Dims& sizes : {Dims{}, Dims{0}, Dims{1}, Dims{3}, Dims{4}, Dims{41}, Dims{7, 300}}) {
      for (const auto& [name, out] : written_in(unwritten(sizes, dtype))) {
        const double rtol = exact ? 0 : 2 * tolerance(dtype);  // 2 pi is rounded on one side only
        for (const uint64_t seed : seeds({0x0123456789abcdef})) {
          BOOST_TEST_CONTEXT(dtype << " " << sizes << " " << name << ", seed " << seed) {
            compare_into(drawn(draw, seed), out, {}, rtol, rtol);
          }
        }
      }
    }
  }
}

const std::vector<DType> floating = {kFloat32, kFloat64, kFloat16, kBFloat16};

}  // namespace

BOOST_AUTO_TEST_SUITE(random_fills)

BOOST_AUTO_TEST_CASE(uniform_numbers_are_the_cpus_to_the_last_bit) {
  check([](const Tensor& out, Generator& g) { raw::uniform_(out, -0.7, 1.9, g); }, floating);
}

BOOST_AUTO_TEST_CASE(normal_numbers_are_the_cpus_but_for_the_last_bits) {
  check([](const Tensor& out, Generator& g) { raw::normal_(out, 0.4, 1.7, g); }, floating, false);
}

BOOST_AUTO_TEST_CASE(coins_are_the_cpus) {
  check([](const Tensor& out, Generator& g) { raw::bernoulli_(out, 0.3, g); },
        {std::begin(kEveryDType), std::end(kEveryDType)});
}

BOOST_AUTO_TEST_CASE(random_integers_are_the_cpus) {
  const std::vector<DType> numbers = {kInt64, kInt32, kUInt8, kFloat32, kFloat64, kFloat16, kBFloat16};
  check([](const Tensor& out, Generator& g) { raw::randint_(out, 0, 100, g); }, numbers);
  check([](const Tensor& out, Generator& g) { raw::randint_(out, INT64_MIN, INT64_MAX, g); }, {kInt64});
}

BOOST_AUTO_TEST_CASE(a_bool_tensor_takes_no_random_integers) {
  Generator generator(test_seed());
  const Tensor out = raw::to(raw::zeros({3}, kBool), kGPU);
  BOOST_CHECK_THROW(raw::randint_(out, 0, 2, generator), DTypeError);
  BOOST_CHECK_THROW(kernels(kGPU)->randint(raw::view_of(out), 0, 2, 1, 0), DTypeError);
  BOOST_CHECK_THROW(kernels(kGPU)->uniform(raw::view_of(out), 0, 2, 1, 0), DTypeError);
}

BOOST_AUTO_TEST_SUITE_END()
