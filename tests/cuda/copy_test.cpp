#include <boost/test/unit_test.hpp>

#include "tests/cuda/operands.h"

namespace {

using namespace tendril;
using namespace tendril::testing;
using raw::view_of;

void copied(const Tensor& out, const std::vector<Tensor>& in) {
  kernels(out.device())->copy(view_of(out), view_of(in[0]));
}
auto fill(Scalar value) {
  return [value](const Tensor& out, const std::vector<Tensor>&) { kernels(out.device())->fill(view_of(out), value); };
}
auto arange(Scalar start, Scalar step) {
  return [start, step](const Tensor& out, const std::vector<Tensor>&) {
    kernels(out.device())->arange(view_of(out), start, step);
  };
}

/// Numbers that are different from their neighbours, for dtypes of any width.
Tensor counted(const Dims& sizes, DType dtype) {
  return raw::cast(raw::view(raw::arange(0, numel_of(sizes)), sizes), dtype);
}

/// Finite numbers that every dtype has.
Tensor convertible(const Dims& sizes, DType dtype) {
  std::vector<double> values;
  for (int64_t i = 0; i < numel_of(sizes); ++i) values.push_back(static_cast<double>(i * 7 % 41) / 4);
  return raw::cast(raw::from_data(values, sizes), dtype);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(copy)

BOOST_AUTO_TEST_CASE(any_dtype_converts_to_any_other_as_on_the_cpu) {
  for (const DType to : kEveryDType) {
    for (const DType from : kEveryDType) {
      BOOST_TEST_CONTEXT(from << " to " << to) {
        compare_into(copied, unwritten({77}, to), {convertible({77}, from)});
        compare_into(copied, unwritten({5, 11}, to), {convertible({5, 22}, from).slice(1, 1, INT64_MAX, 2)});
        compare_into(copied, unwritten({6, 8}, to), {raw::permute(convertible({8, 6}, from), {1, 0})});
        if (is_floating(from) && !is_floating(to)) continue;  // what does not fit has no promised result
        compare_into(copied, unwritten({61}, to), {samples({61}, from)});
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(numbers_that_do_not_fit_convert_as_on_the_cpu) {
  const std::vector<double> far = {1e30, -1e30, 3e9, -3e9, 300, -300, 65520, 1e-30, 9.3e18};
  const Tensor x = raw::from_data(far, {9});
  for (const DType to : kEveryDType) compare_into(copied, unwritten({9}, to), {x});
  const std::vector<int64_t> integers = {INT64_MAX, INT64_MIN, 256, -1, int64_t{1} << 33, (int64_t{1} << 53) + 1, 0};
  for (const DType to : kEveryDType) compare_into(copied, unwritten({7}, to), {raw::from_data(integers, {7})});
}

BOOST_AUTO_TEST_CASE(every_layout_is_copied_to_every_other) {
  for (const Dims& sizes : {Dims{}, Dims{0}, Dims{9}, Dims{4, 24}, Dims{3, 5, 7}, Dims{2, 3, 4, 8}}) {
    for (const DType dtype : {kFloat32, kUInt8, kInt64, kBFloat16}) {
      for (const auto& [out_name, out] : written_in(unwritten(sizes, dtype))) {
        for (const auto& [x_name, x] : read_from(counted(sizes, dtype))) {
          BOOST_TEST_CONTEXT(sizes << " of " << dtype << " from " << x_name << " to " << out_name) {
            compare_into(copied, out, {x});
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(transposed_matrices_of_every_size_are_copied) {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kUInt8}) {
    for (const Dims& sizes : {Dims{31, 33}, Dims{32, 32}, Dims{64, 70}, Dims{1, 100}, Dims{100, 9}, Dims{129, 65}}) {
      BOOST_TEST_CONTEXT(sizes << " of " << dtype) {
        const Tensor x = counted(sizes, dtype);
        compare_into(copied, unwritten({sizes[1], sizes[0]}, dtype), {raw::permute(x, {1, 0})});
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(permutations_of_many_dimensions_are_copied) {
  const Tensor x = counted({3, 34, 2, 37}, kFloat32);
  const auto check = [&](const Dims& order) {
    const Tensor permuted = raw::permute(x, order);
    BOOST_TEST_CONTEXT(order) { compare_into(copied, unwritten(permuted.sizes(), kFloat32), {permuted}); }
  };
  check({0, 1, 3, 2});
  check({0, 3, 2, 1});
  check({3, 1, 2, 0});
  check({0, 2, 3, 1});  // channels last to first
  check({3, 2, 1, 0});
  check({1, 0, 2, 3});
  check({2, 3, 0, 1});
  // With gaps on both sides.
  const Tensor out = raw::narrow(unwritten({37, 2, 36}, kFloat32), 2, 1, 34);
  compare_into(copied, out, {raw::permute(raw::select(x, 0, 1), {2, 1, 0})});
}

BOOST_AUTO_TEST_CASE(a_fill_writes_its_elements_alone) {
  for (const DType dtype : kEveryDType) {
    for (const Dims& sizes : {Dims{}, Dims{0}, Dims{1}, Dims{77}, Dims{5, 24}, Dims{3, 5, 7}}) {
      for (const auto& [name, out] : written_in(unwritten(sizes, dtype))) {
        BOOST_TEST_CONTEXT(dtype << " " << sizes << " " << name) {
          compare_into(fill(2.75), out, {});
          compare_into(fill(3), out, {});
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_range_counts_as_on_the_cpu) {
  for (const DType dtype : kEveryDType) {
    BOOST_TEST_CONTEXT(dtype) {
      for (const auto& [name, out] : written_in(unwritten({100}, dtype))) {
        compare_into(arange(0, 1), out, {});
        compare_into(arange(0.1, 0.3), out, {});
      }
      compare_into(arange(20, 2), unwritten({0}, dtype), {});
    }
  }
  compare_into(arange(int64_t{1} << 60, -3), unwritten({1000}, kInt64), {});
}

BOOST_AUTO_TEST_SUITE_END()
