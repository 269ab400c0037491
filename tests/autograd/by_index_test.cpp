#include <boost/test/unit_test.hpp>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/rearrange.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/raises.h"

BOOST_AUTO_TEST_SUITE(by_index)

using namespace tendril;

BOOST_AUTO_TEST_CASE(of_a_larger_source_what_the_index_covers_is_scattered) {
  const Tensor source = arange(1, 13, 1, {.dtype = kFloat32}).reshape({3, 4}).requires_grad_();
  const Tensor index = tensor({{0, 1, 0}, {1, 1, 1}});
  const Tensor sums = zeros({2, 4}).scatter_add(0, index, source);
  BOOST_TEST(sums.to_vector<float>() == std::vector<float>({1, 0, 3, 0, 5, 8, 7, 0}));  // PyTorch's
  const Tensor g = autograd::grad({(sums * sums).sum()}, {source})[0];
  BOOST_TEST(g.to_vector<float>() == std::vector<float>({2, 16, 6, 0, 10, 16, 14, 0, 0, 0, 0, 0}));
}

BOOST_AUTO_TEST_CASE(a_source_that_the_index_does_not_fit_is_refused) {
  const Tensor index = tensor({{0, 1, 0}, {1, 1, 1}}), x = zeros({2, 4});
  CHECK_RAISES(ShapeError, "scatter_add: the source has shape [1, 4], the index [2, 3]",
               x.scatter_add(0, index, ones({1, 4})));
  CHECK_RAISES(ShapeError, "scatter_add: the source has shape [2, 2], the index [2, 3]",
               x.scatter_add(0, index, ones({2, 2})));
  CHECK_RAISES(ShapeError, "scatter_add: the source has shape [6], the index [2, 3]",
               x.scatter_add(0, index, ones({6})));
  CHECK_RAISES(ShapeError, "scatter_add", zeros({2, 2}).scatter_add(0, index, ones({3, 4})));
}

BOOST_AUTO_TEST_CASE(slices_are_filled_and_copied_by_index) {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  BOOST_TEST(x.index_fill(1, tensor({2, 0}), 9).to_vector<int64_t>() == std::vector<int64_t>({9, 2, 9, 9, 5, 9}));
  BOOST_TEST(x.index_fill(-2, tensor(1), 9).to_vector<int64_t>() == std::vector<int64_t>({1, 2, 3, 9, 9, 9}));
  BOOST_TEST(x.index_copy(1, tensor({2, 0}).to(kInt32), tensor({{7, 8}, {9, 10}})).to_vector<int64_t>() ==
             std::vector<int64_t>({8, 2, 7, 10, 5, 9}));
  BOOST_TEST(tensor(3).index_fill(0, tensor({0}), 5).item<int64_t>() == 5);
  BOOST_TEST(tensor(3.f).requires_grad_().index_copy(0, tensor({0}), tensor(7.f)).item<float>() == 7);
  BOOST_TEST(x.index_fill(0, zeros({0}, {.dtype = kInt64}), 9).to_vector<int64_t>() == x.to_vector<int64_t>());
}

BOOST_AUTO_TEST_CASE(in_place_parts_of_the_tensor_itself_are_read_as_they_were) {
  const Tensor x = arange(6).reshape({2, 3});
  x.scatter_(1, tensor({{2, 0, 1}, {2, 0, 1}}), x);
  BOOST_TEST(x.to_vector<int64_t>() == std::vector<int64_t>({1, 2, 0, 4, 5, 3}));
  x.index_copy_(0, tensor({1, 0}), x);
  BOOST_TEST(x.to_vector<int64_t>() == std::vector<int64_t>({4, 5, 3, 1, 2, 0}));
  const Tensor places = tensor({1, 2, 0});
  places.scatter_(0, places, tensor({5, 6, 7}));
  BOOST_TEST(places.to_vector<int64_t>() == std::vector<int64_t>({7, 5, 6}));
}

BOOST_AUTO_TEST_CASE(bad_input_in_place_is_refused_before_anything_is_changed) {
  const Tensor x = ones({2, 3}), index = tensor({{0, 1, 2}, {0, 1, 3}}), line = tensor({0, 3}), two = ones({2, 2});
  CHECK_RAISES(IndexError, "scatter: index 3 is out of range for dimension 1 of size 3", x.scatter_(1, index, x * 2));
  CHECK_RAISES(IndexError, "scatter_add: index 3 is out of range", x.scatter_add_(1, index, x * 2));
  CHECK_RAISES(IndexError, "index_add: index 3 is out of range", x.index_add_(1, line, two));
  CHECK_RAISES(IndexError, "index_fill: index 3 is out of range for dimension 1 of size 3", x.index_fill_(1, line, 2));
  CHECK_RAISES(IndexError, "index_copy: index 3 is out of range for dimension 1 of size 3",
               x.index_copy_(1, line, two * 2));
  CHECK_RAISES(IndexError, "index_fill", x.index_fill_(2, line, 2));
  CHECK_RAISES(ShapeError, "index_copy: the source has shape [2, 2], expected [2, 1]",
               x.index_copy_(1, tensor({0}), two));
  CHECK_RAISES(ShapeError, "index_fill: the index must be a vector, got shape [2, 3]", x.index_fill_(1, index, 2));
  CHECK_RAISES(DTypeError, "index_fill: the index must be int64 or int32, got float32", x.index_fill_(1, ones({1}), 2));
  CHECK_RAISES(DTypeError, "index_copy: the source is float64, the tensor float32",
               x.index_copy_(1, tensor({0, 1}), two.to(kFloat64)));
  CHECK_RAISES(DTypeError, "bitwise_not: expected integers or bool, got float32", x.bitwise_not_());
  CHECK_RAISES(DTypeError, "cumsum_: result type int64 can't be cast to the desired output type bool",
               ones({2}, {.dtype = kBool}).cumsum_(0));
  CHECK_RAISES(IndexError, "cumprod", x.cumprod_(2));
  CHECK_RAISES(ShapeError, "tril", ones({3}).tril_());
  BOOST_TEST(x.to_vector<float>() == std::vector<float>(6, 1.f));
  BOOST_TEST(x.version() == 0);
}

BOOST_AUTO_TEST_SUITE_END()
