// What draws random numbers writes every element, whatever the size and the number of threads.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "tests/tensor/against_float64.h"

BOOST_AUTO_TEST_SUITE(random_fills)

using namespace tendril;
using testing::roll;

namespace {

using raw::view_of;

const Kernels& table = *kernels(kCPU);
const DType kFloating[] = {kFloat32, kFloat64, kFloat16, kBFloat16};

/// Sizes of all remainders of a block's numbers, some of them for several threads.
int64_t some_size(int round) { return roll(1, 40) + (round % 4 == 0 ? 150'000 : 0); }

/// fill(out) of `size` elements that are `before`, the same on one thread and on three, leaves all in [low, high].
template <class Fill>
void check(const char* name, DType dtype, int64_t size, Scalar before, double low, double high, const Fill& fill) {
  Tensor first;
  for (const int threads : {1, 3}) {
    const ThreadLimit limit(threads);
    const Tensor out = raw::full({size}, before, dtype);
    fill(out);
    bool all = true;
    for (const double number : out.to_vector<double>()) all = all && number >= low && number <= high;  // no NaN
    BOOST_TEST(all, name << " of " << size << " " << dtype << ", " << threads << " threads");
    if (!first.defined()) first = out;
    BOOST_TEST(raw::equal(out, first), name << " of " << size << " " << dtype);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(fills_write_every_element) {
  for (int round = 0; round < 16; ++round) {
    const int64_t size = some_size(round);
    for (const DType dtype : kFloating) {
      check("uniform", dtype, size, std::nan(""), 0.25, 0.75,
            [](const Tensor& out) { table.uniform(view_of(out), 0.25, 0.75, 9, 5); });
      check("normal", dtype, size, std::nan(""), -20, 20,
            [](const Tensor& out) { table.normal(view_of(out), 1, 2, 9, 5); });
      check("bernoulli", dtype, size, std::nan(""), 0, 1,
            [](const Tensor& out) { table.bernoulli(view_of(out), 0.5, 9, 5); });
      check("randint", dtype, size, std::nan(""), 3, 7,
            [](const Tensor& out) { table.randint(view_of(out), 3, 8, 9, 5); });
    }
    for (const DType dtype : {kInt64, kInt32}) {
      check("randint", dtype, size, -1, 3, 7, [](const Tensor& out) { table.randint(view_of(out), 3, 8, 9, 5); });
      check("bernoulli", dtype, size, -1, 0, 1, [](const Tensor& out) { table.bernoulli(view_of(out), 0.5, 9, 5); });
    }
  }
}

BOOST_AUTO_TEST_CASE(dropout_is_a_product_with_what_bernoulli_draws) {
  for (int round = 0; round < 16; ++round) {
    const int64_t size = some_size(round);
    for (const DType dtype : kFloating) {
      const double p = round % 3 ? 0.5 : 0.75;  // 1 / (1 - p) is exact
      const Tensor x = raw::cast(testing::noise({size}), dtype), kept = raw::full({size}, std::nan(""), dtype);
      table.bernoulli(view_of(kept), 1 - p, 9, 5);
      const Tensor expected = raw::binary(Binary::mul, raw::binary(Binary::mul, x, kept), 1 / (1 - p));
      check("dropout", dtype, size, std::nan(""), -4, 4, [&](const Tensor& out) {
        table.dropout(view_of(out), view_of(x), p, 9, 5);
        BOOST_TEST(raw::equal(out, expected), size << " " << dtype);
      });
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
