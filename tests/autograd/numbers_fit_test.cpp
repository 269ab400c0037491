// A number that an integer tensor cannot hold is an error, whatever operation writes it.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
#include <map>

#include "tendril/autograd/ops/indexing.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/rearrange.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/raises.h"
#include "tests/errors.h"

BOOST_AUTO_TEST_SUITE(numbers_fit)

using namespace tendril;

BOOST_AUTO_TEST_CASE(every_operation_that_writes_a_number_checks_it) {
  const Tensor place = tensor({1});
  const std::map<std::string, std::function<void(const Tensor&, Scalar)>> writes = {
      {"fill_", [](const Tensor& x, Scalar v) { x.fill_(v); }},
      {"full", [](const Tensor& x, Scalar v) { (void)full({2}, v, {.dtype = x.dtype()}); }},
      {"full_like", [](const Tensor& x, Scalar v) { (void)full_like(x, v); }},
      {"new_full", [](const Tensor& x, Scalar v) { (void)x.new_full({2}, v); }},
      {"masked_fill", [](const Tensor& x, Scalar v) { (void)x.masked_fill(x.eq(0), v); }},
      {"masked_fill", [](const Tensor& x, Scalar v) { x.masked_fill_(x.eq(0), v); }},
      {"index_fill", [&](const Tensor& x, Scalar v) { (void)x.index_fill(0, place, v); }},
      {"index_fill_", [&](const Tensor& x, Scalar v) { x.index_fill_(0, place, v); }},
      {"scatter", [&](const Tensor& x, Scalar v) { (void)x.scatter(0, place, v); }},
      {"scatter_", [&](const Tensor& x, Scalar v) { x.scatter_(0, place, v); }},
      {"pad",
       [](const Tensor& x, Scalar v) {
         (void)pad(x, {1, 1}, PadMode::constant, v);
       }},
      {"x[...] = value", [](const Tensor& x, Scalar v) { x[{Slice(0, 1)}] = v; }},
      {"x[...] = value", [&](const Tensor& x, Scalar v) { x.index_put_({place}, v); }},
  };
  for (const auto& [name, write] : writes) {
    for (const DType dtype : {kUInt8, kInt32, kInt64}) {
      for (const Scalar value : {Scalar(1e30), Scalar(std::nan("")), Scalar(HUGE_VAL)}) {
        const Tensor x = zeros({3}, {.dtype = dtype});
        BOOST_CHECK_EXCEPTION(write(x, value), DTypeError, testing::says(name, "does not convert to"));
        BOOST_TEST(x.eq(0).all().item<bool>(), name);
      }
      write(zeros({3}, {.dtype = dtype}), 7);
    }
    const Tensor x = zeros({3}, {.dtype = kUInt8});
    BOOST_CHECK_EXCEPTION(write(x, 300), DTypeError, testing::says(name, "300 does not convert to uint8"));
  }
}

BOOST_AUTO_TEST_CASE(an_unsigned_number_above_the_largest_int64_is_an_error) {
  CHECK_RAISES(DTypeError, "Scalar: got 9223372036854775808, expected an integer of at most 9223372036854775807",
               zeros({1}) + (uint64_t{1} << 63));
  BOOST_TEST(Scalar(uint64_t{INT64_MAX}).to<int64_t>() == INT64_MAX);
}

BOOST_AUTO_TEST_SUITE_END()
