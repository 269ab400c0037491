#include "tendril/autograd/ops/join.h"

#include <boost/test/unit_test.hpp>

#include "tendril/autograd/backward.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/raises.h"

BOOST_AUTO_TEST_SUITE(join)

using namespace tendril;

BOOST_AUTO_TEST_CASE(a_tensor_of_shape_0_joins_any_other) {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}}, {.dtype = kFloat32, .requires_grad = true});
  const Tensor nothing = zeros({0}, {.dtype = kFloat64, .requires_grad = true});
  for (const int dim : {0, 1, -1}) {
    BOOST_TEST((cat({nothing, x}, dim).sizes() == Dims{2, 3}));
    BOOST_TEST((cat({x, nothing}, dim).dtype() == kFloat64));  // its dtype counts, as in PyTorch
  }
  const Tensor joined = cat({x, nothing, x}, 1);
  BOOST_TEST(joined.to_vector<float>() == std::vector<float>({1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}));
  const auto g = autograd::grad({joined.sum()}, {x, nothing});
  BOOST_TEST(g[0].to_vector<float>() == std::vector<float>(6, 2));
  BOOST_TEST((g[1].sizes() == Dims{0}));
  BOOST_TEST((cat({nothing, nothing}).sizes() == Dims{0}));
  BOOST_TEST((cat({nothing, zeros({0, 5})}).sizes() == Dims{0, 5}));
}

BOOST_AUTO_TEST_CASE(other_empty_tensors_must_fit) {
  const Tensor x = ones({2, 3}), nothing = zeros({0});
  CHECK_RAISES(ShapeError, "cat: tensor 1 has shape [2, 3]", cat({zeros({0, 5}), x}, 1));
  CHECK_RAISES(ShapeError, "cat: tensor 2 has shape [2, 2]", cat({nothing, x, ones({2, 2})}));
  CHECK_RAISES(ShapeError, "zero-dimensional tensors cannot be concatenated", cat({nothing, ones({})}));
  CHECK_RAISES(IndexError, "cat", cat({nothing, x}, 2));
  CHECK_RAISES(ShapeError, "stack: tensors must have one shape", stack({nothing, x}));
}

BOOST_AUTO_TEST_SUITE_END()
