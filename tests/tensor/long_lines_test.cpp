// Few long lines, which several threads share: the same bits on any number of them, near what long double gives.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tendril/tensor/cpu/paths.h"
#include "tendril/tensor/drivers/along.h"
#include "tendril/tensor/kernels.h"
#include "tendril/tensor/raw.h"
#include "tendril/tensor/threads.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(long_lines)

using namespace tendril;
using tendril::testing::test_seed;

namespace {

using raw::view_of;

const Kernels& table = *kernels(kCPU);
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Budget {
  explicit Budget(int n) : before(thread_budget()) { set_num_threads(n); }
  ~Budget() { set_num_threads(before); }
  int before;
};

Tensor noise(const Dims& sizes, DType dtype = kFloat32) {
  Generator generator(test_seed());
  const Tensor x = raw::empty(sizes, kFloat64);
  raw::uniform_(x, -9, 9, generator);
  return raw::cast(x, dtype);
}
/// What nobody writes shows.
Tensor unwritten(const Dims& sizes, DType dtype) { return raw::full(sizes, is_floating(dtype) ? kNan : 99, dtype); }

/// Lines: along the last dimension, or with `columns` along the first.
struct Lines {
  int64_t count, length;
  bool columns = false;
  int dim() const { return columns ? 0 : 1; }
  Dims sizes(int64_t long_one) const { return columns ? Dims{long_one, count} : Dims{count, long_one}; }
  Dims sizes() const { return sizes(length); }
};
const Lines kLines[] = {{1, 300'001}, {3, 66'000}, {2, 70'001, true}, {1, 65'536}};
std::string name_of(const char* op, const Lines& lines, DType dtype) {
  return std::string(op) + " of " + std::to_string(lines.count) + (lines.columns ? " columns" : " rows") + " of " +
         std::to_string(lines.length) + ", " + tendril::name_of(dtype);
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.raw_data(), b.raw_data(), static_cast<std::size_t>(a.numel()) * size_of(a.dtype())) == 0;
}

/// The results on 1, 2, 3 and 8 threads, which must be one; shared out on more than one, `regions` times a line.
template <class Compute>
std::vector<Tensor> on_any_threads(const std::string& what, uint64_t regions, const Compute& compute) {
  std::vector<Tensor> expected;
  for (const int threads : {1, 2, 3, 8}) {
    const Budget budget(threads);
    const uint64_t before = cpu::taken(cpu::Path::shared);
    const std::vector<Tensor> results = compute();
    const uint64_t shared = cpu::taken(cpu::Path::shared) - before;
    BOOST_TEST((threads == 1 ? shared == 0 : shared >= regions), what << ": shared out " << shared << " times");
    if (expected.empty()) expected = results;
    for (std::size_t i = 0; i < results.size(); ++i) {
      BOOST_TEST(same_bits(results[i], expected[i]), what << ", result " << i << " on " << threads << " threads");
    }
  }
  return expected;
}

/// Calls f(place of element i of the line) for each line, in a tensor that lies in order.
template <class F>
void for_each_line(const Lines& lines, const F& f) {
  for (int64_t line = 0; line < lines.count; ++line) {
    f([&, line](int64_t i) {
      return static_cast<std::size_t>(lines.columns ? i * lines.count + line : line * lines.length + i);
    });
  }
}
std::vector<double> doubles(const Tensor& x) { return raw::cast(x, kFloat64).to_vector<double>(); }

/// Of what a dtype can tell apart.
long double epsilon(DType dtype) {
  return dtype == kFloat64 ? 0x1p-52L : dtype == kFloat32 ? 0x1p-23L : dtype == kFloat16 ? 0x1p-10L : 0x1p-7L;
}

}  // namespace

BOOST_AUTO_TEST_CASE(running_sums_are_right_to_the_last_bits_on_any_number_of_threads) {
  for (const Lines& lines : kLines) {
    for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
      const Tensor x = noise(lines.sizes(), dtype);
      const std::string what = name_of("cumsum", lines, dtype);
      const std::vector<Tensor> got = on_any_threads(what, lines.count == 1 ? 2 : 1, [&] {
        const Tensor out = unwritten(lines.sizes(), dtype);
        table.scan(Scan::sum, view_of(out), nullptr, view_of(x), lines.dim());
        return std::vector{out, drivers::scan(Scan::sum, x, lines.dim(), true)};
      });
      const std::vector<double> from = doubles(x), there = doubles(got[0]), back = doubles(got[1]);
      long double worst = 0;  // in units of the dtype's rounding at the result's size
      for_each_line(lines, [&](const auto& at) {
        long double sum = 0, most = 1;
        const auto add = [&](const std::vector<double>& results, int64_t i) {
          sum += static_cast<long double>(from[at(i)]);
          most = std::max(most, std::abs(sum));
          const long double size = dtype == kFloat64 ? most : 1 + std::abs(sum);  // the others are added up in double
          worst = std::fmax(worst, std::abs(static_cast<long double>(results[at(i)]) - sum) / size / epsilon(dtype));
          if (std::isnan(results[at(i)])) worst = INFINITY;
        };
        for (int64_t i = 0; i < lines.length; ++i) add(there, i);
        sum = 0;
        for (int64_t i = lines.length; i-- > 0;) add(back, i);
      });
      BOOST_TEST(worst <= (dtype == kFloat64 ? 40 : 0.51), what << ": off by " << worst);
    }
  }
}

BOOST_AUTO_TEST_CASE(running_sums_of_integers_wrap_around_on_any_number_of_threads) {
  const Lines lines{1, 100'000};
  for (const DType dtype : {kInt64, kInt32, kUInt8}) {
    Generator generator(test_seed());
    const Tensor wide = raw::empty(lines.sizes(), kInt64);
    raw::randint_(wide, 0, dtype == kInt64 ? int64_t{1} << 60 : dtype == kInt32 ? 1 << 30 : 256, generator);
    const Tensor x = raw::cast(wide, dtype);
    const std::vector<Tensor> got = on_any_threads(name_of("cumsum", lines, dtype), 2, [&] {
      const Tensor out = unwritten(lines.sizes(), dtype);
      table.scan(Scan::sum, view_of(out), nullptr, view_of(x), 1);
      return std::vector{out};
    });
    const auto from = raw::cast(x, kInt64).to_vector<int64_t>(), there = raw::cast(got[0], kInt64).to_vector<int64_t>();
    uint64_t sum = 0;
    bool right = true;
    for (std::size_t i = 0; i < from.size(); ++i) {
      sum += static_cast<uint64_t>(from[i]);
      const int64_t expected = dtype == kInt64   ? static_cast<int64_t>(sum)
                               : dtype == kInt32 ? static_cast<int32_t>(sum)
                                                 : static_cast<uint8_t>(sum);
      right = right && there[i] == expected;
    }
    BOOST_TEST(right, dtype);
  }
}

BOOST_AUTO_TEST_CASE(running_sums_of_positive_numbers_never_fall) {
  for (const DType dtype : {kFloat32, kFloat64}) {
    const Tensor x = raw::unary(Unary::abs, noise({1, 300'000}, dtype)), out = unwritten(x.sizes(), dtype);
    table.scan(Scan::sum, view_of(out), nullptr, view_of(x), 1);
    const std::vector<double> sums = doubles(out);
    BOOST_TEST(std::ranges::is_sorted(sums), dtype);
  }
}

BOOST_AUTO_TEST_CASE(running_sums_stay_infinite_and_become_no_number_where_infinities_meet) {
  const Lines lines{1, 100'000};
  for (const DType dtype : {kFloat32, kFloat64}) {
    const Tensor x = noise(lines.sizes(), dtype);
    raw::fill_(raw::narrow(x, 1, 30'000, 1), INFINITY);
    raw::fill_(raw::narrow(x, 1, 80'000, 1), -INFINITY);
    const std::vector<double> sums = doubles(on_any_threads(name_of("cumsum", lines, dtype), 2, [&] {
      const Tensor out = unwritten(lines.sizes(), dtype);
      table.scan(Scan::sum, view_of(out), nullptr, view_of(x), 1);
      return std::vector{out};
    })[0]);
    bool right = true;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      right = right && (i < 30'000 ? std::isfinite(sums[i]) : i < 80'000 ? sums[i] == INFINITY : std::isnan(sums[i]));
    }
    BOOST_TEST(right, dtype);
  }
}

BOOST_AUTO_TEST_CASE(other_running_results_are_those_of_long_double_on_any_number_of_threads) {
  for (const Lines& lines : {Lines{3, 30'000}, Lines{40, 2'500, true}, Lines{1, 10'000}}) {
    for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
      const Tensor x = noise(lines.sizes(), dtype);
      const Tensor factors = raw::cast(  // whose products stay numbers
          raw::binary(Binary::add, raw::binary(Binary::mul, noise(lines.sizes(), kFloat64), 1e-4), 1), dtype);
      const std::string what = name_of("running results", lines, dtype);
      const std::vector<Tensor> got = on_any_threads(what, lines.count == 1 ? 0 : 3, [&] {
        std::vector<Tensor> out = {unwritten(lines.sizes(), dtype), unwritten(lines.sizes(), dtype),
                                   unwritten(lines.sizes(), dtype), unwritten(lines.sizes(), kInt64)};
        const View indices = view_of(out[3]);
        table.scan(Scan::prod, view_of(out[0]), nullptr, view_of(factors), lines.dim());
        table.scan(Scan::logsumexp, view_of(out[1]), nullptr, view_of(x), lines.dim());
        table.scan(Scan::max, view_of(out[2]), &indices, view_of(x), lines.dim());
        return out;
      });
      const std::vector<double> from = doubles(x), by = doubles(factors), products = doubles(got[0]),
                                logs = doubles(got[1]), largest = doubles(got[2]);
      const auto places = got[3].to_vector<int64_t>();
      long double worst = 0;  // in units of the dtype's rounding
      bool right = true;
      for_each_line(lines, [&](const auto& at) {
        long double product = 1, sum = 0;
        int64_t best = 0;
        for (int64_t i = 0; i < lines.length; ++i) {
          product *= static_cast<long double>(by[at(i)]);
          sum += std::exp(static_cast<long double>(from[at(i)]));
          if (from[at(i)] >= from[at(best)]) best = i;
          const auto off = [&](double result, long double expected) {
            worst = std::fmax(worst, std::abs(static_cast<long double>(result) - expected) /
                                         std::fmax(1, std::abs(expected)) / epsilon(dtype));
            if (std::isnan(result)) worst = INFINITY;
          };
          if (std::abs(product) > 1e-4L) off(products[at(i)], product);  // float16 has no smaller ones, or few
          off(logs[at(i)], std::log(sum));
          right = right && largest[at(i)] == from[at(best)] && places[at(i)] == best;
        }
      });
      BOOST_TEST(worst <= (dtype == kFloat64 ? 1000 : 0.51), what << ": off by " << worst);
      BOOST_TEST(right, what);
    }
  }
}

BOOST_AUTO_TEST_CASE(softmax_of_long_lines_is_that_of_long_double_on_any_number_of_threads) {
  for (const Lines& lines : kLines) {
    for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
      const Tensor x = noise(lines.sizes(), dtype);
      raw::fill_(raw::narrow(x, lines.dim(), 50'000, 1), 20);  // of which there is more than of all others
      const std::string what = name_of("softmax", lines, dtype);
      const std::vector<Tensor> got = on_any_threads(what, lines.count == 1 ? 6 : 2, [&] {
        const Tensor shares = unwritten(lines.sizes(), dtype), logs = unwritten(lines.sizes(), dtype);
        table.softmax(view_of(shares), view_of(x), lines.dim());
        table.log_softmax(view_of(logs), view_of(x), lines.dim());
        return std::vector{shares, logs};
      });
      const std::vector<double> from = doubles(x), shares = doubles(got[0]), logs = doubles(got[1]);
      long double worst = 0;
      for_each_line(lines, [&](const auto& at) {
        long double sum = 0;
        for (int64_t i = 0; i < lines.length; ++i) sum += std::exp(static_cast<long double>(from[at(i)]) - 20);
        for (int64_t i = 0; i < lines.length; ++i) {
          const long double log = static_cast<long double>(from[at(i)]) - 20 - std::log(sum), share = std::exp(log);
          // float16 has no number as small as most of these.
          const long double smallest = dtype == kFloat16 ? 0x1p-24L / epsilon(dtype) : 0;
          worst = std::fmax(
              worst, std::abs(static_cast<long double>(shares[at(i)]) - share) / (share + smallest) / epsilon(dtype));
          worst = std::fmax(
              worst, std::abs(static_cast<long double>(logs[at(i)]) - log) / (1 + std::abs(log)) / epsilon(dtype));
          if (std::isnan(shares[at(i)]) || std::isnan(logs[at(i)])) worst = INFINITY;
        }
      });
      // In units of epsilon: a difference of up to 29 is rounded by up to 8, the exponential is off by as much, and the
      // sum and the quotient by 1 each.
      BOOST_TEST(worst <= 18, what << ": off by " << worst);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_loss_of_very_many_classes_is_that_of_long_double_on_any_number_of_threads) {
  for (const Lines& lines : kLines) {
    for (const DType dtype : {kFloat32, kFloat64}) {
      const Tensor x = noise(lines.sizes(), dtype), index = raw::full(lines.sizes(1), 12'345, kInt64),
                   share = raw::full(lines.sizes(1), 2, dtype);
      raw::fill_(raw::narrow(x, lines.dim(), 50'000, 1), 10);
      const std::string what = name_of("log_sum_exp", lines, dtype);
      const std::vector<Tensor> got = on_any_threads(what, lines.count == 1 ? 3 : 2, [&] {
        const Tensor largest = unwritten(lines.sizes(1), dtype), log_sum = unwritten(lines.sizes(1), dtype),
                     dx = unwritten(lines.sizes(), dtype);
        table.log_sum_exp(view_of(largest), view_of(log_sum), view_of(x), lines.dim());
        table.cross_entropy_backward(view_of(dx), view_of(x), lines.dim(), view_of(largest), view_of(log_sum),
                                     view_of(index), view_of(share));
        return std::vector{largest, log_sum, dx};
      });
      const std::vector<double> from = doubles(x), largest = doubles(got[0]), logs = doubles(got[1]),
                                dx = doubles(got[2]);
      long double worst = 0;
      std::size_t line = 0;
      for_each_line(lines, [&](const auto& at) {
        long double sum = 0;
        for (int64_t i = 0; i < lines.length; ++i) sum += std::exp(static_cast<long double>(from[at(i)]) - 10);
        const long double log = std::log(sum);
        BOOST_TEST(largest[line] == 10, what);
        worst = std::fmax(worst, std::abs(static_cast<long double>(logs[line]) - log) / log / epsilon(dtype));
        for (int64_t i = 0; i < lines.length; ++i) {
          const long double share_of = std::exp(static_cast<long double>(from[at(i)]) - 10 - log),
                            expected = 2 * ((i == 12'345) - share_of);
          worst = std::fmax(worst, std::abs(static_cast<long double>(dx[at(i)]) - expected) / std::abs(expected) /
                                       epsilon(dtype) / 16);  // the logarithm's own last bit counts for several
          if (std::isnan(dx[at(i)])) worst = INFINITY;
        }
        ++line;
      });
      BOOST_TEST(worst <= 2, what << ": off by " << worst);
    }
  }
}

BOOST_AUTO_TEST_CASE(one_nan_makes_a_long_line_nan) {
  const Tensor x = noise({1, 100'000});
  raw::fill_(raw::narrow(x, 1, 40'000, 1), kNan);
  for (const auto kernel : {table.softmax, table.log_softmax}) {
    const Tensor out = raw::zeros(x.sizes(), kFloat32);
    kernel(view_of(out), view_of(x), 1);
    const std::vector<double> all = doubles(out);
    BOOST_TEST(std::ranges::all_of(all, [](double value) { return std::isnan(value); }));
  }
  const Tensor largest = raw::zeros({1, 1}, kFloat32), log_sum = raw::zeros({1, 1}, kFloat32);
  table.log_sum_exp(view_of(largest), view_of(log_sum), view_of(x), 1);
  BOOST_TEST(std::isnan(log_sum.item<float>()));
}

BOOST_AUTO_TEST_CASE(the_first_best_element_of_a_long_line_is_found_in_every_dtype) {
  for (const DType dtype : {kFloat32, kFloat64, kInt64, kInt32, kUInt8, kFloat16, kBFloat16}) {
    for (const bool largest : {true, false}) {
      // Steps of 10 or more are told apart by every dtype; no noise reaches the best.
      Generator generator(test_seed());
      const Tensor wide = raw::empty({1, 300'000}, kInt64);
      raw::randint_(wide, 20, 200, generator);
      for (const int64_t like : {150'000, 290'000}) raw::fill_(raw::narrow(wide, 1, like, 1), largest ? 240 : 1);
      const Tensor x = raw::cast(wide, dtype);
      const std::vector<Tensor> got = on_any_threads(name_of("extremum", {1, 300'000}, dtype), 1, [&] {
        const Tensor best = unwritten({1, 1}, dtype), place = unwritten({1, 1}, kInt64);
        const View value = view_of(best), index = view_of(place);
        table.extremum(largest, &value, &index, view_of(x), 1);
        return std::vector{best, place};
      });
      BOOST_TEST(doubles(got[0])[0] == (largest ? 240 : 1), dtype);
      BOOST_TEST(got[1].item<int64_t>() == 150'000, dtype);
      if (!is_floating(dtype)) continue;
      for (const int64_t nan : {250'000, 170'000}) {  // before the second best, then before that NaN
        raw::fill_(raw::narrow(x, 1, nan, 1), kNan);
        const Budget budget(3);
        const Tensor best = unwritten({1, 1}, dtype), place = unwritten({1, 1}, kInt64);
        const View value = view_of(best), index = view_of(place);
        table.extremum(largest, &value, &index, view_of(x), 1);
        BOOST_TEST(std::isnan(doubles(best)[0]), dtype);
        BOOST_TEST(place.item<int64_t>() == nan, dtype);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_parts_of_a_long_line_are_sorted_into_one_order_with_nan_as_the_largest) {
  for (const DType dtype : {kFloat32, kFloat64, kInt64, kFloat16}) {
    Generator generator(test_seed());
    const Tensor wide = raw::empty({150'000}, kInt64);
    raw::randint_(wide, 0, 1000, generator);  // many are equal
    const Tensor x = raw::cast(wide, dtype);
    if (is_floating(dtype)) {
      for (const int64_t nan : {140'000, 3, 80'000}) raw::fill_(raw::narrow(x, 0, nan, 1), kNan);
    }
    const std::vector<double> values = doubles(x);
    for (const bool descending : {false, true}) {
      const std::vector<int64_t> order = on_any_threads("sort", 1,
                                                        [&] {
                                                          const Tensor places = unwritten({150'000}, kInt64);
                                                          table.sort_places(view_of(places), view_of(x), descending);
                                                          return std::vector{places};
                                                        })[0]
                                             .to_vector<int64_t>();
      const auto rank = [&](int64_t place) {  // rising in the order that is asked for
        const double value = values[static_cast<std::size_t>(place)];
        return (std::isnan(value) ? 1e9 : value) * (descending ? -1 : 1);
      };
      bool right = true;
      for (std::size_t i = 1; i < order.size(); ++i) {
        const double before = rank(order[i - 1]), after = rank(order[i]);
        right = right && (before < after || (before == after && order[i - 1] < order[i]));
      }
      BOOST_TEST(right, dtype << (descending ? ", descending" : ", ascending"));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
