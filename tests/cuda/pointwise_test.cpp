#include <boost/test/unit_test.hpp>

#include "tendril/tensor/raw.h"
#include "tests/cuda/operands.h"
#include "tests/errors.h"

namespace {

using namespace tendril;
using namespace tendril::testing;
using raw::view_of;

template <class Op>
std::vector<Op> all_of() {
  std::vector<Op> all;
  for (int i = 0; i < static_cast<int>(Op::count_); ++i) all.push_back(static_cast<Op>(i));
  return all;
}

// Each kernel by its slot: f(out, inputs).
auto unary(Unary op) {
  return [op](const Tensor& out, const std::vector<Tensor>& in) {
    kernels(out.device())->unary(op, view_of(out), view_of(in[0]), parameter_of(op));
  };
}
auto predicate(Predicate op) {
  return [op](const Tensor& out, const std::vector<Tensor>& in) {
    kernels(out.device())->predicate(op, view_of(out), view_of(in[0]));
  };
}
auto binary(Binary op) {
  return [op](const Tensor& out, const std::vector<Tensor>& in) {
    kernels(out.device())->binary(op, view_of(out), view_of(in[0]), view_of(in[1]));
  };
}
auto compare_by(Compare op) {
  return [op](const Tensor& out, const std::vector<Tensor>& in) {
    kernels(out.device())->compare(op, view_of(out), view_of(in[0]), view_of(in[1]));
  };
}
auto add_scaled(Scalar alpha) {
  return [alpha](const Tensor& out, const std::vector<Tensor>& in) {
    kernels(out.device())->add_scaled(view_of(out), view_of(in[0]), view_of(in[1]), alpha);
  };
}
void choose(const Tensor& out, const std::vector<Tensor>& in) {
  kernels(out.device())->where(view_of(out), view_of(in[0]), view_of(in[1]), view_of(in[2]));
}
auto clamp(std::optional<double> low, std::optional<double> high) {
  return [low, high](const Tensor& out, const std::vector<Tensor>& in) {
    const Scalar a = low.value_or(0), b = high.value_or(0);
    kernels(out.device())->clamp(view_of(out), view_of(in[0]), low ? &a : nullptr, high ? &b : nullptr);
  };
}

/// Whether the CPU serves the dtype; the device must refuse what it refuses.
template <class F>
bool served(F f, const Tensor& out, const std::vector<Tensor>& in) {
  try {
    f(twin(out, kCPU), in);
    return true;
  } catch (const DTypeError&) {
    BOOST_CHECK_THROW(f(twin(out), twins(in)), DTypeError);
    return false;
  }
}

/// The kernel for vectors and that for single elements, for every dtype.
template <class F>
void check_every_dtype(F f, std::size_t inputs, bool to_bool, bool exact) {
  for (const DType dtype : kEveryDType) {
    BOOST_TEST_CONTEXT(dtype) {
      const DType result = to_bool ? kBool : dtype;
      const double rtol = exact ? 0 : tolerance(result);
      const auto take = [&](const Dims& sizes) {
        std::vector<Tensor> in;
        for (std::size_t i = 0; i < inputs; ++i) in.push_back(samples(sizes, dtype, static_cast<int64_t>(i)));
        return in;
      };
      if (!served(f, unwritten({3}, result), take({3}))) continue;
      compare_into(f, unwritten({131}, result), take({131}), rtol, rtol);
      std::vector<Tensor> gaps;
      for (const Tensor& x : take({5, 28})) gaps.push_back(x.slice(1, 0, INT64_MAX, 2));
      compare_into(f, unwritten({5, 14}, result), gaps, rtol, rtol);
    }
  }
}

const std::vector<Dims> shapes = {{}, {0}, {1}, {4, 0, 3}, {7}, {64}, {3, 5}, {4, 24}, {3, 1, 2, 9}, {2, 3, 4, 8}};

}  // namespace

BOOST_AUTO_TEST_SUITE(pointwise)

BOOST_AUTO_TEST_CASE(every_function_of_one_operand_is_the_cpus) {
  for (const Unary op : all_of<Unary>()) {
    const bool exact = op <= Unary::sqrt;
    BOOST_TEST_CONTEXT(name_of(op)) { check_every_dtype(unary(op), 1, false, exact); }
  }
  for (const Predicate op : all_of<Predicate>()) {
    BOOST_TEST_CONTEXT(name_of(op)) { check_every_dtype(predicate(op), 1, true, true); }
  }
}

BOOST_AUTO_TEST_CASE(every_function_of_two_operands_is_the_cpus) {
  for (const Binary op : all_of<Binary>()) {
    const bool exact = op != Binary::pow && op != Binary::atan2 && op != Binary::hypot;
    BOOST_TEST_CONTEXT(name_of(op)) { check_every_dtype(binary(op), 2, false, exact); }
  }
  for (const Compare op : all_of<Compare>()) {
    BOOST_TEST_CONTEXT(name_of(op)) { check_every_dtype(compare_by(op), 2, true, true); }
  }
  check_every_dtype(add_scaled(3), 2, false, true);
}

BOOST_AUTO_TEST_CASE(a_scaled_sum_rounds_as_the_cpus) {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    compare_into(add_scaled(-0.3), unwritten({53}, dtype), {samples({53}, dtype), samples({53}, dtype, 1)});
  }
}

BOOST_AUTO_TEST_CASE(clamp_and_where_are_the_cpus_for_every_dtype) {
  check_every_dtype(clamp(-0.5, 2), 1, false, true);
  check_every_dtype(clamp(std::nullopt, 1), 1, false, true);
  check_every_dtype(clamp(1, std::nullopt), 1, false, true);
  check_every_dtype(clamp(3, 1), 1, false, true);
  for (const DType dtype : kEveryDType) {
    const Tensor mask = samples({7, 19}, kBool), x = samples({7, 19}, dtype, 1), y = samples({7, 19}, dtype, 2);
    compare_into(choose, unwritten({7, 19}, dtype), {mask, x, y});
    compare_into(choose, unwritten({7, 10}, dtype),
                 {mask.slice(1, 0, INT64_MAX, 2), x.slice(1, 0, INT64_MAX, 2), raw::narrow(y, 1, 3, 10)});
  }
}

BOOST_AUTO_TEST_CASE(operands_may_lie_in_any_way) {
  for (const Dims& sizes : shapes) {
    for (const auto& [out_name, out] : written_in(unwritten(sizes, kFloat32))) {
      for (const auto& [x_name, x] : read_from(samples(sizes, kFloat32))) {
        BOOST_TEST_CONTEXT(sizes << ", out " << out_name << ", x " << x_name) {
          compare_into(unary(Unary::neg), out, {x});
          compare_into(binary(Binary::add), out, {x, samples(sizes, kFloat32, 1)});
          compare_into(binary(Binary::sub), out, {samples(sizes, kFloat32, 1), x});
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(operands_may_lie_in_different_ways_and_have_elements_of_different_sizes) {
  for (const Dims& sizes : {Dims{3, 5}, Dims{4, 24}, Dims{2, 3, 4, 8}}) {
    for (const auto& [x_name, x] : read_from(samples(sizes, kFloat16))) {
      for (const auto& [y_name, y] : read_from(samples(sizes, kFloat16, 1))) {
        BOOST_TEST_CONTEXT(sizes << ", x " << x_name << ", y " << y_name) {
          compare_into(binary(Binary::mul), unwritten(sizes, kFloat16), {x, y});
          compare_into(compare_by(Compare::lt), unwritten(sizes, kBool), {x, y});
        }
      }
    }
    for (const auto& [mask_name, mask] : read_from(samples(sizes, kBool))) {
      for (const auto& [x_name, x] : read_from(samples(sizes, kFloat64))) {
        BOOST_TEST_CONTEXT(sizes << ", mask " << mask_name << ", x " << x_name) {
          compare_into(choose, unwritten(sizes, kFloat64), {mask, x, samples(sizes, kFloat64, 1)});
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(an_operation_in_place_reads_before_it_writes) {
  const auto square = [](const Tensor& out, const std::vector<Tensor>& in) {
    kernels(out.device())->binary(Binary::mul, view_of(out), view_of(out), view_of(in[0]));
  };
  for (const Dims& sizes : shapes) {
    for (const auto& [name, x] : written_in(samples(sizes, kFloat32))) {
      BOOST_TEST_CONTEXT(sizes << ", " << name) { compare_into(square, x, {samples(sizes, kFloat32, 2)}); }
    }
  }
}

BOOST_AUTO_TEST_CASE(many_blocks_share_the_work) {
  const Dims sizes = {3, 5001};
  const Tensor x = samples(sizes, kFloat32), y = samples(sizes, kFloat32, 1);
  compare_into(binary(Binary::add), unwritten(sizes, kFloat32), {x, y});
  const Tensor across = raw::permute(raw::clone(raw::permute(y, {1, 0})), {1, 0});
  compare_into(binary(Binary::add), unwritten(sizes, kFloat32), {x, across});
  compare_into(unary(Unary::exp), unwritten(sizes, kBFloat16), {raw::cast(x, kBFloat16)}, 8e-3);
}

BOOST_AUTO_TEST_SUITE_END()
