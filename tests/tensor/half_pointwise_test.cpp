// What is computed of the half types in float32, a block at a time, against float64.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tendril/tensor/kernels.h"
#include "tendril/tensor/raw.h"
#include "tests/seed.h"
#include "tests/tensor/layouts.h"

BOOST_AUTO_TEST_SUITE(half_pointwise)

using namespace tendril;
using tendril::testing::case_engine;

namespace {

const DType kHalves[] = {kFloat16, kBFloat16};
int64_t roll(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(case_engine<std::mt19937>());
}

/// Of up to four dimensions, some of them longer than a block.
Dims some_sizes() {
  Dims sizes;
  for (int64_t d = roll(1, 4), room = 4000; d > 0; --d) {
    const int64_t size = roll(1, d == 1 ? room : std::min<int64_t>(room, 12));
    sizes.push_back(size);
    room = std::max<int64_t>(1, room / size);
  }
  return sizes;
}

Tensor noise(const Dims& sizes, DType dtype) {
  Generator generator(static_cast<uint64_t>(roll(0, 1 << 30)));
  const Tensor x = raw::empty(sizes, kFloat64);
  raw::uniform_(x, -3, 3, generator);
  return raw::cast(x, dtype);
}

/// Within what a half type rounds, and a little for float32.
void check(const Tensor& out, const Tensor& exact, const std::string& what) {
  const std::vector<double> got = out.to_vector<double>(), wanted = exact.to_vector<double>();
  BOOST_TEST_REQUIRE(got.size() == wanted.size());
  const double part = out.dtype() == kFloat16 ? 0x1p-11 : 0x1p-8;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double apart = std::abs(got[i] - wanted[i]), most = std::abs(wanted[i]) * part * 1.001 + 4e-7;
    if (apart <= most) continue;  // a check each would take minutes
    BOOST_FAIL(what << " of " << out.dtype() << ' ' << out.sizes() << ", element " << i << ": " << got[i] << " for "
                    << wanted[i]);
  }
}

/// check(x in one of its layouts, x in float64, name), for tensors of any shape; some repeat one row.
template <class Check>
void for_any(const Check& check_one) {
  for (int round = 0; round < 12; ++round) {
    for (const DType dtype : kHalves) {
      const Tensor x = noise(some_sizes(), dtype);
      for (const auto& [name, laid_out] : testing::in_every_layout(x)) {
        check_one(laid_out, raw::cast(x, kFloat64), name);
      }
      Dims one_row = x.sizes();
      one_row[0] = 1;
      const Tensor row = noise(one_row, dtype);
      check_one(raw::expand(row, x.sizes()), raw::expand(raw::cast(row, kFloat64), x.sizes()), "repeated");
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_number_on_either_side) {
  for_any([](const Tensor& x, const Tensor& wide, const std::string& layout) {
    for (const Binary op : {Binary::add, Binary::sub, Binary::mul, Binary::maximum}) {
      const std::string name = std::string(name_of(op)) + ", " + layout;
      check(raw::binary(op, x, 1.7), raw::binary(op, wide, 1.7), name);
      check(raw::binary(op, 1.7, x), raw::binary(op, 1.7, wide), name);
    }
  });
}

BOOST_AUTO_TEST_CASE(clamp) {
  for_any([](const Tensor& x, const Tensor& wide, const std::string& layout) {
    check(raw::clamp(x, -0.3, 1.1), raw::clamp(wide, -0.3, 1.1), layout);
    check(raw::clamp(x, {}, 0.7), raw::clamp(wide, {}, 0.7), layout);
    check(raw::clamp(x, 0.7, {}), raw::clamp(wide, 0.7, {}), layout);
  });
  for (const DType dtype : kHalves) {
    const Tensor x = raw::full({300}, NAN, dtype);
    for (const double value : raw::clamp(x, -1, 1).to_vector<double>()) BOOST_TEST_REQUIRE(std::isnan(value));
  }
}

BOOST_AUTO_TEST_CASE(add_scaled) {
  for_any([](const Tensor& y, const Tensor& wide, const std::string& layout) {
    const Tensor base = noise(y.sizes(), y.dtype());
    for (const auto& [name, out] : testing::in_every_layout(base)) {
      const Tensor exact = raw::cast(base, kFloat64);
      raw::add_scaled_(exact, wide, -0.37);
      raw::add_scaled_(out, y, -0.37);
      check(out, exact, name + " by " + layout);
    }
  });
}

BOOST_AUTO_TEST_CASE(dropout) {
  for (const DType dtype : kHalves) {
    for (int round = 0; round < 20; ++round) {
      const Tensor x = noise({roll(1, 3000)}, dtype), wide = raw::cast(x, kFloat64), out = raw::empty_like(x),
                   exact = raw::empty_like(wide);
      const auto seed = static_cast<uint64_t>(roll(0, 1000));
      kernels(kCPU)->dropout(raw::view_of(out), raw::view_of(x), 0.3, seed, 7);
      kernels(kCPU)->dropout(raw::view_of(exact), raw::view_of(wide), 0.3, seed, 7);
      check(out, exact, "dropout");
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
