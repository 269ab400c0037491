// The largest and smallest of lines whose elements lie side by side, which are loaded 16 bytes at a time: values and
// places are the CPU's, whatever the length, where a line begins, and which thread sees the best.
#include <boost/test/unit_test.hpp>
#include <limits>
#include <vector>

#include "tests/cuda/laid_out.h"

using namespace tendril;
using namespace tendril::testing;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
const std::vector<DType> kAll = {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kUInt8, kBool};
const std::vector<DType> kFloating = {kFloat32, kFloat64, kFloat16, kBFloat16};

/// Of each line: values, and places with them and alone.
void check_best(const Tensor& x) {
  const Tensor there = raw::to(x, kCuda);
  for (const bool largest : {true, false}) {
    const auto [values, places] = largest ? there.max(-1) : there.min(-1);
    const auto [expected_values, expected_places] = largest ? x.max(-1) : x.min(-1);
    check_close(values, expected_values, 0, 0);
    check_close(places, expected_places, 0, 0);
    check_close(largest ? there.argmax(-1) : there.argmin(-1), expected_places, 0, 0);
  }
}

/// One line with `value` at some places.
Tensor line_with(int64_t length, double other, const std::vector<int64_t>& places, double value, DType dtype) {
  const Tensor x = raw::full({length}, other, dtype);
  for (const int64_t at : places) raw::fill_(raw::narrow(x, 0, at, 1), value);
  return x;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(extremum)

BOOST_AUTO_TEST_CASE(lines_of_every_length_have_the_cpus_extrema) {
  for (const DType dtype : kAll) {
    for (const int64_t length : {1, 3, 4, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1023, 1024, 1025}) {
      BOOST_TEST_CONTEXT(dtype << " of length " << length) { check_best(numbers({9, length}, dtype)); }
    }
    for (const int64_t length : {5000, 100'000}) {  // the second is cut into shares
      BOOST_TEST_CONTEXT(dtype << " of length " << length) { check_best(numbers({2, length}, dtype, length)); }
    }
  }
}

BOOST_AUTO_TEST_CASE(many_lines_have_a_warp_each) {
  for (const DType dtype : {kFloat32, kUInt8}) check_best(numbers({4100, 300}, dtype));
}

BOOST_AUTO_TEST_CASE(lines_may_begin_where_no_vector_can) {
  for (const DType dtype : kAll) {
    for (const int64_t length : {64, 130, 9001}) {
      for (const int64_t before : {1, 2, 3, 7}) {
        BOOST_TEST_CONTEXT(dtype << " of length " << length << ", " << before << " later") {
          const Tensor x = numbers({2, length + before}, dtype), there = raw::to(x, kCuda);
          const auto window = [&](const Tensor& all) { return raw::narrow(all, 1, before, length); };
          for (const bool largest : {true, false}) {
            const auto best = [&](const Tensor& all) { return largest ? all.argmax(1) : all.argmin(1); };
            check_close(best(window(there)), best(window(x)), 0, 0);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(of_equals_the_first_is_found_whichever_thread_sees_it) {
  for (const int64_t length : {129, 1025, 9001}) {
    for (const DType dtype : {kFloat32, kFloat16, kInt64, kUInt8}) {
      check_best(raw::full({2, length}, 3, dtype));
      for (const int64_t first : {int64_t{0}, int64_t{1}, int64_t{5}, int64_t{66}, length - 2}) {
        for (const int64_t second : {first + 1, int64_t{70}, int64_t{128}, length - 1}) {
          if (second <= first || second >= length) continue;
          BOOST_TEST_CONTEXT(dtype << " of length " << length << ": equal at " << first << " and " << second) {
            for (const double value : {7, 1}) check_best(line_with(length, 4, {first, second}, value, dtype));
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_nan_wins_and_the_first_of_them) {
  for (const int64_t length : {65, 1025, 9001}) {
    for (const DType dtype : kFloating) {
      for (const std::vector<int64_t>& places :
           {std::vector<int64_t>{0}, {length - 1}, {0, length - 1}, {1, 2}, {33, 50}, {3, 64, length - 2}}) {
        const Tensor x = line_with(length, 4, places, kNan, dtype);
        raw::fill_(raw::narrow(x, 0, length / 2, 1), 9);
        BOOST_TEST_CONTEXT(dtype << " of length " << length << ", NaN first at " << places[0]) {
          check_best(x);
          BOOST_TEST(raw::to(x, kCuda).argmax(0).item<int64_t>() == places[0]);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(zeros_of_either_sign_are_equal_and_lines_of_infinities_have_a_place) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const DType dtype : kFloating) {
    for (const double sign : {1.0, -1.0}) {
      const Tensor zeros = line_with(1025, sign * 0.0, {0, 7, 500, 1024}, -sign * 0.0, dtype);
      check_best(zeros);
      for (const bool largest : {true, false}) {
        const auto best = [&](const Tensor& x) { return std::get<0>(largest ? x.max(0) : x.min(0)); };
        const double here = best(zeros).item<double>(), there = best(raw::to(zeros, kCuda)).item<double>();
        BOOST_TEST(std::signbit(here) == std::signbit(there));
      }
      check_best(raw::full({3, 129}, sign * kInf, dtype));
      check_best(line_with(1025, sign * kInf, {700}, -sign * kInf, dtype));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
