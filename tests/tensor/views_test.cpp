#include "tendril/tensor/layout.h"

#include <boost/test/unit_test.hpp>
#include <functional>

#include "tendril/tensor/raw.h"
#include "tests/make.h"

BOOST_AUTO_TEST_SUITE(views)

using namespace tendril;

namespace {

Layout dense(const Dims& sizes) { return {sizes, contiguous_strides(sizes), 0}; }

/// The elements' places in storage, in row-major order.
std::vector<int64_t> places(const Layout& x) {
  std::vector<int64_t> result;
  const std::function<void(int, int64_t)> walk = [&](int d, int64_t at) {
    if (d == x.sizes.size()) {
      result.push_back(at);
      return;
    }
    for (int64_t i = 0; i < x.sizes[d]; ++i) walk(d + 1, at + i * x.strides[d]);
  };
  walk(0, x.offset);
  return result;
}

}  // namespace

BOOST_AUTO_TEST_CASE(broadcasting_follows_numpy) {
  BOOST_TEST(broadcast_shapes({3, 1}, {4}, "add") == Dims({3, 4}));
  BOOST_TEST(broadcast_shapes({}, {2, 3}, "add") == Dims({2, 3}));
  BOOST_TEST(broadcast_shapes({5, 1, 1}, {2, 1}, "add") == Dims({5, 2, 1}));
  BOOST_TEST(broadcast_shapes({0}, {1}, "add") == Dims({0}));
  BOOST_TEST(broadcast_shapes({1}, {0}, "add") == Dims({0}));
  BOOST_CHECK_THROW(broadcast_shapes({2}, {3}, "add"), ShapeError);
  BOOST_CHECK_THROW(broadcast_shapes({0}, {2}, "add"), ShapeError);
}

BOOST_AUTO_TEST_CASE(dimensions_count_from_the_end_when_negative) {
  BOOST_TEST(wrap_dim(-1, 3, "sum") == 2);
  BOOST_TEST(wrap_dim(0, 0, "sum") == 0);
  BOOST_TEST(wrap_dim(-1, 0, "sum") == 0);
  BOOST_CHECK_THROW(wrap_dim(3, 3, "sum"), IndexError);
  BOOST_CHECK_THROW(wrap_dim(-4, 3, "sum"), IndexError);
  BOOST_CHECK_THROW(wrap_dim(1, 0, "sum"), IndexError);
}

BOOST_AUTO_TEST_CASE(more_elements_than_a_number_counts_are_refused) {
  const int64_t huge = int64_t{1} << 40;
  BOOST_CHECK_THROW(numel_of({huge, huge}), ShapeError);
  BOOST_CHECK_THROW(numel_of({2, -1}), ShapeError);
  BOOST_TEST(numel_of({huge, 0, huge}) == 0);
  BOOST_CHECK_THROW(make::empty({int64_t{1} << 62}), ShapeError);
  BOOST_CHECK_THROW(Dims::filled(9, 1), ShapeError);
}

BOOST_AUTO_TEST_CASE(a_view_is_found_exactly_where_strides_permit_one) {
  const Layout x = dense({2, 3, 4});
  BOOST_TEST((layout::view(x, {6, 4}) == dense({6, 4})));
  BOOST_TEST((layout::view(x, {24}) == dense({24})));
  BOOST_TEST((layout::view(x, {2, 1, 12}).value().strides == Dims({12, 12, 1})));
  const Layout t = layout::transpose(x, 1, 2);  // [2, 4, 3] with strides [12, 1, 4]
  BOOST_TEST(!layout::view(t, {24}));
  BOOST_TEST(!layout::view(t, {2, 12}));
  const auto split = layout::view(t, {2, 2, 2, 3});
  BOOST_REQUIRE(split);
  BOOST_TEST(places(*split) == places(t), boost::test_tools::per_element());
  const Layout broadcast = layout::expand(dense({3, 1}), {3, 4});
  BOOST_TEST(!layout::view(broadcast, {12}));
  BOOST_TEST((places(layout::view(broadcast, {3, 2, 2}).value()) == places(broadcast)));
  BOOST_TEST((layout::view(dense({}), {1, 1}).value().sizes == Dims({1, 1})));
  BOOST_TEST((layout::view(dense({1, 1}), {}).value().sizes == Dims{}));
  BOOST_TEST((layout::view(dense({0, 3}), {3, 0, 2}).value().sizes == Dims({3, 0, 2})));
}

BOOST_AUTO_TEST_CASE(a_view_never_changes_which_elements_are_seen) {
  // Every shape of 24 elements over every permutation of a 3-d tensor: a view, where it exists, walks the same places.
  const Dims orders[] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  int found = 0;
  for (const Dims& order : orders) {
    const Layout x = layout::permute(dense({2, 3, 4}), order);
    for (int64_t a = 1; a <= 24; ++a) {
      for (int64_t b = 1; a * b <= 24; ++b) {
        if (24 % (a * b) != 0) continue;
        if (const auto seen = layout::view(x, {a, b, 24 / (a * b)})) {
          BOOST_REQUIRE(places(*seen) == places(x));
          ++found;
        }
      }
    }
  }
  BOOST_TEST(found > 40);
}

BOOST_AUTO_TEST_CASE(a_missing_size_is_inferred) {
  BOOST_TEST(layout::infer_size({-1, 4}, 24, "view") == Dims({6, 4}));
  BOOST_TEST(layout::infer_size({-1}, 0, "view") == Dims({0}));
  BOOST_CHECK_THROW(layout::infer_size({-1, -1}, 24, "view"), ShapeError);
  BOOST_CHECK_THROW(layout::infer_size({-1, 5}, 24, "view"), ShapeError);
  BOOST_CHECK_THROW(layout::infer_size({-1, 0}, 0, "view"), ShapeError);
  BOOST_CHECK_THROW(layout::infer_size({4, 5}, 24, "view"), ShapeError);
  BOOST_CHECK_THROW(layout::infer_size({-2, 12}, 24, "view"), ShapeError);
}

BOOST_AUTO_TEST_CASE(slices_clip_their_bounds_as_python_does) {
  const Layout x = dense({10});
  BOOST_TEST((places(layout::slice(x, 0, 2, 5, 1)) == std::vector<int64_t>{2, 3, 4}));
  BOOST_TEST((places(layout::slice(x, 0, -3, INT64_MAX, 1)) == std::vector<int64_t>{7, 8, 9}));
  BOOST_TEST((places(layout::slice(x, 0, 1, 10, 4)) == std::vector<int64_t>{1, 5, 9}));
  BOOST_TEST((places(layout::slice(x, 0, -100, 2, 1)) == std::vector<int64_t>{0, 1}));
  BOOST_TEST(places(layout::slice(x, 0, 5, 2, 1)).empty());
  BOOST_TEST(places(layout::slice(x, 0, 100, 200, 1)).empty());
  BOOST_TEST((places(layout::slice(x, 0, 9, 10, INT64_MAX)) == std::vector<int64_t>{9}));
  BOOST_CHECK_THROW(layout::slice(x, 0, 0, 5, 0), IndexError);
  BOOST_CHECK_THROW(layout::slice(x, 0, 0, 5, -1), IndexError);
  BOOST_CHECK_THROW(layout::slice(dense({}), 0, 0, 1, 1), IndexError);
}

BOOST_AUTO_TEST_CASE(narrowing_and_selecting_do_not_clip) {
  const Layout x = dense({3, 4});
  BOOST_TEST((places(layout::narrow(x, 1, 1, 2)) == std::vector<int64_t>{1, 2, 5, 6, 9, 10}));
  BOOST_TEST((places(layout::narrow(x, 0, -1, 1)) == std::vector<int64_t>{8, 9, 10, 11}));
  BOOST_TEST(places(layout::narrow(x, 0, 3, 0)).empty());
  BOOST_CHECK_THROW(layout::narrow(x, 0, 2, 2), IndexError);
  BOOST_CHECK_THROW(layout::narrow(x, 0, -4, 1), IndexError);
  BOOST_CHECK_THROW(layout::narrow(x, 0, 1, INT64_MAX), IndexError);
  BOOST_TEST((places(layout::select(x, 1, -1)) == std::vector<int64_t>{3, 7, 11}));
  BOOST_CHECK_THROW(layout::select(x, 0, 3), IndexError);
  BOOST_CHECK_THROW(layout::select(x, 0, -4), IndexError);
  BOOST_CHECK_THROW(layout::select(dense({}), 0, 0), IndexError);
}

BOOST_AUTO_TEST_CASE(dimensions_are_permuted_dropped_and_added) {
  const Layout x = dense({2, 1, 3});
  BOOST_TEST(layout::permute(x, {2, 0, 1}).sizes == Dims({3, 2, 1}));
  BOOST_TEST(layout::permute(x, {-1, 0, 1}).strides == Dims({1, 3, 3}));
  BOOST_CHECK_THROW(layout::permute(x, {0, 1}), ShapeError);
  BOOST_CHECK_THROW(layout::permute(x, {0, 0, 1}), ShapeError);
  BOOST_TEST(layout::squeeze(x).sizes == Dims({2, 3}));
  BOOST_TEST(layout::squeeze(x, 1).sizes == Dims({2, 3}));
  BOOST_TEST(layout::squeeze(x, 0).sizes == Dims({2, 1, 3}));
  BOOST_TEST(layout::unsqueeze(x, -1).sizes == Dims({2, 1, 3, 1}));
  BOOST_TEST(layout::unsqueeze(dense({}), 0).sizes == Dims({1}));
  BOOST_TEST(layout::flatten_sizes({2, 3, 4, 5}, 1, 2) == Dims({2, 12, 5}));
  BOOST_TEST(layout::flatten_sizes({}, 0, -1) == Dims({1}));
  BOOST_CHECK_THROW(layout::flatten_sizes({2, 3}, 1, 0), ShapeError);
  BOOST_CHECK_THROW(layout::unsqueeze(dense({1, 1, 1, 1, 1, 1, 1, 1}), 0), ShapeError);
}

BOOST_AUTO_TEST_CASE(layouts_without_elements_may_have_absurd_sizes) {
  constexpr int64_t big = int64_t{1} << 40;
  BOOST_TEST(layout::flatten_sizes({0, big, big}, 0, -1) == Dims({0}));
  BOOST_TEST(layout::flatten_sizes({big, big, 0}, 0, -1) == Dims({0}));
  BOOST_CHECK_THROW(layout::flatten_sizes({0, big, big}, 1, 2), ShapeError);
  BOOST_CHECK_THROW(layout::flatten_sizes({big, big, 0}, 0, 1), ShapeError);
  const Layout x = layout::expand(dense({0, 1, 1}), {0, big, big});
  BOOST_TEST(x.sizes == Dims({0, big, big}));
  BOOST_TEST(layout::view(x, {big, 0, big})->sizes == Dims({big, 0, big}));
  const Layout wide = dense({0, big, big});
  BOOST_TEST(layout::is_contiguous(wide.sizes, wide.strides));
  BOOST_TEST(layout::unsqueeze(wide, 1).sizes == Dims({0, 1, big, big}));
  BOOST_TEST(layout::select(wide, 1, big - 1).offset == 0);
  BOOST_TEST(layout::slice(wide, 1, big / 2, big, big / 4).offset == 0);
  BOOST_TEST(layout::narrow(wide, 1, big / 2, 1).offset == 0);
  BOOST_TEST(layout::diagonal(wide, 1, 1, 2).sizes == Dims({0, big - 1}));
}

BOOST_AUTO_TEST_CASE(only_sizes_of_one_expand) {
  BOOST_TEST(layout::expand(dense({3, 1}), {2, -1, 4}).strides == Dims({0, 1, 0}));
  BOOST_TEST(layout::expand(dense({1}), {0}).sizes == Dims({0}));
  BOOST_CHECK_THROW(layout::expand(dense({3}), {4}), ShapeError);
  BOOST_CHECK_THROW(layout::expand(dense({3}), {-1, 3}), ShapeError);
  BOOST_CHECK_THROW(layout::expand(dense({2, 3}), {3}), ShapeError);
  BOOST_CHECK_THROW(layout::expand(dense({1}), {-2}), ShapeError);
}

BOOST_AUTO_TEST_CASE(a_window_may_not_leave_its_storage) {
  const Tensor x = make::zeros({4});
  BOOST_TEST(raw::as_strided(x, {2, 2}, {1, 2}, 0).numel() == 4);
  BOOST_CHECK_THROW(raw::as_strided(x, {2, 2}, {2, 2}, 0), ShapeError);
  BOOST_CHECK_THROW(raw::as_strided(x, {2}, {1}, 3), ShapeError);
  BOOST_CHECK_THROW(raw::as_strided(x, {2}, {-1}, 3), ShapeError);
  BOOST_CHECK_THROW(raw::as_strided(x, {1}, {1}, -1), ShapeError);
  BOOST_CHECK_THROW(raw::as_strided(x, {INT64_MAX}, {INT64_MAX}, 0), ShapeError);
  BOOST_TEST(raw::as_strided(x, {0}, {1}, 4).numel() == 0);
}

BOOST_AUTO_TEST_SUITE_END()
