#include "tendril/autograd/ops/sort.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "tendril/autograd/ops/pointwise.h"
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
  const Tensor tenths = tensor({0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f, 0.8f, 0.9f, 1.0f});
  BOOST_TEST(values(histc(tenths, 10, 0.0, 1.0)) == (V{0, 1, 1, 1, 1, 1, 1, 1, 1, 2}));  // PyTorch 2.15's
  BOOST_TEST(values(histc(tensor({-3e38f, 0.0f, 3e38f}), 3)) == (V{1, 1, 1}));
  const Tensor line = tensor({1, 3, 3, 5});
  BOOST_TEST(values(searchsorted(line, tensor({0, 3, 4, 9}))) == (V{0, 1, 3, 4}));
  BOOST_TEST(values(searchsorted(line, tensor({0, 3, 4, 9}), true)) == (V{0, 3, 3, 4}));
  // Enough of them for several threads: the place of x among 0, 1, 2, ... is x itself, or behind it.
  const Tensor numbers = arange(0, 10'000), wanted = numbers.flip({0});
  BOOST_TEST(searchsorted(numbers, wanted).eq(wanted).all().item<bool>());
  BOOST_TEST(searchsorted(numbers, wanted, true).eq(wanted + 1).all().item<bool>());
}

// Numbers of PyTorch 2.15, from torch.unique(dim=...), unique_consecutive and histogram.
BOOST_AUTO_TEST_CASE(equal_parts_along_a_dim_are_found) {
  const Tensor x = tensor({{{3, 1}, {2, 0}}, {{3, 1}, {2, 0}}, {{1, 5}, {0, 0}}});
  const Unique rows = unique(x, 0);
  BOOST_TEST((rows.values.sizes() == Dims{2, 2, 2}));
  BOOST_TEST(values(rows.values) == (V{1, 5, 0, 0, 3, 1, 2, 0}));
  BOOST_TEST(values(rows.inverse) == (V{1, 1, 0}));
  BOOST_TEST(values(rows.counts) == (V{1, 2}));
  BOOST_TEST(equal(rows.values.index_select(0, rows.inverse), x));
  const Unique columns = unique(x, -1);
  BOOST_TEST(values(columns.values) == (V{1, 3, 0, 2, 1, 3, 0, 2, 5, 1, 0, 0}));
  BOOST_TEST(values(columns.inverse) == (V{1, 0}));
  // Lines are compared in row-major order: [0, 0, 1, 0] comes before [0, 1, 0, 0].
  const Tensor crossed = tensor({{{0, 0}, {1, 0}}, {{0, 1}, {0, 0}}});
  BOOST_TEST(values(unique(crossed, 2).inverse) == (V{1, 0}));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Unique apart = unique(tensor({{1.0, nan}, {1.0, nan}, {0.0, 2.0}}), 0);
  BOOST_TEST(values(apart.inverse) == (V{1, 2, 0}));
  BOOST_TEST((unique(zeros({0, 3}), 0).values.sizes() == Dims{0, 3}));
  CHECK_RAISES(ShapeError, "unique: shape [3, 0]", unique(zeros({3, 0}), 0));
  CHECK_RAISES(IndexError, "unique: dim: got 0 for a tensor of no dimensions", unique(tensor(3), 0));
  CHECK_RAISES(IndexError, "unique", unique(x, 3));
}

BOOST_AUTO_TEST_CASE(neighbours_that_are_equal_are_found) {
  const Tensor x = tensor({{2, 1, 1, 2, 2}, {0, 1, 1, 0, 0}});
  const Unique all = unique_consecutive(x);
  BOOST_TEST(values(all.values) == (V{2, 1, 2, 0, 1, 0}));
  BOOST_TEST(values(all.inverse) == (V{0, 1, 1, 2, 2, 3, 4, 4, 5, 5}));
  BOOST_TEST((all.inverse.sizes() == Dims{2, 5}));
  BOOST_TEST(values(all.counts) == (V{1, 2, 2, 1, 2, 2}));
  const Unique columns = unique_consecutive(x, 1);
  BOOST_TEST(values(columns.values) == (V{2, 1, 2, 0, 1, 0}));
  BOOST_TEST((columns.values.sizes() == Dims{2, 3}));
  BOOST_TEST(values(columns.inverse) == (V{0, 1, 1, 2, 2}));
  BOOST_TEST(values(columns.counts) == (V{1, 2, 2}));
  BOOST_TEST(values(unique(x, 1).inverse) == (V{1, 0, 0, 1, 1}));
  BOOST_TEST(unique_consecutive(zeros({0})).values.numel() == 0);
}

BOOST_AUTO_TEST_CASE(what_falls_between_edges_is_counted_and_weighed) {
  const TensorOptions wide{.dtype = kFloat64};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = tensor({0.0, 1.0, 1.5, 2.0, 9.0, -1.0, nan}, wide), edges = tensor({0.0, 1.0, 4.0, 9.0}, wide);
  BOOST_TEST(values(histogram(x, 2, {.range = {{0, 2}}}).hist) == (V{1, 3}));
  BOOST_TEST(values(histogram(x, edges).hist) == (V{1, 3, 1}));
  const Tensor weight = tensor({0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0}, wide);
  BOOST_TEST(equal(histogram(x, edges, {.weight = weight}).hist, tensor({0.5, 7.0, 8.0}, wide)));
  const Histogram dense = histogram(x, edges, {.weight = weight, .density = true});
  BOOST_TEST(allclose(dense.hist, tensor({0.5 / 15.5, 7 / 46.5, 8 / 77.5}, wide), 1e-14, 0));
  BOOST_TEST(equal(dense.bin_edges, edges));
  const Histogram even = histogram(tensor({0.0, 1.0, 1.5, 2.0, 9.0, -1.0}, wide), 4);
  BOOST_TEST(values(even.hist) == (V{3, 2, 0, 1}));
  BOOST_TEST(equal(even.bin_edges, tensor({-1.0, 1.5, 4.0, 6.5, 9.0}, wide)));
  BOOST_TEST(equal(histogram(tensor({1.0, 1.0}), 4).bin_edges, tensor({0.5, 0.75, 1.0, 1.25, 1.5})));
  BOOST_TEST(equal(histogram(zeros({0}), 2).bin_edges, tensor({0.0, 0.5, 1.0})));
  CHECK_RAISES(Error, "histogram: got bounds nan and nan", histogram(x, 3));
  CHECK_RAISES(Error, "histogram: bins: got 0", histogram(x, 0));
  CHECK_RAISES(Error, "histogram: bins: got 2 before 1", histogram(x, tensor({2.0, 1.0}, wide)));
  CHECK_RAISES(ShapeError, "histogram: bins has shape [1]", histogram(x, tensor({2.0}, wide)));
  CHECK_RAISES(DTypeError, "histogram: bins is float32", histogram(x, tensor({1.0, 2.0})));
  CHECK_RAISES(ShapeError, "histogram: weight has shape [1]", histogram(x, edges, {.weight = tensor({1.0}, wide)}));
  CHECK_RAISES(Error, "histogram: range", histogram(x, edges, {.range = {{0, 1}}}));
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

BOOST_AUTO_TEST_CASE(gradient_of_an_infinite_median_goes_to_it) {
  using Doubles = std::vector<double>;
  const auto gradient = [](const Doubles& elements) {
    const Tensor x = from_vector(elements, {std::ssize(elements)}).requires_grad_();
    const Tensor middle = median(x);
    middle.backward();
    BOOST_TEST(middle.item<double>() == std::get<0>(median(x.detach(), 0)).item<double>());
    return x.grad().to_vector<double>();
  };
  BOOST_TEST(gradient({-HUGE_VAL, -0.5}) == (Doubles{1, 0}));
  BOOST_TEST(gradient({HUGE_VAL, HUGE_VAL, 1}) == (Doubles{0.5, 0.5, 0}));
  BOOST_TEST(gradient({-2, 0, -0., 3}) == (Doubles{0, 0.5, 0.5, 0}));
  BOOST_TEST(gradient({-2, -2, -3}) == (Doubles{0.5, 0.5, 0}));
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
