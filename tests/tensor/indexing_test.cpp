#include <boost/test/unit_test.hpp>

#include "tendril/autograd/ops/join.h"
#include "tendril/tensor/drivers/by_index.h"
#include "tendril/tensor/raw.h"
#include "tests/make.h"
#include "tests/tensor/layouts.h"

BOOST_AUTO_TEST_SUITE(indexing)

using namespace tendril;

namespace {

Tensor ints(const std::vector<int64_t>& values, const Dims& sizes) { return make::from_data(values, sizes); }
Tensor counted(const Dims& sizes, DType dtype = kFloat32) {
  return raw::view(make::arange(0, numel_of(sizes), 1, dtype), sizes);
}

}  // namespace

BOOST_AUTO_TEST_CASE(gathering_reads_at_the_index_along_a_dimension) {
  const Tensor chosen = ints({0, 2, 1, 3, 3, 0}, {3, 2});
  for (const DType dtype : {kFloat32, kFloat64, kUInt8, kFloat16}) {
    for (const auto& [name, x] : testing::in_every_layout(counted({3, 4}, dtype))) {
      for (const auto& [name_index, i] : testing::in_every_layout(chosen)) {
        BOOST_TEST((x.gather(1, i).to_vector<int64_t>() == std::vector<int64_t>{0, 2, 5, 7, 11, 8}),
                   name << ", " << name_index);
      }
    }
  }
  BOOST_TEST(
      (counted({3, 4}).gather(0, ints({2, 0, 1}, {1, 3})).to_vector<int64_t>() == std::vector<int64_t>{8, 1, 6}));
  BOOST_TEST(make::scalar(5, kInt64).gather(0, make::scalar(0, kInt64)).item<int64_t>() == 5);
  BOOST_TEST(counted({3}).gather(0, ints({}, {0})).numel() == 0);
}

BOOST_AUTO_TEST_CASE(scattering_adds_up_where_indices_meet) {
  for (const auto& [name, out] : testing::in_every_layout(make::zeros({2, 3}))) {
    drivers::scatter_add_(out, 1, ints({0, 0, 2, 1, 1, 1}, {2, 3}), raw::view(make::arange(1, 7, 1, kFloat32), {2, 3}));
    BOOST_TEST((out.to_vector<int64_t>() == std::vector<int64_t>{3, 0, 3, 0, 15, 0}), name);
  }
}

BOOST_AUTO_TEST_CASE(whole_slices_are_selected_and_added) {
  const Tensor chosen = ints({2, 0, 2}, {3});
  for (const auto& [name, x] : testing::in_every_layout(counted({3, 2}))) {
    BOOST_TEST((x.index_select(0, chosen).to_vector<int64_t>() == std::vector<int64_t>{4, 5, 0, 1, 4, 5}), name);
    BOOST_TEST((x.index_select(1, ints({1}, {1})).to_vector<int64_t>() == std::vector<int64_t>{1, 3, 5}), name);
  }
  for (const auto& [name, out] : testing::in_every_layout(make::zeros({3, 2}))) {
    drivers::index_add_(out, 0, chosen, counted({3, 2}));
    BOOST_TEST((out.to_vector<int64_t>() == std::vector<int64_t>{2, 3, 0, 0, 4, 6}), name);
    drivers::index_add_(out, 1, ints({0}, {1}), make::ones({3, 1}));
    BOOST_TEST((out.to_vector<int64_t>() == std::vector<int64_t>{3, 3, 1, 0, 5, 6}), name);
  }
  BOOST_TEST(counted({3, 2}).index_select(0, raw::cast(chosen, kInt32)).size(0) == 3);
}

BOOST_AUTO_TEST_CASE(an_index_out_of_range_is_refused_before_anything_is_written) {
  BOOST_CHECK_EXCEPTION(counted({3, 4}).gather(1, ints({0, 4}, {1, 2})), IndexError, [](const Error& e) {
    return std::string(e.what()) == "gather: index 4 is out of range for dimension 1 of size 4";
  });
  const Tensor out = make::zeros({3});
  BOOST_CHECK_THROW(drivers::scatter_add_(out, 0, ints({0, -1}, {2}), make::ones({2})), IndexError);
  BOOST_CHECK_THROW(drivers::index_add_(out, 0, ints({0, 3}, {2}), make::ones({2})), IndexError);
  BOOST_CHECK_THROW(out.index_select(0, ints({0, INT64_MIN}, {2})), IndexError);
  BOOST_TEST((out.to_vector<int64_t>() == std::vector<int64_t>{0, 0, 0}));
}

BOOST_AUTO_TEST_CASE(int32_indices_are_accepted) {
  const Tensor x = counted({3, 4}), wide = ints({3, 0, 1}, {3, 1}), narrow = raw::cast(wide, kInt32);
  BOOST_TEST(raw::equal(x.gather(1, narrow), x.gather(1, wide)));
  const Tensor source = make::full({3, 1}, 7, x.dtype());
  BOOST_TEST(raw::equal(x.scatter(1, narrow, source), x.scatter(1, wide, source)));
  BOOST_TEST(raw::equal(x.scatter_add(1, narrow, source), x.scatter_add(1, wide, source)));
  const Tensor written = raw::clone(x), added = raw::clone(x);
  written.scatter_(1, narrow, source);
  added.scatter_add_(1, narrow, source);
  BOOST_TEST(raw::equal(written, x.scatter(1, wide, source)));
  BOOST_TEST(raw::equal(added, x.scatter_add(1, wide, source)));
}

BOOST_AUTO_TEST_CASE(an_index_of_the_wrong_kind_is_refused) {
  const Tensor x = counted({3, 4});
  BOOST_CHECK_THROW(x.gather(1, make::zeros({3, 1})), DTypeError);
  BOOST_CHECK_THROW(x.gather(1, make::zeros({3, 1}, kUInt8)), DTypeError);
  BOOST_CHECK_THROW(x.gather(1, ints({0}, {1})), ShapeError);
  BOOST_CHECK_THROW(x.gather(1, make::zeros({4, 1}, kInt64)), ShapeError);
  BOOST_CHECK_THROW(x.gather(2, make::zeros({3, 1}, kInt64)), IndexError);
  BOOST_CHECK_THROW(x.index_select(0, make::zeros({1, 1}, kInt64)), ShapeError);
  BOOST_CHECK_THROW(drivers::index_add_(x, 0, ints({0}, {1}), make::ones({2, 4})), ShapeError);
  BOOST_CHECK_THROW(drivers::scatter_add_(x, 0, ints({0}, {1, 1}), make::ones({1, 1}, kFloat64)), DTypeError);
}

BOOST_AUTO_TEST_CASE(a_0d_tensor_is_one_of_one_element) {
  const Tensor five = make::scalar(5, kFloat32), nowhere = make::scalar(0, kInt64);
  for (const Tensor& index : {nowhere, ints({0}, {1})}) {
    BOOST_TEST(five.gather(0, index).sizes() == index.sizes());
    BOOST_TEST(five.scatter_add(-1, index, five).item<float>() == 10);
    BOOST_TEST(five.scatter(0, index, 2).item<float>() == 2);
    BOOST_TEST(five.index_select(0, index).sizes() == Dims{});
    BOOST_TEST(five.index_add(0, index, five).item<float>() == 10);
  }
  BOOST_TEST(counted({3}).gather(0, nowhere).sizes() == Dims{});
  BOOST_CHECK_THROW(five.gather(0, make::zeros({2, 1}, kInt64)), ShapeError);
  BOOST_CHECK_THROW(five.gather(1, nowhere), IndexError);
}

BOOST_AUTO_TEST_CASE(of_a_larger_tensor_the_corner_that_the_index_covers_is_read_and_written) {
  const Tensor x = counted({3, 4}), index = ints({2, 0}, {1, 2});
  BOOST_TEST((x.gather(0, index).to_vector<int64_t>() == std::vector<int64_t>{8, 1}));
  const Tensor out = make::zeros({3, 4});
  drivers::scatter_add_(out, 0, index, make::ones({1, 2}));
  BOOST_TEST((out.to_vector<int64_t>() == std::vector<int64_t>{0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0}));
  drivers::scatter_(out, 0, index, make::full({1, 2}, 7));
  BOOST_TEST((out.to_vector<int64_t>() == std::vector<int64_t>{0, 7, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0}));
  BOOST_CHECK_THROW(drivers::scatter_add_(out, 0, index, make::ones({3, 4})), ShapeError);  // of the index's sizes
}

BOOST_AUTO_TEST_CASE(tensors_join_along_old_and_new_dimensions) {
  const std::vector<Tensor> parts = {counted({2, 2}), make::full({2, 1}, 9, kFloat64)};
  const Tensor joined = cat(parts, -1);
  BOOST_TEST(joined.dtype() == kFloat64);
  BOOST_TEST((joined.to_vector<int64_t>() == std::vector<int64_t>{0, 1, 9, 2, 3, 9}));
  const std::vector<Tensor> pair = {counted({2}), make::ones({2})};
  BOOST_TEST((stack(pair, 0).to_vector<int64_t>() == std::vector<int64_t>{0, 1, 1, 1}));
  BOOST_TEST((stack(pair, 1).to_vector<int64_t>() == std::vector<int64_t>{0, 1, 1, 1}));
  BOOST_TEST(stack(pair, -1).sizes() == Dims({2, 2}));
  const std::vector<Tensor> uneven = {counted({2, 2}), counted({3, 1})};
  BOOST_CHECK_THROW(cat(uneven, 1), ShapeError);
  BOOST_CHECK_THROW(stack(uneven, 0), ShapeError);
  BOOST_CHECK_THROW(cat(std::vector<Tensor>(), 0), Error);
  const std::vector<Tensor> numbers = {make::scalar(1, kInt64)};
  BOOST_CHECK_THROW(cat(numbers, 0), ShapeError);
}

BOOST_AUTO_TEST_SUITE_END()
