// The order of lines on a device is the CPU's.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "tests/cuda/slots.h"

using namespace tendril;
using namespace tendril::testing;

namespace {

/// Few different numbers, so that many are equal, and what has an order of its own.
Tensor with_equals(const Dims& sizes, DType dtype) {
  const Tensor x = raw::cast(raw::binary(Binary::mul, random(sizes, kFloat64, 5), 3), kInt32);
  const Tensor numbers = raw::cast(dtype == kBool || dtype == kUInt8 ? raw::binary(Binary::mul, x, x) : x, dtype);
  if (!is_floating(dtype) || x.numel() < 8) return numbers;
  const Tensor flat = raw::view(numbers, {x.numel()});
  const double special[] = {std::nan(""), -0.0, 0.0, HUGE_VAL, -HUGE_VAL, -std::nan("")};
  for (int64_t i = 0; i < 6; ++i) raw::fill_(raw::select(flat, 0, i * x.numel() / 8), special[i]);
  return numbers;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sort)

BOOST_AUTO_TEST_CASE(places_are_the_cpus_for_every_dtype_direction_and_number_of_lines) {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kUInt8, kBool}) {
    for (const Dims& sizes :
         {Dims{1}, Dims{1000}, Dims{3, 77}, Dims{40, 33}, Dims{2, 5, 9}, Dims{0, 4}, Dims{300, 1}}) {
      for (const bool descending : {false, true}) {
        const Pair x(with_equals(sizes, dtype)), places(sizes, kInt64);
        on_both([&](const Kernels& table, Device device) {
          table.sort_places(places.view(device), x.view(device), descending);
        });
        BOOST_TEST(places.difference(0) == "", dtype << sizes << (descending ? " descending" : " ascending"));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(lines_that_are_no_neighbours_are_sorted_where_they_lie) {
  const Pair x(with_equals({30, 20}, kFloat32)), places({20, 30}, kInt64);
  on_both([&](const Kernels& table, Device device) {
    const Tensor columns = raw::transpose(x.on(device), 0, 1);
    table.sort_places(places.view(device), raw::view_of(columns), false);
  });
  BOOST_TEST(places.difference(0) == "");
}

BOOST_AUTO_TEST_CASE(whole_numbers_at_both_ends_are_in_order) {
  const Tensor x = raw::from_data(std::vector<int64_t>{0, INT64_MAX, -1, INT64_MIN, 1, INT64_MAX - 1}, {6});
  const Pair in(x), places({6}, kInt64);
  on_both([&](const Kernels& table, Device device) { table.sort_places(places.view(device), in.view(device), false); });
  BOOST_TEST((raw::to(places.gpu, kCPU).to_vector<int64_t>() == std::vector<int64_t>{3, 2, 0, 4, 5, 1}));
}

BOOST_AUTO_TEST_SUITE_END()
