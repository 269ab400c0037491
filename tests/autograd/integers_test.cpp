// Bits, remainders, steps in place by the table, and what stands beside them.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/random.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/kernels.h"
#include "tests/autograd/raises.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(integers)

using namespace tendril;
using tendril::testing::test_seed;

namespace {
using Values = std::vector<double>;
constexpr auto per_element = boost::test_tools::per_element();
Values values(const Tensor& x) { return x.to_vector<double>(); }
const double kNaN = std::nan(""), kInfinity = HUGE_VAL;
const DType kIntegers[] = {kInt64, kInt32, kUInt8};
}  // namespace

BOOST_AUTO_TEST_CASE(bits_are_for_integers_and_bool) {
  for (const DType dtype : kIntegers) {
    const Tensor x = tensor({12, 10, 7}, {.dtype = dtype}), y = tensor({10, 3, 0}, {.dtype = dtype});
    BOOST_TEST(values(x & y) == Values({8, 2, 0}), per_element);
    BOOST_TEST(values(x | y) == Values({14, 11, 7}), per_element);
    BOOST_TEST(values(x ^ 6) == Values({10, 12, 1}), per_element);
    BOOST_TEST(values(x << 2) == Values({48, 40, 28}), per_element);
    BOOST_TEST(values(x >> tensor({1, 2, 99}, {.dtype = dtype})) == Values({6, 2, 0}), per_element);
    BOOST_TEST((x & y).dtype() == dtype);
  }
  const Tensor t = tensor({true, true, false}), f = tensor({false, true, false});
  BOOST_TEST(values(t & f) == Values({0, 1, 0}), per_element);
  BOOST_TEST(values(t ^ f) == Values({1, 0, 0}), per_element);
  BOOST_TEST(values(~t | f) == Values({0, 1, 1}), per_element);
  BOOST_TEST((t & f).dtype() == kBool);
  BOOST_TEST(values(~tensor({0, -1, 5})) == Values({-1, 0, -6}), per_element);
  BOOST_TEST(values(~tensor({0, 5}, {.dtype = kUInt8})) == Values({255, 250}), per_element);
  CHECK_RAISES(DTypeError, "bitwise_and: expected integers or bool, got float32", ones({2}) & 1);
  CHECK_RAISES(DTypeError, "bitwise_not: expected integers or bool, got float32", ~ones({2}));
  CHECK_RAISES(DTypeError, "bitwise_left_shift: expected integers, got float32", tensor({1}) << 1.5);
  CHECK_RAISES(DTypeError, "bitwise_right_shift: not for bool", t >> f);
}

BOOST_AUTO_TEST_CASE(shifts_by_no_place_of_a_bit_leave_the_sign) {
  const Tensor x = tensor({5, -5}), far = tensor({64, -1});
  BOOST_TEST(values(x << far) == Values({0, 0}), per_element);
  BOOST_TEST(values(x >> far) == Values({0, -1}), per_element);
  BOOST_TEST(values(tensor({-5, -1}) >> 1) == Values({-3, -1}), per_element);
  BOOST_TEST(values(tensor({1, 3}, {.dtype = kInt32}) << 31) == Values({INT32_MIN, INT32_MIN}), per_element);
}

BOOST_AUTO_TEST_CASE(remainders_have_the_sign_of_one_operand) {
  const Tensor x = tensor({7, -7, 7, -7}), y = tensor({3, 3, -3, -3});
  BOOST_TEST(values(x % y) == Values({1, 2, -2, -1}), per_element);
  BOOST_TEST(values(x.fmod(y)) == Values({1, -1, 1, -1}), per_element);
  BOOST_TEST(values(x % 2.5) == Values({2, 0.5, 2, 0.5}), per_element);
  BOOST_TEST(values(10 % y) == Values({1, 1, -2, -2}), per_element);
  BOOST_TEST(values(tensor({INT64_MIN, int64_t{5}}) % -1) == Values({0, 0}), per_element);
  BOOST_TEST(values(tensor({250, 7}, {.dtype = kUInt8}) % 100) == Values({50, 7}), per_element);
  BOOST_TEST(std::isnan(values(tensor({1.0}) % 0.0)[0]));
  if (default_device().is_cpu()) {  // elsewhere nobody waits for the divisors
    CHECK_RAISES(Error, "remainder: division of an integer by 0", x % tensor({1, 2, 0, 3}));
    CHECK_RAISES(Error, "fmod: division of an integer by 0", fmod(5, tensor({1, 0})));
  }
  CHECK_RAISES(Error, "remainder: division of an integer by 0", x % 0);
  Tensor z = tensor({9, -9});
  z %= 4;
  BOOST_TEST(values(z) == Values({1, 3}), per_element);
}

BOOST_AUTO_TEST_CASE(every_row_has_its_step_in_place) {
  // What the operation gives, in the tensor itself, recorded and not; where it leaves the dtype, nothing has changed.
  const auto check = [](const std::string& name, const auto& plain, const auto& step, DType dtype, bool records) {
    const double shift = name == "acosh" ? 1 : 0;  // below 1 it is NaN
    const Tensor given =
        is_floating(dtype) ? tensor({0.25 + shift, 0.5 + shift, 0.75 + shift}, {.dtype = dtype}) : tensor({0, 1, 2});
    if (records) given.requires_grad_();
    const Tensor before = given * 1, expected = plain(before), target = given * 1;
    if (is_floating(expected.dtype()) && !is_floating(dtype)) {
      BOOST_CHECK_THROW(step(target), DTypeError);
      BOOST_TEST(values(target) == values(given), name << per_element);
      return;
    }
    const uint32_t version = target.version();
    BOOST_TEST(step(target).is_same(target));
    BOOST_TEST(target.version() == version + 1);
    BOOST_TEST(target.dtype() == dtype);
    BOOST_TEST(values(target) == values(expected.to(dtype)), name << per_element);
    BOOST_TEST(target.requires_grad() == records, name);
    if (!records) return;
    const Tensor got = autograd::grad({target.sum()}, {given}, {}, {.materialize_grads = true})[0];
    const Tensor want = expected.requires_grad()
                            ? autograd::grad({expected.sum()}, {given}, {}, {.materialize_grads = true})[0]
                            : zeros_like(given);
    BOOST_TEST(values(got) == values(want), name << per_element);
  };
  const auto all = [&](const std::string& name, const auto& plain, const auto& step) {
    check(name, plain, step, kFloat64, false);
    check(name, plain, step, kFloat64, true);
    check(name, plain, step, kInt64, false);
  };
  const auto integers = [&](const std::string& name, const auto& plain, const auto& step) {
    check(name, plain, step, kInt64, false);
  };
  const Tensor other = tensor({2., 1., 3.}, {.dtype = kFloat64});
  const auto like = [&](const Tensor& x) { return other.to(x.dtype()); };
#define TENDRIL_UNARY(op, ...) \
  all(                         \
      #op, [](const Tensor& x) { return x.op(); }, [](const Tensor& x) { return x.op##_(); });
#define TENDRIL_PARAMETRIC(op, ...) \
  all(                              \
      #op, [](const Tensor& x) { return x.op(0.7); }, [](const Tensor& x) { return x.op##_(0.7); });
#define TENDRIL_COMPARE(op, ...)                                                                               \
  all(                                                                                                         \
      #op, [&](const Tensor& x) { return x.op(like(x)); }, [&](const Tensor& x) { return x.op##_(like(x)); }); \
  all(                                                                                                         \
      #op, [](const Tensor& x) { return x.op(1); }, [](const Tensor& x) { return x.op##_(1); });
#define TENDRIL_BINARY(op, ...) TENDRIL_COMPARE(op)
#define TENDRIL_INTEGRAL(op, ...)                                                                              \
  integers(                                                                                                    \
      #op, [&](const Tensor& x) { return x.op(like(x)); }, [&](const Tensor& x) { return x.op##_(like(x)); }); \
  integers(                                                                                                    \
      #op, [](const Tensor& x) { return x.op(1); }, [](const Tensor& x) { return x.op##_(1); });
#include "tendril/tensor/pointwise.def"
}

BOOST_AUTO_TEST_CASE(a_step_in_place_checks_first) {
  const Tensor x = tensor({1., 2., 3.});
  CHECK_RAISES(ShapeError, "broadcast", x.maximum_(ones({2, 3})));
  CHECK_RAISES(ShapeError, "broadcast", x.lt_(ones({2, 3})));
  CHECK_RAISES(AutogradError, "a leaf Variable that requires grad", ones({2}, {.requires_grad = true}).exp_());
  CHECK_RAISES(AutogradError, "a leaf Variable that requires grad", ones({2}, {.requires_grad = true}).lt_(1));
  CHECK_RAISES(AutogradError, "a leaf Variable that requires grad", ones({2}, {.requires_grad = true}).uniform_());
  CHECK_RAISES(Error, "exp_: the tensor is undefined", Tensor().exp_());
  BOOST_TEST(values(x) == Values({1, 2, 3}), per_element);
}

BOOST_AUTO_TEST_CASE(random_numbers_in_place) {
  Generator generator(test_seed()), again(test_seed());
  const Tensor x = zeros({20000}, {.dtype = kFloat64});
  x.exponential_(2, generator);
  BOOST_TEST(x.min().item<double>() >= 0);
  BOOST_TEST(x.mean().item<double>() == 0.5, boost::test_tools::tolerance(0.05));
  BOOST_TEST(x.var().item<double>() == 0.25, boost::test_tools::tolerance(0.2));
  BOOST_TEST(equal(x, zeros_like(x).exponential_(2, again)));
  for (const DType half : {kFloat16, kBFloat16}) {  // of whose u many are rounded to 1
    BOOST_TEST(empty({100'000}, {.dtype = half}).exponential_(1, generator).isfinite().all().item<bool>());
  }
  x.uniform_(-1, 3, generator);
  BOOST_TEST((x.min().item<double>() >= -1 && x.max().item<double>() < 3));
  x.normal_(5, 2, generator);
  BOOST_TEST(x.mean().item<double>() == 5, boost::test_tools::tolerance(0.05));
  x.bernoulli_(0.25, generator);
  BOOST_TEST(x.mean().item<double>() == 0.25, boost::test_tools::tolerance(0.1));
  BOOST_TEST(values(x.eq(0).logical_or(x.eq(1)).all()) == Values({1}));
  const Tensor leaf = ones({2}, {.requires_grad = true}), y = leaf * 2;
  y.uniform_();
  y.sum().backward();
  BOOST_TEST(values(leaf.grad()) == Values({0, 0}));
  CHECK_RAISES(DTypeError, "normal_: ", tensor({1}).normal_());
  CHECK_RAISES(Error, "exponential_: rate: expected a finite number above 0, got 0", x.exponential_(0));
  CHECK_RAISES(Error, "uniform_: expected low <= high", x.uniform_(1, 0));
  CHECK_RAISES(Error, "bernoulli_: the probability", x.bernoulli_(2));
}

BOOST_AUTO_TEST_CASE(places_are_drawn_by_their_weights) {
  Generator generator(test_seed());
  const Tensor weights = tensor({1., 0., 3., 4.}, {.dtype = kFloat32}), rows = tensor({{0., 1., 0.}, {2., 2., 0.}});
  const Tensor drawn = multinomial(weights, 16000, true, generator);
  BOOST_TEST((drawn.dtype() == kInt64 && drawn.sizes() == Dims{16000}));
  for (int64_t i = 0; i < 4; ++i) {
    const double share = drawn.eq(i).to(kFloat64).mean().item<double>(), expected = weights[i].item<double>() / 8;
    BOOST_TEST(std::abs(share - expected) < 0.027, i << ": " << share);
    if (expected == 0) BOOST_TEST(share == 0);
  }
  const Tensor of_rows = multinomial(rows, 50, true, generator);
  BOOST_TEST((of_rows.sizes() == Dims{2, 50}));
  BOOST_TEST(of_rows[0].eq(1).all().item<bool>());
  BOOST_TEST(of_rows[1].lt(2).all().item<bool>());

  // Without replacement: the first as above, and none twice.
  int heaviest = 0;
  for (int i = 0; i < 2000; ++i) {
    const Values three = values(multinomial(weights, 3, false, generator));
    heaviest += three[0] == 3;
    Values sorted = three;
    std::sort(sorted.begin(), sorted.end());
    BOOST_TEST_REQUIRE(sorted == Values({0, 2, 3}));
  }
  BOOST_TEST(std::abs(heaviest / 2000. - 0.5) < 0.08);
  BOOST_TEST(values(multinomial(rows, 1, false, generator))[0] == 1);
  CHECK_RAISES(Error, "3 samples without replacement of a row that has 1 weights above 0", multinomial(rows, 3));
  CHECK_RAISES(Error, "a weight is negative or not finite", multinomial(tensor({1., -1.}), 1));
  CHECK_RAISES(Error, "a weight is negative or not finite", multinomial(tensor({1., kNaN}), 1));
  CHECK_RAISES(Error, "all weights of a row are 0", multinomial(zeros({2}), 1, true));
  CHECK_RAISES(Error, "a number of samples above 0", multinomial(weights, 0));
  CHECK_RAISES(ShapeError, "got [0]", multinomial(zeros({0}), 1));
  CHECK_RAISES(DTypeError, "multinomial", multinomial(tensor({1, 2}), 1));
  BOOST_TEST((rand_like(rows).sizes() == rows.sizes() && randn_like(rows).dtype() == rows.dtype()));
  BOOST_TEST(rand_like(zeros({100})).lt(1).all().item<bool>());
}

BOOST_AUTO_TEST_CASE(tensors_as_a_whole_are_equal_or_close) {
  const Tensor x = tensor({1., kNaN, kInfinity});
  BOOST_TEST(!equal(x, x));
  BOOST_TEST(equal(ones({2}), ones({2})));
  BOOST_TEST(!equal(ones({2}), ones({1, 2})));
  BOOST_TEST(!allclose(x, x));
  BOOST_TEST(allclose(x, x * 1, 1e-5, 1e-8, true));
  BOOST_TEST(!allclose(tensor({1., 2.}), tensor({1., kInfinity})));
  BOOST_TEST(!allclose(tensor({kInfinity}), tensor({-kInfinity})));
  BOOST_TEST(allclose(ones({2}), ones({2}) + 1e-6));
  BOOST_TEST(!allclose(ones({2}), ones({2}) + 1e-3));
  BOOST_TEST(allclose(tensor({3}), tensor({3})));
  CHECK_RAISES(DTypeError, "equal: expected one dtype, got float32 and int64", equal(ones({2}), tensor({1, 1})));
  CHECK_RAISES(DTypeError, "allclose: expected one dtype", allclose(ones({2}), tensor({1, 1})));
}

BOOST_AUTO_TEST_CASE(an_accessor_reads_and_writes_elements) {
  const Tensor x = tensor({{1., 2., 3.}, {4., 5., 6.}}, {.device = kCPU});
  const auto a = x.t().accessor<float, 2>();
  BOOST_TEST((a.size(0) == 3 && a.size(1) == 2));
  BOOST_TEST(a[2][1] == 6);
  a[0][1] = 40;
  BOOST_TEST((x.accessor<const float, 2>()[1][0] == 40));
  CHECK_RAISES(ShapeError, "accessor: the tensor has 2 dimensions, asked for 1", (x.accessor<float, 1>()));
  CHECK_RAISES(DTypeError, "float32, asked for float64", (x.accessor<double, 2>()));
  const TensorAccessor<float, 2, true> checked(a.data(), x.sizes().data(), x.strides().data());  // as without NDEBUG
  BOOST_TEST(checked[1][2] == 6);
  CHECK_RAISES(IndexError, "accessor: index 2 is out of range for a dimension of size 2", checked[2]);
  CHECK_RAISES(IndexError, "accessor: index -1", checked[0][-1]);
}

BOOST_AUTO_TEST_SUITE_END()
