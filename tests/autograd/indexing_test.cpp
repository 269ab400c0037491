#include "tendril/autograd/ops/indexing.h"

#include <boost/test/unit_test.hpp>

#include "tendril/tensor/creation.h"
#include "tendril/tensor/raw.h"
#include "tendril/tensor/threads.h"
#include "tests/autograd/raises.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(indexing)

using namespace tendril;
using tendril::testing::test_seed;
using V = std::vector<int64_t>;

namespace {

Tensor counted(const Dims& sizes) { return arange(0, numel_of(sizes)).reshape(sizes); }
V values(const Tensor& x) { return x.to_vector<int64_t>(); }

}  // namespace

BOOST_AUTO_TEST_CASE(slices_numbers_and_new_dimensions_give_views) {
  const Tensor x = counted({3, 4});
  const Tensor part = x[{slice(1, {}), None, slice({}, {}, 2)}];
  BOOST_TEST((part.sizes() == Dims{2, 1, 2}));
  BOOST_TEST(values(part) == (V{4, 6, 8, 10}));
  BOOST_TEST((part.storage() == x.storage()));
  BOOST_TEST(values(x[{Ellipsis, -1}]) == (V{3, 7, 11}));
  BOOST_TEST(values(x[{slice(-2, 100), 0}]) == (V{4, 8}));
  BOOST_TEST((x[{slice(2, 1)}].sizes() == Dims{0, 4}));
}

BOOST_AUTO_TEST_CASE(tensors_take_the_place_of_what_they_index) {
  const Tensor x = counted({2, 3, 2});
  BOOST_TEST((x[{slice(), tensor({{0, -1}}), tensor({{1}, {0}})}].sizes() == Dims{2, 2, 2}));
  BOOST_TEST(values(x[{slice(), tensor({0, 2}), tensor({1, 0})}]) == (V{1, 4, 7, 10}));
  const Tensor apart = x[{tensor({1, 0, 1, 0}), slice(), tensor({0, 1, 1, 0})}];  // nothing to stay beside: in front
  BOOST_TEST((apart.sizes() == Dims{4, 3}));
  BOOST_TEST(values(apart) == (V{6, 8, 10, 1, 3, 5, 7, 9, 11, 0, 2, 4}));
  BOOST_TEST(values(x[{tensor({{true, false, true}, {false, false, true}})}]) == (V{0, 1, 4, 5, 10, 11}));
  BOOST_TEST((x[{tensor({{false, false, false}, {false, false, false}})}].sizes() == Dims{0, 2}));
}

BOOST_AUTO_TEST_CASE(what_is_chosen_is_written) {
  Tensor x = counted({3, 3});
  x[{tensor({2, 0}), slice(1, {})}] = -1;
  BOOST_TEST(values(x) == (V{0, -1, -1, 3, 4, 5, 6, -1, -1}));
  x[{tensor({true, false, false})}] = tensor({7, 8, 9});
  x[{Index(1)}] += 10;
  x[{tensor({{0}, {1}}), tensor({0, 1})}] *= 2;
  BOOST_TEST(values(x) == (V{14, 16, 9, 26, 28, 15, 6, -1, -1}));
  x[{slice(2, {})}] = x[{slice(0, 1)}];
  BOOST_TEST(values(x[{Index(-1)}]) == (V{14, 16, 9}));
  index_put_(x, {tensor({0, 0, 1}), 0}, tensor({1, 1, 1}), true);
  BOOST_TEST(values(x[{slice(), 0}]) == (V{16, 27, 14}));
}

BOOST_AUTO_TEST_CASE(a_mask_selects_and_names_its_places) {
  const Tensor x = counted({2, 3});
  const Tensor mask = x.gt(2);
  BOOST_TEST(values(masked_select(x, mask)) == (V{3, 4, 5}));
  BOOST_TEST(values(masked_select(x, tensor({true, false, false}))) == (V{0, 3}));
  const Tensor places = nonzero(mask);
  BOOST_TEST((places.sizes() == Dims{3, 2}));
  BOOST_TEST(values(places) == (V{1, 0, 1, 1, 1, 2}));
  BOOST_TEST((nonzero(tensor(3)).sizes() == Dims{1, 0}));
  BOOST_TEST((nonzero(tensor(0)).sizes() == Dims{0, 0}));
}

BOOST_AUTO_TEST_CASE(places_of_a_large_mask_are_in_order_on_any_number_of_threads) {
  const int budget = thread_budget();
  Generator generator(test_seed());
  for (const Dims& sizes : {Dims{100'003}, Dims{7, 13, 1009}, Dims{16'384, 2}, Dims{3, 0, 5}}) {
    const Tensor x = raw::empty(sizes);
    raw::uniform_(x, -1, 1, generator);
    const Tensor mask = x.gt(0.3);
    const bool* const set = mask.data<bool>();
    V expected;
    const Dims& strides = x.strides();
    for (int64_t i = 0; i < x.numel(); ++i) {
      for (int d = 0; set[i] && d < x.dim(); ++d) {
        expected.push_back(i / strides[d] % x.sizes()[d]);
      }
    }
    for (const int threads : {1, 2, 3, 8}) {
      set_num_threads(threads);
      BOOST_TEST((values(nonzero(mask)) == expected), sizes << " on " << threads);
    }
  }
  set_num_threads(budget);
}

BOOST_AUTO_TEST_CASE(classes_become_rows_with_a_one) {
  BOOST_TEST(values(one_hot(tensor({1, 0}), 3)) == (V{0, 1, 0, 1, 0, 0}));
  BOOST_TEST((one_hot(tensor(2), 3).sizes() == Dims{3}));
  BOOST_TEST(values(take_along_dim(counted({2, 3}), tensor({{2}, {0}}), 1)) == (V{2, 3}));
  BOOST_TEST(values(counted({2, 3}).scatter(1, tensor({{2, 0}}), -7)) == (V{-7, 1, -7, 3, 4, 5}));
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused_before_anything_is_written) {
  Tensor x = counted({2, 3});
  CHECK_RAISES(IndexError, "index: got indices for 3 dimensions of a tensor of shape [2, 3]", (x[{0, 0, 0}]));
  CHECK_RAISES(IndexError, "index: position 2 is out of range for dimension 0 of shape [2, 3]", (x[{tensor({0, 2})}]));
  CHECK_RAISES(IndexError, "index: position -4 is out of range for dimension 1 of shape [2, 3]",
               (x[{slice(), tensor({-4})}]));
  CHECK_RAISES(ShapeError, "index: a mask of shape [3]", (x[{tensor({true, false, true})}]));
  CHECK_RAISES(DTypeError, "index: got an index tensor of float32", (x[{tensor({0.5})}]));
  CHECK_RAISES(Error, "index: an index is undefined", (x[{Tensor()}]));
  CHECK_RAISES(Error, "got a slice of step 0", (x[{slice(0, 2, 0)}]));
  CHECK_RAISES(ShapeError, "", (x[{tensor({0})}] = tensor({1, 2})));
  CHECK_RAISES(ShapeError, "index: ", (x[{tensor({0, 1}), tensor({0, 1, 2})}]));
  CHECK_RAISES(IndexError, "3 is out of range", one_hot(tensor({3}), 3));
  CHECK_RAISES(Error, "one_hot: num_classes: got 0", one_hot(tensor({0}), 0));
  BOOST_TEST(values(x) == (V{0, 1, 2, 3, 4, 5}));
}

BOOST_AUTO_TEST_CASE(a_mask_without_dimensions_chooses_all_or_nothing) {
  Tensor x = counted({2, 3});
  BOOST_TEST((x[{tensor(true)}].sizes() == Dims{1, 2, 3}));
  BOOST_TEST((x[{tensor(false)}].sizes() == Dims{0, 2, 3}));
  BOOST_TEST((x[{slice(), tensor(false)}].sizes() == Dims{2, 0, 3}));
  x[{tensor(false)}] = -1;
  BOOST_TEST(values(x) == (V{0, 1, 2, 3, 4, 5}));
  x[{tensor(true), 0}] = -1;
  BOOST_TEST(values(x) == (V{-1, -1, -1, 3, 4, 5}));
}

BOOST_AUTO_TEST_CASE(a_position_without_dimensions_is_a_number) {
  const Tensor x = counted({3, 2, 3});
  const Tensor row = x[{tensor(1)}];
  BOOST_TEST((row.storage() == x.storage()));  // a view
  BOOST_TEST((x[{tensor(1), slice(), tensor({{0, 1}, {2, 0}})}].sizes() == Dims{2, 2, 2}));
  BOOST_TEST(values(x[{tensor(-1), 0}]) == (V{12, 13, 14}));
}

BOOST_AUTO_TEST_CASE(integers_take_no_fractions) {
  Tensor x = counted({4});
  CHECK_RAISES(DTypeError, "+=: result type float32 can't be cast", (x[{slice(0, 2)}] += 0.5));
  CHECK_RAISES(DTypeError, "-=: result type float32 can't be cast", (x[{tensor({0, 1})}] -= tensor({0.5, 1.5})));
  CHECK_RAISES(DTypeError, "/=: result type float32 can't be cast", (x[{slice(0, 2)}] /= 2));
  BOOST_TEST(values(x) == (V{0, 1, 2, 3}));
  x[{tensor({0, 1})}] *= 3;
  BOOST_TEST(values(x) == (V{0, 3, 2, 3}));
}

BOOST_AUTO_TEST_SUITE_END()
