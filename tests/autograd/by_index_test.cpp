// devices: cpu cuda
#include <boost/test/unit_test.hpp>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/ops/pointwise.h"
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

BOOST_AUTO_TEST_SUITE_END()
