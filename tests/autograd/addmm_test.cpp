#include <cmath>
#include <limits>

#include "tendril/autograd/ops/matmul.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/raises.h"

BOOST_AUTO_TEST_SUITE(addmm)

using namespace tendril;
using boost::test_tools::per_element;

namespace {
using Values = std::vector<double>;
Values values(const Tensor& x) { return x.to_vector<double>(); }
Tensor nans() { return full({2, 2}, std::numeric_limits<double>::quiet_NaN(), {.requires_grad = true}); }
}  // namespace

BOOST_AUTO_TEST_CASE(integers_stay_integers) {
  for (DType dtype : {kInt64, kInt32, kUInt8}) {
    const Tensor x = ones({2, 2}, {.dtype = dtype});
    const Tensor plain = tendril::addmm(x, x, x), scaled = tendril::addmm(x, x, x, 2, 3);
    BOOST_TEST((plain.dtype() == dtype));
    BOOST_TEST((scaled.dtype() == dtype));
    BOOST_TEST(values(plain) == (Values{3, 3, 3, 3}), per_element());
    BOOST_TEST(values(scaled) == (Values{8, 8, 8, 8}), per_element());
    CHECK_RAISES(DTypeError, "addmm: beta: got 0.5, expected an integer", tendril::addmm(x, x, x, 0.5));
    CHECK_RAISES(DTypeError, "addmm: alpha: got 1.5, expected an integer", tendril::addmm(x, x, x, 1, 1.5));
    CHECK_RAISES(DTypeError, "addmm: alpha: got 1e+300, expected an integer", tendril::addmm(x, x, x, 1, 1e300));
  }
  CHECK_RAISES(DTypeError, "addmm: c is float32, expected a's and b's int64",
               tendril::addmm(ones({2, 2}), tensor({{1}}), tensor({{1}})));
}

BOOST_AUTO_TEST_CASE(what_is_multiplied_by_0_is_left_out) {
  const Tensor c = nans(), a = ones({2, 2}, {.requires_grad = true}), b = ones({2, 2});
  const Tensor y = tendril::addmm(c, a, b, 0);
  BOOST_TEST(values(y) == (Values{2, 2, 2, 2}), per_element());
  y.sum().backward();
  BOOST_TEST(values(c.grad()) == (Values{0, 0, 0, 0}), per_element());
  BOOST_TEST(values(a.grad()) == (Values{2, 2, 2, 2}), per_element());

  const Tensor d = ones({2, 2}, {.requires_grad = true}), e = nans(), f = nans();
  const Tensor z = tendril::addmm(d, e, f, 3, 0);
  BOOST_TEST(values(z) == (Values{3, 3, 3, 3}), per_element());
  z.sum().backward();
  BOOST_TEST(values(d.grad()) == (Values{3, 3, 3, 3}), per_element());
  BOOST_TEST(values(e.grad()) == (Values{0, 0, 0, 0}), per_element());
  BOOST_TEST(values(f.grad()) == (Values{0, 0, 0, 0}), per_element());
}

BOOST_AUTO_TEST_CASE(half_types_are_rounded_once) {
  for (DType dtype : {kFloat16, kBFloat16}) {
    const auto all = [&](double value) { return full({2, 2}, value, {.dtype = dtype, .requires_grad = true}); };
    const Tensor a = all(256), b = all(256);
    const Tensor y = tendril::addmm(all(1), a, b, 3, 1. / 1024);  // the product is 2^17, which is no float16
    BOOST_TEST((y.dtype() == dtype));
    BOOST_TEST(values(y) == Values(4, 131), per_element());
    BOOST_TEST(values(tendril::addmm(all(-32768), all(128), all(256))) == Values(4, 32768), per_element());
    y.sum().backward();
    BOOST_TEST(values(a.grad()) == Values(4, 0.5), per_element());
  }
}

BOOST_AUTO_TEST_CASE(what_is_left_out_must_fit_all_the_same) {
  const Tensor x = ones({2, 2});
  CHECK_RAISES(ShapeError, "[3]", tendril::addmm(ones({3}), x, x, 0));
  CHECK_RAISES(ShapeError, "cannot be multiplied", tendril::addmm(x, x, ones({3, 2}), 1, 0));
}

BOOST_AUTO_TEST_CASE(batches_are_as_single_ones) {
  const Tensor ints = ones({1, 2, 2}, {.dtype = kInt64});
  CHECK_RAISES(DTypeError, "baddbmm: alpha: got 0.5, expected an integer", baddbmm(ints, ints, ints, 1, 0.5));
  const Tensor c = ones({1, 2, 2}, {.requires_grad = true}), a = nans().reshape({1, 2, 2}), b = ones({1, 2, 2});
  const Tensor y = baddbmm(c, a, b, 2, 0);
  BOOST_TEST(values(y) == (Values{2, 2, 2, 2}), per_element());
  y.sum().backward();
  BOOST_TEST(values(c.grad()) == (Values{2, 2, 2, 2}), per_element());
  const Tensor half = full({1, 1, 1}, 1, {.dtype = kFloat16}), tiny = full({1, 1, 1}, 0x1p-11, {.dtype = kFloat16});
  const Tensor one = full({1, 1, 1}, 1.5, {.dtype = kFloat16});  // 1 + 1.5 * 2^-11 rounds to 1 + 2^-10
  BOOST_TEST(values(baddbmm(half, one, tiny)) == (Values{1 + 0x1p-10}), per_element());
}

BOOST_AUTO_TEST_SUITE_END()
