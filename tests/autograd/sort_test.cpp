// devices: cpu cuda
#include "tendril/autograd/ops/sort.h"

#include <boost/test/unit_test.hpp>
#include <limits>

#include "tendril/tensor/creation.h"
#include "tests/autograd/raises.h"

BOOST_AUTO_TEST_SUITE(sort)

using namespace tendril;
using V = std::vector<int64_t>;

namespace {
V values(const Tensor& x) { return x.to_vector<int64_t>(); }
}  // namespace

BOOST_AUTO_TEST_CASE(equal_elements_keep_their_order_and_nan_is_the_largest) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = tensor({{2.0, 1.0, 2.0, nan, 1.0}, {0.0, -0.0, nan, nan, -1.0}});
  BOOST_TEST(values(argsort(x)) == (V{1, 4, 0, 2, 3, 4, 0, 1, 2, 3}));
  BOOST_TEST(values(argsort(x, 1, true)) == (V{3, 0, 2, 1, 4, 2, 3, 0, 1, 4}));
  const auto [sorted, places] = tendril::sort(tensor({{3, 1}, {2, 2}, {1, 3}}), 0);
  BOOST_TEST(values(sorted) == (V{1, 1, 2, 2, 3, 3}));
  BOOST_TEST(values(places) == (V{2, 0, 1, 1, 0, 2}));
  BOOST_TEST((std::get<0>(tendril::sort(zeros({2, 0}))).sizes() == Dims{2, 0}));
  BOOST_TEST(values(argsort(tensor(5))) == (V{0}));
}

BOOST_AUTO_TEST_CASE(long_lines_are_sorted_on_every_thread_alike) {
  const Tensor x = randint(-50, 50, {40, 3000});
  const auto [sorted, places] = tendril::sort(x, 1);
  BOOST_TEST(sorted.narrow(1, 1, 2999).ge(sorted.narrow(1, 0, 2999)).all().item<bool>());
  BOOST_TEST(x.gather(1, places).eq(sorted).all().item<bool>());
  const Tensor tie = sorted.narrow(1, 1, 2999).eq(sorted.narrow(1, 0, 2999));
  const Tensor later = places.narrow(1, 1, 2999).gt(places.narrow(1, 0, 2999));
  BOOST_TEST(tie.logical_not().logical_or(later).all().item<bool>());
}

BOOST_AUTO_TEST_CASE(the_largest_the_middle_and_the_kth) {
  const Tensor x = tensor({{5, 1, 4, 2}, {0, 3, 9, 7}});
  const auto [top, places] = topk(x, 2);
  BOOST_TEST(values(top) == (V{5, 4, 9, 7}));
  BOOST_TEST(values(places) == (V{0, 2, 2, 3}));
  BOOST_TEST(values(std::get<0>(kthvalue(x, 2))) == (V{2, 3}));
  BOOST_TEST(values(std::get<0>(median(x, 1))) == (V{2, 3}));
  BOOST_TEST(median(x).item<int64_t>() == 3);
}

BOOST_AUTO_TEST_CASE(values_are_counted) {
  const Unique found = unique(tensor({{3, 1, 3}, {2, 1, 3}}));
  BOOST_TEST(values(found.values) == (V{1, 2, 3}));
  BOOST_TEST(values(found.counts) == (V{2, 1, 3}));
  BOOST_TEST(values(found.inverse) == (V{2, 0, 2, 1, 0, 2}));
  BOOST_TEST(unique(zeros({0})).values.numel() == 0);
  BOOST_TEST(values(bincount(tensor({1, 3, 1}), 6)) == (V{0, 2, 0, 1, 0, 0}));
  BOOST_TEST(values(histc(tensor({0.0, 1.0, 1.5, 2.0, 9.0, -1.0}), 2, 0.0, 2.0)) == (V{1, 3}));
  BOOST_TEST(values(histc(tensor({1.0, 1.0}), 4)) == (V{0, 0, 2, 0}));
  const Tensor line = tensor({1, 3, 3, 5});
  BOOST_TEST(values(searchsorted(line, tensor({0, 3, 4, 9}))) == (V{0, 1, 3, 4}));
  BOOST_TEST(values(searchsorted(line, tensor({0, 3, 4, 9}), true)) == (V{0, 3, 3, 4}));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_ordered_is_refused) {
  const Tensor x = tensor({{5, 1}, {4, 2}});
  CHECK_RAISES(Error, "bincount: got 9223372036854775807", bincount(tensor({INT64_MAX})));
  CHECK_RAISES(Error, "topk: k: got 3, expected 0 to 2", topk(x, 3));
  CHECK_RAISES(Error, "kthvalue: k: got 0, expected 1 to 2", kthvalue(x, 0));
  CHECK_RAISES(IndexError, "sort", tendril::sort(x, 2));
  CHECK_RAISES(Error, "sort: x is undefined", argsort(Tensor()));
  CHECK_RAISES(Error, "bincount: got -1 among the elements", bincount(tensor({0, -1})));
  CHECK_RAISES(DTypeError, "bincount: got a tensor of float32", bincount(tensor({0.5})));
  CHECK_RAISES(Error, "histc: got bounds 2 and 1", histc(tensor({0.5}), 3, 2.0, 1.0));
  CHECK_RAISES(IndexError, "median: dim 0", median(zeros({0}), 0));
}

BOOST_AUTO_TEST_CASE(a_nan_is_the_median_and_lies_behind_all) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = tensor({{3.0, nan, 1.0, nan}, {4.0, 1.0, 3.0, 2.0}}, {.requires_grad = true});
  const auto [middle, places] = median(x, 1);
  BOOST_TEST(values(places) == (V{1, 3}));
  BOOST_TEST(middle.isnan().to_vector<bool>()[0]);
  BOOST_TEST(middle.to_vector<double>()[1] == 2);
  middle.sum().backward();
  BOOST_TEST(x.grad().to_vector<double>() == (std::vector<double>{0, 1, 0, 0, 0, 0, 0, 1}));
  BOOST_TEST(median(x).isnan().item<bool>());
  BOOST_TEST(values(searchsorted(tensor({0.0, 1.0}), tensor({nan, 5.0}))) == (V{2, 2}));
  BOOST_TEST(values(searchsorted(tensor({0.0, 1.0, nan}), tensor({nan, 5.0}), true)) == (V{3, 2}));
}

BOOST_AUTO_TEST_SUITE_END()
