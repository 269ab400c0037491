// Operations made of several compute in the dtype of their result, and round once.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "tendril/autograd/ops/combined.h"
#include "tendril/autograd/ops/einsum.h"
#include "tendril/autograd/ops/loss_pairs.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/raises.h"

BOOST_AUTO_TEST_SUITE(mixed_dtypes)

using namespace tendril;

namespace {

double only(const Tensor& x) { return x.to(kFloat64).to_vector<double>()[0]; }
Tensor one(double value, DType dtype) { return tensor({value}, {.dtype = kFloat64}).to(dtype); }

}  // namespace

BOOST_AUTO_TEST_CASE(products_do_not_overflow_before_they_are_added) {
  BOOST_TEST(only(addcmul(one(0, kInt64), one(100, kUInt8), one(100, kUInt8))) == 10000);
  const Tensor wide = addcmul(one(0, kFloat32), one(300, kFloat16), one(300, kFloat16));
  BOOST_TEST(only(wide) == 90000);
  BOOST_TEST(wide.dtype() == kFloat32);
  BOOST_TEST(only(addcmul(one(-60000, kFloat16), one(300, kFloat16), one(300, kFloat16))) == 30000);
  BOOST_TEST(only(one(0, kInt64).addcmul_(one(100, kUInt8), one(100, kUInt8))) == 10000);
  BOOST_TEST(only(add(one(1, kInt64), one(200, kUInt8), 2)) == 401);
  BOOST_TEST(only(sub(one(1, kInt64), one(200, kUInt8), 2)) == -399);
  BOOST_TEST(only(add(one(-60000, kFloat16), one(40000, kFloat16), 2)) == 20000);
}

BOOST_AUTO_TEST_CASE(quotients_have_the_digits_of_the_result) {
  BOOST_TEST(only(addcdiv(one(0, kFloat64), one(1, kFloat32), one(3, kFloat32))) == 1. / 3);
  BOOST_TEST(only(one(0, kFloat64).addcdiv_(one(1, kFloat32), one(3, kFloat32))) == 1. / 3);
}

BOOST_AUTO_TEST_CASE(a_factor_takes_no_part_in_promotion) {
  BOOST_TEST(add(one(1, kFloat16), one(2, kInt64), 0.5).dtype() == kFloat16);
  BOOST_TEST(only(add(one(1, kFloat16), one(2, kInt64), 0.5)) == 2);
  BOOST_TEST(addcmul(one(1, kFloat16), one(2, kInt64), one(3, kInt64), 0.5).dtype() == kFloat16);
  // Of tensors without dimensions only the category counts.
  BOOST_TEST(addcmul(one(1, kFloat16), tensor(2., {.dtype = kFloat64}), one(3, kInt32)).dtype() == kFloat16);
  BOOST_TEST(addcmul(one(1, kInt32), tensor(2., {.dtype = kFloat64}), one(3, kInt32)).dtype() == kFloat64);
  CHECK_RAISES(DTypeError, "addcmul: value is 0.5, expected an integer for int64",
               addcmul(one(1, kInt64), one(1, kInt64), one(1, kInt64), 0.5));
}

BOOST_AUTO_TEST_CASE(interpolation_is_rounded_once) {
  const Tensor x = lerp(one(-60000, kFloat16), one(60000, kFloat16), 0.25);
  BOOST_TEST(only(x) == -30000);
  BOOST_TEST(x.dtype() == kFloat16);
  BOOST_TEST(only(lerp(one(-60000, kFloat16), one(60000, kFloat16), one(0.25, kFloat16))) == -30000);
}

BOOST_AUTO_TEST_CASE(a_gradient_is_summed_in_the_dtype_of_a_wider_operand) {
  const Tensor wide = tensor({1.}, {.dtype = kFloat32, .requires_grad = true});
  const Tensor x = zeros({2}, {.dtype = kBFloat16}).copy_(wide);
  x.backward(tensor({8., 0.03125}, {.dtype = kBFloat16}));
  BOOST_TEST(only(wide.grad()) == 8.03125);  // 8 in bfloat16
}

BOOST_AUTO_TEST_CASE(einsum_keeps_the_dtype_of_integers) {
  for (const DType dtype : {kInt32, kUInt8, kInt64}) {
    const Tensor x = tensor({{1, 2}, {3, 4}}, {.dtype = dtype}), y = tensor({5, 6}, {.dtype = dtype});
    const Tensor sums = einsum("ij,k->k", {x, y});
    BOOST_TEST(sums.dtype() == dtype);
    BOOST_TEST(sums.to_vector<double>() == (std::vector<double>{50, 60}));
  }
}

BOOST_AUTO_TEST_CASE(cosine_similarity_squares_in_the_common_dtype) {
  const Tensor x = tensor({{300., 400.}}, {.dtype = kFloat32}), y = x.to(kFloat16);
  BOOST_TEST(std::abs(only(cosine_similarity(x, y)) - 1) < 1e-6);
  BOOST_TEST(cosine_similarity(x, y).dtype() == kFloat32);
}

BOOST_AUTO_TEST_CASE(cosine_similarity_is_within_its_range) {
  Generator generator(11);  // the sums of this seed exceed 1 without a bound
  const Tensor x = zeros({1000, 7}).normal_(0, 1, generator);
  const Tensor same = cosine_similarity(x, x);
  BOOST_TEST(same.max().item<double>() <= 1);
  BOOST_TEST(same.min().item<double>() > 1 - 1e-5);
  const Tensor leaf = x.detach().clone().requires_grad_();
  cosine_similarity(leaf, x.flip({0})).sum().backward();
  BOOST_TEST(leaf.grad().isfinite().all().item<bool>());
}

BOOST_AUTO_TEST_SUITE_END()
