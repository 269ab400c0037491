#include "tendril/autograd/ops/rearrange.h"

#include <boost/test/unit_test.hpp>

#include "tendril/autograd/ops/einsum.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/raises.h"

BOOST_AUTO_TEST_SUITE(rearrange)

using namespace tendril;

BOOST_AUTO_TEST_CASE(results_have_memory_of_their_own) {
  Tensor x = arange(0, 4).reshape({2, 2});
  for (const Tensor& y : {flip(x, {}), roll(x, 0, 0), roll(x, 4), repeat(x, {1, 1}), tile(x, {}), pad(x, {0, 0}),
                          repeat_interleave(x, 1, 0), tril(x, 5), x.to(kFloat64).cumprod(0)}) {
    BOOST_TEST((y.storage() != x.storage()));
  }
}

BOOST_AUTO_TEST_CASE(empty_and_zero_dimensional_tensors_are_served) {
  BOOST_TEST((repeat(tensor(3), {2, 2}).sizes() == Dims{2, 2}));
  BOOST_TEST((repeat(zeros({2, 3}), {0, 2}).sizes() == Dims{0, 6}));
  BOOST_TEST((tril(zeros({0, 3})).sizes() == Dims{0, 3}));
  BOOST_TEST((diag(zeros({0})).sizes() == Dims{0, 0}));
  BOOST_TEST((diagonal(zeros({2, 3}), 3).sizes() == Dims{0}));
  BOOST_TEST((pad(zeros({0}), {1, 2}).sizes() == Dims{3}));
  BOOST_TEST(zeros({0}).prod().item<double>() == 1);
  BOOST_TEST(zeros({0}).norm().item<double>() == 0);
  BOOST_TEST(tensor({2, 3, 4}).prod().item<int64_t>() == 24);
  BOOST_TEST((tensor({{true, false}, {true, true}}).all(1).to_vector<bool>() == std::vector<bool>{false, true}));
  BOOST_TEST(tensor({{1, 5}, {7, 2}}).argmax().item<int64_t>() == 2);
}

BOOST_AUTO_TEST_CASE(negative_padding_crops_in_every_mode) {
  const Tensor x = tensor({1, 2, 3, 4});
  using V = std::vector<int64_t>;
  BOOST_TEST((pad(x, {-1, 1}).to_vector<int64_t>() == V{2, 3, 4, 0}));
  BOOST_TEST((pad(x, {-1, 1}, PadMode::reflect).to_vector<int64_t>() == V{2, 3, 4, 3}));
  BOOST_TEST((pad(x, {-1, 1}, PadMode::replicate).to_vector<int64_t>() == V{2, 3, 4, 4}));
  BOOST_TEST((pad(x, {2, -1}, PadMode::circular).to_vector<int64_t>() == V{3, 4, 1, 2, 3}));
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused) {
  const Tensor x = zeros({2, 3});
  CHECK_RAISES(ShapeError, "repeat: got 1 times for a tensor of shape [2, 3]", repeat(x, {2}));
  CHECK_RAISES(ShapeError, "repeat: got -1 times", repeat(x, {1, -1}));
  CHECK_RAISES(ShapeError, "pad: got 3 sizes", pad(x, {1, 2, 3}));
  CHECK_RAISES(ShapeError, "pad: -2 and -2 take more than there is along dim 1", pad(x, {-2, -2}));
  CHECK_RAISES(ShapeError, "pad: got 3 along dim 1 of shape [2, 3], expected at most 2",
               pad(x, {3, 0}, PadMode::reflect));
  CHECK_RAISES(ShapeError, "pad: -4 and 0 take more than there is along dim 1", pad(x, {-4, 0}, PadMode::replicate));
  CHECK_RAISES(Error, "flip: dim 1 appears multiple times", flip(x, {1, -1}));
  CHECK_RAISES(ShapeError, "tril: got a tensor of shape [3]", tril(zeros({3})));
  CHECK_RAISES(ShapeError, "diag: got a tensor of shape [1, 1, 1]", diag(zeros({1, 1, 1})));
  CHECK_RAISES(Error, "diagonal: got dim 0 twice", diagonal(x, 0, 0, -2));
  CHECK_RAISES(Error, "meshgrid: got no vectors", meshgrid({}));
  CHECK_RAISES(ShapeError, "outer: expected two vectors", outer(x, x));
}

BOOST_AUTO_TEST_CASE(einsum_says_what_is_wrong_with_its_text) {
  const Tensor x = zeros({2, 3});
  CHECK_RAISES(Error, "einsum: \"ij,jk->ik\" has 2 operands, got 1", einsum("ij,jk->ik", {x}));
  CHECK_RAISES(Error, "einsum: \"i1\": expected letters", einsum("i1", {x}));
  CHECK_RAISES(Error, "'k' of the result is in no operand", einsum("ij->k", {x}));
  CHECK_RAISES(Error, "'i' of the result is there twice", einsum("ij->ii", {x}));
  CHECK_RAISES(ShapeError, "einsum: operand 0 has shape [2, 3], expected 3 dimensions", einsum("ijk", {x}));
  CHECK_RAISES(ShapeError, "einsum: operand 0 of shape [2, 3] has two sizes for 'i'", einsum("ii", {x}));
  CHECK_RAISES(ShapeError, "einsum: 'j' has size 3 in operand 0 and 2 in operand 1", einsum("ij,jk->ik", {x, x}));
  CHECK_RAISES(Error, "einsum: an operand is undefined", einsum("ij", {Tensor()}));
}

BOOST_AUTO_TEST_CASE(what_is_only_cut_is_a_tensor_of_its_own) {
  const Tensor x = arange(4);
  pad(x, {-1, 0}).fill_(7);
  pad(x, {0, 0}).fill_(7);
  flip(tensor(3), {0}).fill_(7);
  BOOST_TEST(x.to_vector<int64_t>() == (std::vector<int64_t>{0, 1, 2, 3}));
  BOOST_TEST(flip(tensor(3), {-1}).item<int64_t>() == 3);
}

BOOST_AUTO_TEST_CASE(tensors_of_many_dimensions_are_repeated) {
  const Tensor x = arange(32).reshape({2, 2, 2, 2, 2});
  const Tensor y = repeat(x, {2, 1, 2, 2, 2});
  BOOST_TEST((y.sizes() == Dims{4, 2, 4, 4, 4}));
  const Tensor once = repeat(repeat(x, {2, 1, 2, 1, 1}), {1, 1, 1, 2, 2});
  BOOST_TEST(y.eq(once).all().item<bool>());
  const Tensor deep = repeat(arange(2).reshape({1, 1, 1, 1, 1, 1, 1, 2}), {2, 1, 1, 1, 1, 1, 1, 2});
  BOOST_TEST(deep.to_vector<int64_t>() == (std::vector<int64_t>{0, 1, 0, 1, 0, 1, 0, 1}));
  const Tensor each = repeat_interleave(arange(2).reshape({1, 1, 1, 1, 1, 1, 1, 2}), 2, -1);
  BOOST_TEST(each.to_vector<int64_t>() == (std::vector<int64_t>{0, 0, 1, 1}));
  BOOST_TEST(repeat(x, {0, 1, 1, 1, 2, 3}).numel() == 0);
}

BOOST_AUTO_TEST_CASE(sizes_beyond_64_bits_are_refused) {
  const Tensor x = arange(4);
  CHECK_RAISES(ShapeError, "repeat: got", repeat(x, {INT64_MAX / 2}));
  CHECK_RAISES(ShapeError, "repeat_interleave: got", repeat_interleave(x, INT64_MAX / 2, 0));
  CHECK_RAISES(ShapeError, "pad: got 9223372036854775807 and 1", pad(x, {INT64_MAX, 1}));
  CHECK_RAISES(ShapeError, "diag: diagonal: got -9223372036854775808", diag(x, INT64_MIN));
  BOOST_TEST((diagonal(x.reshape({2, 2}), INT64_MIN).sizes() == Dims{0}));
}

BOOST_AUTO_TEST_CASE(a_diagonal_is_a_view_and_diag_a_copy) {
  const Tensor x = zeros({2, 3}, {.dtype = kFloat64});
  diagonal(x, 1).add_(1);
  BOOST_TEST(x.to_vector<double>() == (std::vector<double>{0, 1, 0, 0, 0, 1}));
  BOOST_TEST((diag(x).storage() != x.storage()));
  const Tensor w = ones({2, 2}, {.dtype = kFloat64, .requires_grad = true}), y = w * 2;
  diagonal(y).mul_(3);
  y.sum().backward();
  BOOST_TEST(w.grad().to_vector<double>() == (std::vector<double>{6, 2, 2, 6}));
}

BOOST_AUTO_TEST_SUITE_END()
