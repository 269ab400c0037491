// Running results along a dimension, and recurrences, against the CPU's.
#include <boost/test/unit_test.hpp>
#include <limits>

#include "tendril/tensor/drivers/along.h"
#include "tests/cuda/laid_out.h"

using namespace tendril;
using namespace tendril::testing;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Short lines, long ones, and lines that several blocks share.
const Dims kSizes[] = {{3, 37}, {70, 3}, {2, 33, 5}, {2, 1100}, {1}, {0, 2}, {20001}, {2, 17000}};

void check_extrema(const Tensor& there, const Tensor& here, int64_t dim) {
  for (const bool largest : {true, false}) {
    const drivers::Extremum got = drivers::running_extremum(largest, there, dim),
                            expected = drivers::running_extremum(largest, here, dim);
    check_close(got.values, expected.values, 0, 0);
    check_close(got.indices, expected.indices, 0, 0);
  }
}
void check_scan(Scan op, const Tensor& there, const Tensor& here, int64_t dim, double rtol, double atol) {
  for (const bool reverse : {false, true}) {
    check_close(drivers::scan(op, there, dim, reverse), drivers::scan(op, here, dim, reverse), rtol, atol);
  }
}

/// Numbers around 1, whose products stay numbers.
Tensor factors(const Dims& sizes, DType dtype) {
  const Tensor all = raw::binary(Binary::add, raw::binary(Binary::mul, numbers(sizes, kFloat64), 0.001), 1);
  return raw::cast(all, dtype);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(scan)

BOOST_AUTO_TEST_CASE(running_results_are_those_of_the_cpu) {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    for (const Dims& sizes : kSizes) {
      for (const Laid& x : laid_out(factors(sizes, dtype))) {
        if (numel_of(sizes) > 10000 && x.name != "contiguous") continue;
        for (int d = 0; d < sizes.size(); ++d) {
          BOOST_TEST_CONTEXT(x.name << " " << dtype << sizes << " along " << d) {
            const double roundings = 2.3e-16 * static_cast<double>(sizes[d]);
            check_scan(Scan::prod, x.on(kCuda), x.on(kCPU), d, 8 * tolerance(dtype) + roundings, 0);
            check_scan(Scan::logsumexp, x.on(kCuda), x.on(kCPU), d, 8 * tolerance(dtype), 0);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(running_extrema_are_those_of_the_cpu_in_every_dtype) {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kUInt8, kBool}) {
    for (const Dims& sizes : kSizes) {
      for (const Laid& x : laid_out(numbers(sizes, dtype))) {
        if (numel_of(sizes) > 10000 && (x.name != "contiguous" || dtype != kFloat32)) continue;
        for (int d = 0; d < sizes.size(); ++d) {
          BOOST_TEST_CONTEXT(x.name << " " << dtype << sizes << " along " << d) {
            check_extrema(x.on(kCuda), x.on(kCPU), d);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(recurrences_are_those_of_the_cpu) {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    for (const Dims& sizes : kSizes) {
      const Tensor a = raw::cast(raw::binary(Binary::mul, numbers(sizes, kFloat64, 3), 0.3), dtype);
      const Tensor b = numbers(sizes, dtype, 5);
      for (int d = 0; d < sizes.size(); ++d) {
        for (const bool reverse : {false, true}) {
          BOOST_TEST_CONTEXT(dtype << sizes << " along " << d) {
            check_close(drivers::recurrence(raw::to(a, kCuda), raw::to(b, kCuda), d, reverse),
                        drivers::recurrence(a, b, d, reverse), 64 * tolerance(dtype), 32 * tolerance(dtype));
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(products_of_integers_wrap_around) {
  const Tensor x = raw::full({2, 20000}, 3, kInt64);
  check_scan(Scan::prod, raw::to(x, kCuda), x, 1, 0, 0);
}

BOOST_AUTO_TEST_CASE(products_of_float32_are_kept_in_double) {
  std::vector<float> values;
  for (int i = 0; i < 2000; ++i) values.push_back(i / 4 % 2 ? 1e-30F : 1e30F);
  const Tensor x = raw::from_data(values, {2000});
  check_close(raw::to(x, kCuda).cumprod(0), x.cumprod(0), 1e-5, 0);
  const Tensor few = raw::narrow(x, 0, 0, 8);
  check_close(raw::to(few, kCuda).prod(), few.prod(), 1e-5, 0);
}

BOOST_AUTO_TEST_CASE(special_values_are_those_of_the_cpu) {
  const std::vector<float> few = {-static_cast<float>(kInf),
                                  -static_cast<float>(kInf),
                                  1,
                                  -46,
                                  2,
                                  0,
                                  static_cast<float>(kInf),
                                  1,
                                  static_cast<float>(kNan),
                                  3};
  for (const int64_t length : {10, 300, 20000}) {
    std::vector<float> values(static_cast<std::size_t>(length), 0.5F);
    std::ranges::copy(few, values.end() - 10);
    const Tensor x = raw::from_data(values, {length});
    check_extrema(raw::to(x, kCuda), x, 0);
    check_close(raw::to(x, kCuda).logcumsumexp(0), x.logcumsumexp(0), 1e-5, 1e-6);
    check_close(raw::to(x, kCuda).cumprod(0), x.cumprod(0), 1e-5, 0);
    std::ranges::copy(few, values.begin());
    const Tensor y = raw::from_data(values, {length});
    check_close(raw::to(y, kCuda).logcumsumexp(0), y.logcumsumexp(0), 1e-5, 1e-6);
  }
  // The first factor is not read: it may be NaN.
  const Tensor a = raw::from_data(std::vector<float>{static_cast<float>(kNan), static_cast<float>(kInf), 2, 0}, {4}),
               b = raw::full({4}, 1, kFloat32);
  check_close(drivers::recurrence(raw::to(a, kCuda), raw::to(b, kCuda), 0, false), drivers::recurrence(a, b, 0, false),
              0, 0);
}

BOOST_AUTO_TEST_SUITE_END()
