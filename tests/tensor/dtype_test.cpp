#include "tendril/tensor/dtype.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include "tendril/tensor/raw.h"
#include "tests/golden.h"

BOOST_AUTO_TEST_SUITE(dtype)

using namespace tendril;

namespace {

const DType kAll[] = {kFloat32, kFloat64, kInt64, kInt32, kUInt8, kBool, kFloat16, kBFloat16};

DType dtype_called(const std::string& name) {
  for (const DType dtype : kAll) {
    if (name == name_of(dtype)) return dtype;
  }
  throw Error("no dtype " + name);
}

Tensor operand(const std::string& name) {
  const auto dot = name.find('.');
  return raw::ones(dot == std::string::npos ? Dims{2} : Dims{}, dtype_called(name.substr(0, dot)));
}

/// The value of a binary16, straight from the definition.
double value_of_half(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == 31) return fraction ? NAN : sign * INFINITY;
  return exponent == 0 ? sign * std::ldexp(fraction, -24) : sign * std::ldexp(1024 + fraction, exponent - 25);
}

}  // namespace

BOOST_AUTO_TEST_CASE(types_promote_as_in_pytorch) {
  std::ifstream file = testing::open_golden(TENDRIL_TEST_DATA "/promotion.txt");
  std::string a, b, expected;
  int lines = 0;
  for (; file >> a >> b >> expected; ++lines) {
    BOOST_TEST_CONTEXT(a << " with " << b) {
      DType result;
      if (b == "number:bool") {
        result = raw::result_type(operand(a), true);
      } else if (b == "number:int") {
        result = raw::result_type(operand(a), 1);
      } else if (b == "number:float") {
        result = raw::result_type(operand(a), 1.0);
      } else {
        result = raw::result_type(operand(a), operand(b));
      }
      BOOST_TEST(name_of(result) == expected);
    }
  }
  BOOST_TEST(lines == 16 * 19);
}

BOOST_AUTO_TEST_CASE(every_half_converts_to_its_value_and_back) {
  for (int i = 0; i < 0x10000; ++i) {
    Half half;
    half.bits = static_cast<uint16_t>(i);
    const auto value = static_cast<float>(half);
    const double expected = value_of_half(half.bits);
    if (std::isnan(expected)) {
      BOOST_REQUIRE(std::isnan(value));
      BOOST_REQUIRE(std::isnan(static_cast<float>(Half(value))));
    } else {
      BOOST_REQUIRE(static_cast<double>(value) == expected);
      BOOST_REQUIRE(Half(value).bits == half.bits);
    }
  }
}

BOOST_AUTO_TEST_CASE(rounding_to_half_is_to_nearest_even) {
  // Between every two neighbours: the middle goes to the even one, everything else to the nearer one.
  for (int i = 0; i < 0x7c00; ++i) {
    const double low = value_of_half(static_cast<uint16_t>(i));
    const double high = i == 0x7bff ? 65536.0 : value_of_half(static_cast<uint16_t>(i + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    const auto even = static_cast<uint16_t>(i % 2 == 0 ? i : i + 1);
    BOOST_REQUIRE(Half(middle).bits == even);
    BOOST_REQUIRE(Half(-middle).bits == (even | 0x8000));
    BOOST_REQUIRE(Half(std::nextafter(middle, 0.0f)).bits == i);
    BOOST_REQUIRE(Half(std::nextafter(middle, INFINITY)).bits == i + 1);
  }
  BOOST_TEST(Half(1e10f).bits == 0x7c00);
  BOOST_TEST(Half(-INFINITY).bits == 0xfc00);
}

BOOST_AUTO_TEST_CASE(every_bfloat16_converts_to_its_value_and_back) {
  for (int i = 0; i < 0x10000; ++i) {
    BFloat16 x;
    x.bits = static_cast<uint16_t>(i);
    const auto value = static_cast<float>(x);
    if (std::isnan(value)) {
      BOOST_REQUIRE(std::isnan(static_cast<float>(BFloat16(value))));
    } else {
      BOOST_REQUIRE(BFloat16(value).bits == x.bits);
    }
  }
}

BOOST_AUTO_TEST_CASE(rounding_to_bfloat16_is_to_nearest_even) {
  for (uint32_t i = 0; i < 0x7f80; ++i) {
    const auto middle = std::bit_cast<float>(i << 16 | 0x8000);
    BOOST_REQUIRE(BFloat16(middle).bits == (i % 2 == 0 ? i : i + 1));
    BOOST_REQUIRE(BFloat16(std::nextafter(middle, 0.0f)).bits == i);
    BOOST_REQUIRE(BFloat16(std::nextafter(middle, INFINITY)).bits == i + 1);
  }
}

BOOST_AUTO_TEST_CASE(every_pair_of_types_converts) {
  const std::vector<double> values = {0, 1, 2, 100, 127};  // what every type but bool holds exactly
  for (const DType from : kAll) {
    const Tensor source = raw::cast(raw::from_data(values, {5}), from);
    for (const DType to : kAll) {
      BOOST_TEST_CONTEXT(from << " to " << to) {
        const Tensor converted = raw::cast(source, to);
        BOOST_TEST(converted.dtype() == to);
        const std::vector<double> got = converted.to_vector<double>();
        for (std::size_t i = 0; i < values.size(); ++i) {
          const bool logical = from == kBool || to == kBool;
          BOOST_TEST(got[i] == (logical ? double(values[i] != 0) : values[i]));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(fractions_are_cut_and_everything_but_zero_is_true) {
  const Tensor x = raw::from_data(std::vector<double>{-1.75, 0.5, -0.0, NAN, 3.99}, {5});
  const auto whole = raw::cast(x, kInt32).to_vector<int64_t>();
  BOOST_TEST(whole[0] == -1);
  BOOST_TEST(whole[1] == 0);
  BOOST_TEST(whole[4] == 3);
  BOOST_TEST((raw::cast(x, kBool).to_vector<bool>() == std::vector<bool>{true, true, false, true, true}));
}

BOOST_AUTO_TEST_CASE(a_float_out_of_an_integers_range_does_not_trap) {
  const Tensor x = raw::from_data(std::vector<double>{1e30, -1e30, NAN, INFINITY}, {4});
  for (const DType to : {kInt64, kInt32, kUInt8}) BOOST_TEST(raw::cast(x, to).numel() == 4);
}

BOOST_AUTO_TEST_SUITE_END()
