#include <boost/test/unit_test.hpp>
#include <string_view>

#include "tests/cuda/compare.h"
#include "tests/seed.h"
#include "tests/skip.h"

namespace {

using namespace tendril;
using namespace tendril::testing;

constexpr int64_t kCount = (int64_t{1} << 31) + 1001;

/// The elements around `at`, on the CPU.
std::vector<uint8_t> around(const Tensor& x, int64_t at) {
  return raw::to(raw::contiguous(raw::narrow(x, 0, at - 2, 5)), kCPU).to_vector<uint8_t>();
}

/// Mostly 3; 4 around 2^31, and 5 at the end.
Tensor marked() {
  const Tensor x = raw::full({kCount}, 3, kUInt8, kGPU);
  raw::fill_(raw::narrow(x, 0, (int64_t{1} << 31) - 1, 2), 4);
  raw::fill_(raw::narrow(x, 0, kCount - 3, 3), 5);
  return x;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(large_tensors)

// Where the device has the memory: about 7 GB.
BOOST_AUTO_TEST_CASE(elements_beyond_2_to_the_31_are_reached_by_every_kind_of_kernel) {
  Tensor x, sum, every_other;
  try {
    x = marked();
    sum = raw::empty({kCount}, kUInt8, kGPU);
    every_other = raw::empty({(kCount + 1) / 2}, kUInt8, kGPU);
  } catch (const Error& error) {
    const std::string_view why = error.what();
    BOOST_TEST_REQUIRE(why.starts_with("out of memory"), why);
    tendril::testing::skip_suite(why.substr(0, why.find('\n')));
    return;
  }
  using Bytes = std::vector<uint8_t>;
  constexpr int64_t kMiddle = int64_t{1} << 31;
  BOOST_TEST(around(x, kMiddle) == (Bytes{3, 4, 4, 3, 3}), boost::test_tools::per_element());

  const DeviceKernels table = kernels(kGPU);
  table->binary(Binary::add, raw::view_of(sum), raw::view_of(x), raw::view_of(x));  // vectors
  BOOST_TEST(around(sum, 2) == (Bytes{6, 6, 6, 6, 6}), boost::test_tools::per_element());
  BOOST_TEST(around(sum, kMiddle) == (Bytes{6, 8, 8, 6, 6}), boost::test_tools::per_element());
  BOOST_TEST(around(sum, kCount - 3) == (Bytes{6, 6, 10, 10, 10}), boost::test_tools::per_element());

  const Tensor even = sum.slice(0, 0, INT64_MAX, 2);
  table->unary(Unary::neg, raw::view_of(every_other), raw::view_of(even), 0);  // single elements
  BOOST_TEST(around(every_other, kMiddle / 2) == (Bytes{250, 250, 248, 250, 250}), boost::test_tools::per_element());
  BOOST_TEST(around(every_other, kCount / 2 - 2) == (Bytes{250, 250, 250, 246, 246}), boost::test_tools::per_element());

  Generator generator(test_seed());
  raw::bernoulli_(sum, 1, generator);
  BOOST_TEST(around(sum, kCount - 3) == (Bytes{1, 1, 1, 1, 1}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
