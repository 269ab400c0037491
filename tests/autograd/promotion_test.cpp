// What operations say to operands that do not fit, and which dtype they give.
#include <cmath>

#include "tendril/autograd/ops/dropout.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/matmul.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/reduce.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/raises.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(promotion)

using namespace tendril;
using tendril::testing::test_seed;

BOOST_AUTO_TEST_CASE(numbers_and_0d_tensors_count_by_their_category) {
  const Tensor f = ones({2}), n = arange(2), b = n > 0;
  const Tensor zero_d = tensor(2.5, {.dtype = kFloat64});
  BOOST_TEST(((f * 2).dtype() == kFloat32));
  BOOST_TEST(((f * 2.5).dtype() == kFloat32));
  BOOST_TEST(((n * 2).dtype() == kInt64));
  BOOST_TEST(((n * 2.5).dtype() == kFloat32));
  BOOST_TEST(((b * 2).dtype() == kInt64));
  BOOST_TEST(((f * zero_d).dtype() == kFloat32));
  BOOST_TEST(((f * ones({2}, {.dtype = kFloat64})).dtype() == kFloat64));
  BOOST_TEST(((n / 2).dtype() == kFloat32));
  BOOST_TEST((n.exp().dtype() == kFloat32));
  BOOST_TEST(((f > 0).dtype() == kBool));
}

BOOST_AUTO_TEST_CASE(a_number_out_of_an_integer_types_range_is_named) {
  Tensor x = arange(2), small = ones({2}, {.dtype = kInt32});
  const Tensor bytes = ones({2}, {.dtype = kUInt8}), first = x < 1;
  CHECK_RAISES(DTypeError, "full: the value nan does not convert to int64", full({2}, NAN, {.dtype = kInt64}));
  CHECK_RAISES(DTypeError, "full_like: the value 300 does not convert to uint8", full_like(bytes, 300));
  CHECK_RAISES(DTypeError, "fill_: the value 1e+30 does not convert to int64", x.fill_(1e30));
  CHECK_RAISES(DTypeError, "fill_: the value 4294967296 does not convert to int32", small.fill_(int64_t{1} << 32));
  CHECK_RAISES(DTypeError, "masked_fill: the value 4294967296 does not convert to int32",
               small.masked_fill_(first, int64_t{1} << 32));
  CHECK_RAISES(DTypeError, "where: the value 300 does not convert to uint8", where(first, bytes, 300));
  CHECK_RAISES(DTypeError, "tensor: the value nan does not convert to int64", tensor({NAN}, {.dtype = kInt64}));
  BOOST_TEST(x.to_vector<int64_t>() == (std::vector<int64_t>{0, 1}));  // as they were
  BOOST_TEST(x.version() + small.version() == 0);
  BOOST_TEST(full({1}, -1, {.dtype = kUInt8}).item<int>() == 255);
  BOOST_TEST(full({1}, 2.7, {.dtype = kInt64}).item<int>() == 2);
  BOOST_TEST(full({1}, NAN, {.dtype = kBool}).item<bool>());
  BOOST_TEST(full({1}, -0x1p63, {.dtype = kInt64}).item<int64_t>() == INT64_MIN);
}

BOOST_AUTO_TEST_CASE(an_item_out_of_the_asked_types_range_is_refused) {
  for (double value : {static_cast<double>(NAN), static_cast<double>(INFINITY), 1e10, -0x1p31 - 1, 0x1p31}) {
    const Tensor x = tensor(value, {.dtype = kFloat64});
    CHECK_RAISES(DTypeError, " does not convert to an integer type from -2147483648 to 2147483647", x.item<int>());
    BOOST_TEST(x.item<bool>());
  }
  CHECK_RAISES(DTypeError, "4294967296 does not convert to an integer type from -2147483648 to 2147483647",
               tensor(int64_t{1} << 32).item<int>());
  CHECK_RAISES(DTypeError, "-1 does not convert to an integer type from 0 to 18446744073709551615",
               tensor(-1).item<uint64_t>());
  CHECK_RAISES(DTypeError, " does not convert", tensor(0x1p63, {.dtype = kFloat64}).item<int64_t>());
  BOOST_TEST(tensor(-0x1p63, {.dtype = kFloat64}).item<int64_t>() == INT64_MIN);
  BOOST_TEST(tensor(-2147483648.9, {.dtype = kFloat64}).item<int>() == INT32_MIN);
  BOOST_TEST(tensor(65).item<char>() == 'A');
  CHECK_RAISES(DTypeError, " does not convert", tensor(300).item<unsigned char>());
  BOOST_TEST(tensor(255.5).item<uint8_t>() == 255);
}

BOOST_AUTO_TEST_CASE(sums_of_integers_are_int64) {
  BOOST_TEST(((arange(3) > 0).sum().dtype() == kInt64));
  BOOST_TEST((arange(3).to(kInt32).sum().dtype() == kInt64));
  BOOST_TEST((arange(3).to(kUInt8).cumsum(0).dtype() == kInt64));
  BOOST_TEST((arange(4).sum().item<int64_t>() == 6));
  CHECK_RAISES(DTypeError, "mean: expected a floating dtype, got int64", arange(3).mean());
  CHECK_RAISES(DTypeError, "softmax: expected a floating dtype", arange(3).softmax(0));
}

BOOST_AUTO_TEST_CASE(shapes_that_do_not_fit_are_named) {
  CHECK_RAISES(ShapeError, "[2, 3]", ones({2, 3}) + ones({2}));
  CHECK_RAISES(ShapeError, "mm: shapes [2, 3] and [2, 3] cannot be multiplied", ones({2, 3}).mm(ones({2, 3})));
  CHECK_RAISES(ShapeError, "mm: expected two matrices", ones({3}).mm(ones({3, 1})));
  CHECK_RAISES(ShapeError, "bmm: expected [batch, m, k] and [batch, k, n]", ones({2, 2, 2}).bmm(ones({3, 2, 2})));
  CHECK_RAISES(ShapeError, "dot: expected two vectors of one size, got [2] and [3]", ones({2}).dot(ones({3})));
  CHECK_RAISES(ShapeError, "matmul: operands must have at least one dimension", ones({}).matmul(ones({2})));
  CHECK_RAISES(ShapeError, "masked_fill: shapes [3, 5] and [3, 4]",
               ones({3, 5}).masked_fill(zeros({3, 4}, {.dtype = kBool}), 1));
  CHECK_RAISES(DTypeError, "matmul: other is float64, expected float32, as the tensor",
               ones({2}).matmul(ones({2}, {.dtype = kFloat64})));
  CHECK_RAISES(ShapeError, "linear: expected x of [..., in] and a weight of [out, in]",
               linear(ones({3}), ones({3, 2})));
  CHECK_RAISES(ShapeError, "linear: the bias has shape [3]", linear(ones({2}), ones({4, 2}), ones({3})));
  CHECK_RAISES(ShapeError, "cat: tensor 1 has shape [2, 2]", cat({ones({2, 3}), ones({2, 2})}));
  CHECK_RAISES(ShapeError, "zero-dimensional tensors cannot be concatenated", cat({ones({})}));
  CHECK_RAISES(Error, "cat: expected at least one tensor", cat({}));
  CHECK_RAISES(ShapeError, "stack: tensors must have one shape, got [2] and [3]", stack({ones({2}), ones({3})}));
  CHECK_RAISES(ShapeError, "view: a tensor of sizes [3, 2] and strides [1, 3] cannot be seen as [6]",
               ones({2, 3}).t().view({6}));
  CHECK_RAISES(ShapeError, "t: expected at most 2 dimensions", ones({1, 1, 1}).t());
  CHECK_RAISES(ShapeError, "split: sizes add up to 2 instead of 3", ones({3}).split(std::vector<int64_t>{1, 1}));
  CHECK_RAISES(Error, "split: the size of a part must be positive", ones({3}).split(0));
  CHECK_RAISES(ShapeError, "sum_to: shape [2] does not broadcast to [3]", sum_to(ones({3}), {2}));
  CHECK_RAISES(ShapeError, "max: of no elements", ones({0}).max());
  CHECK_RAISES(IndexError, "has no elements", ones({2, 0}).max(1));
}

BOOST_AUTO_TEST_CASE(dimensions_and_indices_out_of_range_are_named) {
  CHECK_RAISES(IndexError, "sum", ones({2}).sum({1}));
  CHECK_RAISES(Error, "sum: dim 1 appears multiple times", ones({2, 2}).sum({1, -1}));
  CHECK_RAISES(IndexError, "select", ones({2}).select(0, 2));
  CHECK_RAISES(IndexError, "narrow", ones({2}).narrow(0, 1, 2));
  CHECK_RAISES(DTypeError, "gather: the index must be int64, got float32", ones({2}).gather(0, ones({2})));
  CHECK_RAISES(IndexError, "", ones({2}).gather(0, tensor({2})));
  CHECK_RAISES(ShapeError, "gather: the index has 1 dimensions, the tensor 2", ones({2, 2}).gather(0, tensor({0})));
  CHECK_RAISES(ShapeError, "index_select: the index must be a vector", ones({2}).index_select(0, tensor({{0}})));
  CHECK_RAISES(ShapeError, "index_add: the source has shape [3], expected [1]",
               ones({2}).index_add(0, tensor({0}), ones({3})));
  CHECK_RAISES(DTypeError, "scatter_add: the source is float64, the tensor float32",
               ones({2}).scatter_add(0, tensor({0}), ones({1}, {.dtype = kFloat64})));
  CHECK_RAISES(DTypeError, "masked_fill: the mask must be bool, got float32", ones({2}).masked_fill(ones({2}), 0));
  CHECK_RAISES(Error, "dropout: the probability must be in [0, 1], got 1.5", dropout(ones({2}), 1.5));
}

BOOST_AUTO_TEST_CASE(dropout_keeps_the_mean_and_backward_draws_the_same_mask) {
  Generator generator(test_seed());
  const Tensor x = ones({1000}, {.requires_grad = true});
  const Tensor y = dropout(x, 0.25, generator);
  y.sum().backward();
  BOOST_TEST(y.to_vector<float>() == x.grad().to_vector<float>(), boost::test_tools::per_element());
  BOOST_TEST(std::abs(y.mean().item<double>() - 1) < 0.13);
  BOOST_TEST(dropout(x, 0.25, generator).to_vector<float>() != y.to_vector<float>());
}

BOOST_AUTO_TEST_SUITE_END()
