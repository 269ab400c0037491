#include <boost/test/unit_test.hpp>
#include <limits>

#include "tendril/tensor/drivers/along.h"
#include "tendril/tensor/drivers/reduction.h"
#include "tests/cuda/laid_out.h"
#include "tests/errors.h"

using namespace tendril;
using namespace tendril::testing;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
const std::vector<DType> kAll = {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kUInt8, kBool};
const std::vector<DType> kFloating = {kFloat32, kFloat64, kFloat16, kBFloat16};

using Op = std::function<Tensor(const Tensor&)>;

void check_alike(const Op& op, const Laid& x, double rtol, double atol) {
  check_close(op(x.on(kCuda)), op(x.on(kCPU)), rtol, atol);
}

Tensor softmax(const Tensor& x, int64_t dim) { return x.softmax(dim); }
Tensor log_softmax(const Tensor& x, int64_t dim) { return x.log_softmax(dim); }
std::tuple<Tensor, Tensor> best(bool largest, const Tensor& x, int64_t dim) {
  return largest ? x.max(dim) : x.min(dim);
}

void check_best(bool largest, const Tensor& x, int64_t dim) {
  const auto [values, indices] = best(largest, raw::to(x, kCuda), dim);
  const auto [expected_values, expected_indices] = best(largest, x, dim);
  check_close(values, expected_values, 0, 0);
  check_close(indices, expected_indices, 0, 0);
}

/// The kernel itself, for dtypes that drivers::reduce would widen first.
Tensor reduced(Reduction op, const Tensor& x, const Dims& dims) {
  Dims sizes = x.sizes();
  for (const int64_t d : dims) sizes[static_cast<int>(d)] = 1;
  const Tensor out = raw::empty(sizes, x.dtype(), x.device());
  kernels(x.device())->reduce(op, raw::view_of(out), raw::view_of(x));
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(reduction)

BOOST_AUTO_TEST_CASE(any_dimensions_of_any_layout_reduce_as_on_the_cpu) {
  for (const Dims& sizes : {Dims{3, 4, 5}, Dims{2, 1, 70}, Dims{40, 2, 3}, Dims{2, 2, 3, 2, 2}, Dims{1, 1}, Dims{7}}) {
    for (const Laid& x : laid_out(numbers(sizes))) {
      for (unsigned mask = 1; mask < 1u << sizes.size(); ++mask) {
        Dims dims;
        for (int d = 0; d < sizes.size(); ++d) {
          if (mask >> d & 1) dims.push_back(d);
        }
        BOOST_TEST_CONTEXT(x.name << " " << sizes << " over " << dims) {
          for (const Reduction op : {Reduction::sum, Reduction::max}) {
            check_alike([&](const Tensor& t) { return drivers::reduce(op, t, dims); }, x, 1e-6, 0);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(every_operation_reduces_every_dtype_that_the_cpu_serves) {
  for (const DType dtype : kAll) {
    for (const Dims& sizes : {Dims{3, 37}, Dims{37, 3}, Dims{2, 64}, Dims{64, 8}}) {
      const Tensor x = numbers(sizes, dtype);
      for (int i = 0; i < static_cast<int>(Reduction::count_); ++i) {
        const auto op = static_cast<Reduction>(i);
        for (const Dims& dims : {Dims{0}, Dims{1}, Dims{0, 1}}) {
          BOOST_TEST_CONTEXT(name_of(op) << " of " << dtype << sizes << " over " << dims) {
            Tensor expected;
            try {
              expected = reduced(op, x, dims);
            } catch (const DTypeError&) {
              BOOST_CHECK_EXCEPTION(reduced(op, raw::to(x, kCuda), dims), DTypeError,
                                    says(name_of(op), "cuda", name_of(dtype)));
              continue;
            }
            check_close(reduced(op, raw::to(x, kCuda), dims), expected, 4 * tolerance(dtype), 0);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(long_rows_and_columns_are_shared_by_blocks) {
  for (const Dims& sizes : {Dims{9001}, Dims{2, 9001}, Dims{9001, 2}, Dims{2500, 36}, Dims{3, 1, 5003}}) {
    for (const DType dtype : {kFloat32, kFloat16, kInt64}) {
      for (const Laid& x : laid_out(numbers(sizes, dtype))) {
        for (int d = 0; d < sizes.size(); ++d) {
          BOOST_TEST_CONTEXT(x.name << " " << dtype << sizes << " over " << d) {
            check_alike([&](const Tensor& t) { return t.sum({d}); }, x, 4 * tolerance(dtype), 1e-3);
            check_alike([&](const Tensor& t) { return drivers::reduce(Reduction::min, t, {d}); }, x, 0, 0);
          }
        }
        BOOST_TEST_CONTEXT(x.name << " " << dtype << sizes) {
          check_alike([&](const Tensor& t) { return t.sum(); }, x, 4 * tolerance(dtype), 1e-3);
        }
      }
    }
  }
  const Tensor maps = numbers({30, 5, 7, 7});  // the gradient of a convolution's bias
  check_close(raw::to(maps, kCuda).sum({0, 2, 3}), maps.sum({0, 2, 3}), 1e-6, 1e-4);
}

BOOST_AUTO_TEST_CASE(few_columns_of_much_that_is_kept_share_blocks) {
  for (const Dims& sizes : {Dims{5001, 3, 4}, Dims{4099, 2, 3}, Dims{3000, 40, 2}}) {
    for (const DType dtype : {kFloat32, kFloat64, kInt32}) {
      const Tensor x = numbers(sizes, dtype), y = raw::to(x, kCuda);
      BOOST_TEST_CONTEXT(dtype << sizes) {
        check_close(y.sum({1}), x.sum({1}), 4 * tolerance(dtype), 1e-5);
        check_close(drivers::reduce(Reduction::max, y, {1}), drivers::reduce(Reduction::max, x, {1}), 0, 0);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(broadcast_operands_reduce) {
  const Tensor x = numbers({5, 1, 3}), y = raw::to(x, kCuda);
  for (const Dims& dims : {Dims{0}, Dims{1}, Dims{2}, Dims{0, 2}, Dims{0, 1, 2}}) {
    check_close(raw::expand(y, {5, 41, 3}).sum(dims), raw::expand(x, {5, 41, 3}).sum(dims), 1e-6, 0);
  }
}

BOOST_AUTO_TEST_CASE(nothing_reduces_to_the_identity) {
  const Tensor none = raw::empty({3, 0}, kFloat32, kCuda);
  check_close(none.sum({1}), raw::zeros({3}), 0, 0);
  check_close(drivers::reduce(Reduction::prod, none, {1}), raw::ones({3}), 0, 0);
  check_close(raw::empty({0, 2}, kBool, kCuda).all(0), raw::ones({2}, kBool), 0, 0);
  check_close(raw::empty({0, 2}, kBool, kCuda).any(0), raw::zeros({2}, kBool), 0, 0);
  check_close(reduced(Reduction::max, none, {1}), raw::full({3, 1}, -kInf), 0, 0);
  check_close(reduced(Reduction::min, raw::empty({0}, kInt32, kCuda), {0}),
              raw::full({1}, std::numeric_limits<int32_t>::max(), kInt32), 0, 0);
  BOOST_TEST(none.sum({0}).numel() == 0);
}

BOOST_AUTO_TEST_CASE(a_nan_wins_and_infinities_count) {
  std::vector<float> values(300, 1.0F);
  values[170] = static_cast<float>(kNan);
  values[30] = static_cast<float>(kInf);
  values[40] = -static_cast<float>(kInf);
  const Tensor x = raw::from_data(values, {3, 100});
  for (const int64_t dim : {0, 1}) {
    for (const Reduction op : {Reduction::sum, Reduction::max, Reduction::min, Reduction::prod}) {
      check_close(drivers::reduce(op, raw::to(x, kCuda), {dim}), drivers::reduce(op, x, {dim}), 1e-6, 0);
    }
    for (const bool largest : {true, false}) {
      check_best(largest, x, dim);
    }
    for (const auto op : {softmax, log_softmax}) {
      check_close(op(raw::to(x, kCuda), dim), op(x, dim), 1e-5, 1e-6);
    }
    for (const bool reverse : {false, true}) {
      check_close(drivers::scan(Scan::sum, raw::to(x, kCuda), dim, reverse), drivers::scan(Scan::sum, x, dim, reverse),
                  1e-5, 1e-6);
    }
  }
}

BOOST_AUTO_TEST_CASE(integer_sums_wrap_around) {
  const Tensor x = raw::full({2, 700}, INT64_MAX - 5, kInt64);
  check_close(raw::to(x, kCuda).sum({1}), x.sum({1}), 0, 0);
  check_close(raw::to(x, kCuda).cumsum(1), x.cumsum(1), 0, 0);
}

BOOST_AUTO_TEST_CASE(sums_have_the_same_bits_every_time) {
  std::vector<float> values;
  for (int i = 0; i < 9001; ++i)
    values.push_back(std::sin(static_cast<float>(i)) * std::exp(static_cast<float>(i % 17)));
  const Tensor x = raw::to(raw::from_data(values, {9001}), kCuda);
  const float first = x.sum().item<float>();
  for (int run = 0; run < 5; ++run) BOOST_TEST(x.sum().item<float>() == first);
}

BOOST_AUTO_TEST_CASE(the_first_of_equal_extrema_is_found) {
  for (const DType dtype : kAll) {
    for (const Dims& sizes : {Dims{3, 130}, Dims{130, 3}, Dims{2, 40, 9}, Dims{1}}) {
      for (const Laid& x : laid_out(numbers(sizes, dtype))) {
        for (int d = 0; d < sizes.size(); ++d) {
          BOOST_TEST_CONTEXT(x.name << " " << dtype << sizes << " along " << d) {
            for (const bool largest : {true, false}) {
              check_alike([&](const Tensor& t) { return std::get<0>(best(largest, t, d)); }, x, 0, 0);
              check_alike([&](const Tensor& t) { return largest ? t.argmax(d) : t.argmin(d); }, x, 0, 0);
            }
          }
        }
      }
    }
  }
  // Lines that several blocks share: the best is late, and there twice.
  for (const Dims& sizes : {Dims{9001}, Dims{2, 9001}, Dims{9001, 2}}) {
    const Tensor x = numbers(sizes);
    for (const int64_t at : {4700, 8800}) raw::fill_(raw::narrow(x, sizes.size() > 1 && sizes[0] == 2, at, 1), 50);
    const int d = sizes.size() > 1 && sizes[0] == 2;
    for (const bool largest : {true, false}) {
      check_best(largest, x, d);
    }
  }
}

BOOST_AUTO_TEST_CASE(running_sums_are_those_of_the_cpu) {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64}) {
    for (const Dims& sizes : {Dims{3, 37}, Dims{70, 3}, Dims{2, 33, 5}, Dims{2, 1100}, Dims{1}, Dims{0, 2}}) {
      for (const Laid& x : laid_out(numbers(sizes, dtype))) {
        for (int d = 0; d < sizes.size(); ++d) {
          BOOST_TEST_CONTEXT(x.name << " " << dtype << sizes << " along " << d) {
            check_alike([&](const Tensor& t) { return t.cumsum(d); }, x, 8 * tolerance(dtype), 1e-3);
          }
        }
      }
    }
  }
  for (const Dims& sizes : {Dims{20001}, Dims{2, 17000}}) {  // shared by several blocks
    const Tensor x = numbers(sizes);
    check_close(raw::to(x, kCuda).cumsum(-1), x.cumsum(-1), 1e-5, 1e-3);
  }
}

BOOST_AUTO_TEST_CASE(softmax_is_that_of_the_cpu_for_rows_of_every_length) {
  for (const bool logarithm : {false, true}) {
    for (const DType dtype : kFloating) {
      for (const int64_t length : {1, 3, 12, 128, 200, 333, 700, 1024, 1027, 5000}) {
        const Tensor x = numbers({2, length}, dtype);
        for (const Laid& l : length < 800 ? laid_out(x) : std::vector<Laid>{laid_out(x)[0], laid_out(x)[4]}) {
          BOOST_TEST_CONTEXT(l.name << " " << dtype << " of length " << length) {
            const auto op = logarithm ? log_softmax : softmax;
            check_alike([&](const Tensor& t) { return op(t, 1); }, l, 4 * tolerance(dtype), 1e-7);
          }
        }
      }
      for (const Dims& sizes : {Dims{3, 40, 5}, Dims{200, 2}, Dims{3, 1, 40}, Dims{0, 4}}) {
        const Tensor x = numbers(sizes, dtype);
        for (int d = 0; d < sizes.size(); ++d) {
          const auto op = logarithm ? log_softmax : softmax;
          check_close(op(raw::to(x, kCuda), d), op(x, d), 4 * tolerance(dtype), 1e-7);
        }
      }
    }
  }
  BOOST_CHECK_THROW(softmax(raw::empty({2, 2}, kInt64, kCuda), 0), DTypeError);
}

BOOST_AUTO_TEST_CASE(softmax_of_long_rows_keeps_them_where_a_block_has_the_memory_and_reads_others_twice) {
  for (const int64_t length : {20'003, 32'768, 70'001}) {  // in more memory than blocks have unasked; in none
    const Tensor x = numbers({2, length}), broken = raw::clone(x);
    check_close(softmax(raw::to(x, kCuda), 1), softmax(x, 1), 1e-5, 0);
    for (const double value : {kInf, -kInf, kNan}) {
      raw::fill_(raw::narrow(broken, 1, 9999, 2), value);
      check_close(log_softmax(raw::to(broken, kCuda), 1), log_softmax(broken, 1), 1e-5, 0);
    }
  }
  const Tensor nothing = raw::full({1, 2000}, -kInf);
  check_close(softmax(raw::to(nothing, kCuda), 1), softmax(nothing, 1), 0, 0);
}

BOOST_AUTO_TEST_SUITE_END()
