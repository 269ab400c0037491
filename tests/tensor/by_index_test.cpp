// What reads and writes by a long index, which several threads share: the same bits on any number of them.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tendril/tensor/cpu/paths.h"
#include "tendril/tensor/kernels.h"
#include "tendril/tensor/raw.h"
#include "tendril/tensor/threads.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(by_index)

using namespace tendril;
using tendril::testing::test_seed;

namespace {

using raw::view_of;

const Kernels& table = *kernels(kCPU);
constexpr int64_t kLong = 600'011;

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
Tensor indices(const Dims& sizes, int64_t size) {
  Generator generator(test_seed(1));
  Tensor x = raw::empty(sizes, kInt64);
  raw::randint_(x, 0, size, generator);
  return x;
}
/// What nobody writes shows.
Tensor unwritten(const Dims& sizes, DType dtype) {
  return raw::full(sizes, is_floating(dtype) ? std::numeric_limits<double>::quiet_NaN() : 99, dtype);
}
std::vector<double> doubles(const Tensor& x) { return raw::cast(x, kFloat64).to_vector<double>(); }
std::vector<int64_t> places(const Tensor& index) { return raw::contiguous(index).to_vector<int64_t>(); }

bool same_bits(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.raw_data(), b.raw_data(), static_cast<std::size_t>(a.numel()) * size_of(a.dtype())) == 0;
}

/// What `run(out)` makes of a copy of `start` on 1, 2, 3 and 8 threads, which must be one; shared out on more than one,
/// `regions` times.
template <class Run>
Tensor on_any_threads(const std::string& what, uint64_t regions, const Tensor& start, const Run& run) {
  Tensor expected;
  for (const int threads : {1, 2, 3, 8}) {
    const Budget budget(threads);
    const Tensor result = raw::clone(start);
    const uint64_t before = cpu::taken(cpu::Path::shared);
    run(result);
    const uint64_t shared = cpu::taken(cpu::Path::shared) - before;
    BOOST_TEST((threads == 1 ? shared == 0 : shared >= regions), what << ": shared out " << shared << " times");
    if (!expected.defined()) expected = result;
    BOOST_TEST(same_bits(result, expected), what << " on " << threads << " threads");
  }
  return expected;
}

/// Sizes, and the dimension that the index goes along.
struct Shape {
  Dims sizes;
  int dim;
  Dims with(int64_t size) const {
    Dims all = sizes;
    all[dim] = size;
    return all;
  }
  /// Where element i of `sizes` is in a tensor of `size` along the dimension, if it is at `at` there.
  std::size_t place(int64_t i, int64_t size, int64_t at) const {
    int64_t behind = 1;
    for (int d = dim + 1; d < sizes.size(); ++d) behind *= sizes[d];
    return static_cast<std::size_t>((i / behind / sizes[dim] * size + at) * behind + i % behind);
  }
};
std::string name_of(const char* op, const Shape& shape, int64_t size, DType dtype) {
  std::string sizes;
  for (int64_t each : shape.sizes) sizes += std::to_string(each) + " ";
  return std::string(op) + " of " + sizes + "along " + std::to_string(shape.dim) + ", " + std::to_string(size) + ", " +
         tendril::name_of(dtype);
}
const Shape kShapes[] = {{{kLong}, 0},      {{1, kLong}, 1},   {{3, 70'001}, 1},   {{70'001, 3}, 0},
                         {{2, 150'000}, 1}, {{150'000, 2}, 0}, {{2, 40'000, 2}, 1}};

}  // namespace

BOOST_AUTO_TEST_CASE(few_long_lines_are_gathered_by_every_thread) {
  for (const Shape& shape : kShapes) {
    for (const DType dtype : {kFloat32, kInt64, kUInt8, kFloat16}) {
      const int64_t size = 5'000;
      const Tensor x = noise(shape.with(size), dtype), index = indices(shape.sizes, size);
      const std::string what = name_of("gather", shape, size, dtype);
      const Tensor read = on_any_threads(what, 2, unwritten(shape.sizes, dtype), [&](const Tensor& out) {
        table.gather(view_of(out), view_of(x), shape.dim, view_of(index), IndexUse::gather);
      });
      const std::vector<double> got = doubles(read), from = doubles(x);
      const std::vector<int64_t> chosen = places(index);
      bool right = true;
      for (std::size_t i = 0; i < got.size(); ++i) {
        right = right && got[i] == from[shape.place(static_cast<int64_t>(i), size, chosen[i])];
      }
      BOOST_TEST(right, what);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_long_index_selects_narrow_rows_and_columns) {
  const Tensor index = indices({kLong}, 5'000);
  const std::vector<int64_t> chosen = places(index);
  for (const int dim : {0, 1}) {
    const Shape shape{dim == 0 ? Dims{kLong, 3} : Dims{3, kLong}, dim};
    const Tensor x = noise(shape.with(5'000));
    const std::string what = name_of("index_select", shape, 5'000, kFloat32);
    const Tensor read = on_any_threads(what, 2, unwritten(shape.sizes, kFloat32), [&](const Tensor& out) {
      table.index_select(view_of(out), view_of(x), dim, view_of(index), IndexUse::index_select);
    });
    const std::vector<double> got = doubles(read), from = doubles(x);
    bool right = true;
    for (int64_t i = 0; i < shape.sizes[0]; ++i) {
      for (int64_t j = 0; j < shape.sizes[1]; ++j) {
        const int64_t at = chosen[static_cast<std::size_t>(dim == 0 ? i : j)];
        const int64_t there = dim == 0 ? at * 3 + j : i * 5'000 + at;
        right = right && got[static_cast<std::size_t>(i * shape.sizes[1] + j)] == from[static_cast<std::size_t>(there)];
      }
    }
    BOOST_TEST(right, what);
  }
}

BOOST_AUTO_TEST_CASE(sums_of_few_long_lines_have_the_same_bits_on_any_number_of_threads) {
  for (const Shape& shape : kShapes) {
    for (const DType dtype : {kFloat32, kFloat64, kInt64, kInt32}) {
      for (const int64_t size : {int64_t{1}, int64_t{7}, int64_t{8'000}, int64_t{1'500'000}}) {
        if (size > 8'000 && shape.sizes.size() > 1) continue;
        const Tensor index = indices(shape.sizes, size), source = noise(shape.sizes, dtype),
                     start = noise(shape.with(size), dtype);
        const std::string what = name_of("scatter_add", shape, size, dtype);
        const Tensor sums = on_any_threads(what, size > 8'000 ? 1 : 2, start, [&](const Tensor& out) {
          table.scatter_add(view_of(out), shape.dim, view_of(index), view_of(source), IndexUse::scatter_add);
        });
        const std::vector<double> got = doubles(sums), x = doubles(source), first = doubles(start);
        const std::vector<int64_t> chosen = places(index);
        std::vector<long double> expected(first.begin(), first.end()), magnitude(first.size(), 9);
        for (std::size_t i = 0; i < x.size(); ++i) {
          const std::size_t at = shape.place(static_cast<int64_t>(i), size, chosen[i]);
          expected[at] += static_cast<long double>(x[i]);
          magnitude[at] += static_cast<long double>(std::abs(x[i]));
        }
        long double worst = 0;  // in what the dtype can tell apart at the size of what was added up
        const long double step = dtype == kFloat64 ? 0x1p-52L : dtype == kFloat32 ? 0x1p-23L : 0x1p-60L;
        for (std::size_t i = 0; i < got.size(); ++i) {
          worst = std::fmax(worst, std::abs(static_cast<long double>(got[i]) - expected[i]) / magnitude[i] / step);
          if (std::isnan(got[i])) worst = INFINITY;
        }
        BOOST_TEST(worst <= (is_floating(dtype) ? 4 : 0), what << ": off by " << worst);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(slices_of_every_width_are_added_by_every_thread) {
  for (const int64_t width : {1, 2, 4, 7, 8, 40, 150}) {
    for (const int64_t rows : {int64_t{3}, int64_t{300}, int64_t{1'200'000} / width}) {
      const int64_t count = 300'000 / width;
      const Tensor index = indices({count}, rows), start = raw::cast(indices({rows, width}, 100), kFloat32),
                   source = raw::cast(indices({count, width}, 100), kFloat32);  // whole numbers: sums are exact
      const std::string what = "index_add of " + std::to_string(width) + " wide, " + std::to_string(rows) + " rows";
      const bool one_thread = width < 8 && rows > 300;
      const Tensor sums = on_any_threads(what, (count > 65'536) + !one_thread, start, [&](const Tensor& out) {
        table.index_add(view_of(out), 0, view_of(index), view_of(source), IndexUse::index_add);
      });
      std::vector<double> expected = doubles(start);
      const std::vector<double> x = doubles(source);
      const std::vector<int64_t> chosen = places(index);
      for (int64_t i = 0; i < count * width; ++i) {
        const int64_t row = chosen[static_cast<std::size_t>(i / width)];
        expected[static_cast<std::size_t>(row * width + i % width)] += x[static_cast<std::size_t>(i)];
      }
      BOOST_TEST((doubles(sums) == expected), what);
    }
  }
}

BOOST_AUTO_TEST_CASE(of_what_is_written_to_one_place_the_last_is_kept) {
  for (const Shape& shape : kShapes) {
    for (const int64_t size : {int64_t{100}, int64_t{4'500'000}}) {
      if (size > 100 && shape.sizes.size() > 1) continue;
      const Tensor index = indices(shape.sizes, size), source = noise(shape.sizes), start = noise(shape.with(size));
      const std::string what = name_of("scatter", shape, size, kFloat32);
      const Tensor written = on_any_threads(what, size > 100 ? 2 : 1, start, [&](const Tensor& out) {
        table.scatter(view_of(out), shape.dim, view_of(index), view_of(source), IndexUse::scatter);
      });
      std::vector<double> expected = doubles(start);
      const std::vector<double> x = doubles(source);
      const std::vector<int64_t> chosen = places(index);
      for (std::size_t i = 0; i < x.size(); ++i) {
        expected[shape.place(static_cast<int64_t>(i), size, chosen[i])] = x[i];
      }
      BOOST_TEST((doubles(written) == expected), what);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_sorted_or_all_in_one_place_is_added_up_as_well) {
  for (const int64_t size : {int64_t{500}, int64_t{1'500'000}}) {
    const Tensor sorted = raw::cast(raw::arange(0, kLong), kInt64), one = raw::full({kLong}, size - 1, kInt64);
    const Tensor ones = raw::ones({kLong}, kInt64);
    const auto counts_of = [&](const Tensor& index, const char* what) {
      const auto run = [&](const Tensor& out) {
        table.index_add(view_of(out), 0, view_of(index), view_of(ones), IndexUse::index_add);
      };
      return doubles(on_any_threads(what, size < kLong ? 2 : 1, raw::zeros({size}, kInt64), run));
    };
    const std::vector<double> of_one = counts_of(one, "one place");
    BOOST_TEST(of_one.back() == kLong);
    BOOST_TEST(std::count(of_one.begin(), of_one.end(), 0.0) == size - 1);
    if (size < kLong) continue;
    const std::vector<double> of_sorted = counts_of(sorted, "sorted");
    BOOST_TEST(std::count(of_sorted.begin(), of_sorted.begin() + kLong, 1.0) == kLong);
    BOOST_TEST(std::count(of_sorted.begin() + kLong, of_sorted.end(), 0.0) == size - kLong);
  }
}

BOOST_AUTO_TEST_CASE(a_zero_keeps_its_sign) {
  const Tensor index = raw::full({kLong}, 1, kInt64), source = raw::full({kLong}, -0.0, kFloat32),
               out = raw::full({3}, -0.0, kFloat32);
  const Budget budget(3);
  table.scatter_add(view_of(out), 0, view_of(index), view_of(source), IndexUse::scatter_add);
  for (const double sum : doubles(out)) BOOST_TEST((sum == 0 && std::signbit(sum)));
}

BOOST_AUTO_TEST_CASE(an_operand_in_steps_is_read_and_written_by_every_thread) {
  const Tensor strided = raw::as_strided(noise({2 * kLong}), {kLong}, {2}, 1), source = raw::contiguous(strided);
  for (const int64_t size : {int64_t{50}, int64_t{1'500'000}}) {
    const Tensor index = raw::as_strided(indices({3 * kLong}, size), {kLong}, {3}, 2);
    const auto sums = [&](const Tensor& places, const Tensor& x, int64_t step) {
      const auto every = [&](const Tensor& memory) { return raw::as_strided(memory, {size}, {step}, 0); };
      const auto run = [&](const Tensor& memory) {
        table.scatter_add(view_of(every(memory)), 0, view_of(places), view_of(x), IndexUse::scatter_add);
      };
      const Tensor all = on_any_threads("in steps", size < kLong ? 2 : 1, raw::zeros({size * 2}, kFloat32), run);
      const std::vector<double> others =
          doubles(step == 2 ? raw::as_strided(all, {size}, {2}, 1) : raw::narrow(all, 0, size, size));
      BOOST_TEST(std::ranges::all_of(others, [](double value) { return value == 0; }));
      return raw::contiguous(every(all));
    };
    BOOST_TEST(same_bits(sums(index, strided, 2), sums(raw::contiguous(index), source, 1)));
  }
}

BOOST_AUTO_TEST_CASE(the_first_bad_index_is_named_on_any_number_of_threads) {
  const auto text_of = [](const Tensor& index, const auto& run) {
    std::string text, first;
    for (const int threads : {1, 2, 3, 8}) {
      const Budget budget(threads);
      try {
        run(index);
        text = "nothing thrown";
      } catch (const IndexError& e) {
        text = e.what();
      }
      if (first.empty()) first = text;
      BOOST_TEST(text == first, threads << " threads");
    }
    return first;
  };
  const Tensor x = noise({100}), long_one = noise({kLong}), rows = noise({100, 2}), source = noise({kLong, 2});
  const auto gathers = [&](const Tensor& index) {
    const Tensor out = raw::full({kLong}, 3, kFloat32);
    try {
      table.gather(view_of(out), view_of(x), 0, view_of(index), IndexUse::gather);
    } catch (const IndexError&) {
      BOOST_TEST(same_bits(out, raw::full({kLong}, 3, kFloat32)));  // nothing is written
      throw;
    }
  };
  const auto adds = [&](const Tensor& index) {
    const Tensor out = raw::zeros({100}, kFloat32);
    try {
      table.scatter_add(view_of(out), 0, view_of(index), view_of(long_one), IndexUse::scatter_add);
    } catch (const IndexError&) {
      BOOST_TEST(same_bits(out, raw::zeros({100}, kFloat32)));
      throw;
    }
  };
  const auto adds_rows = [&](const Tensor& index) {
    table.index_add(view_of(rows), 0, view_of(index), view_of(source), IndexUse::index_add);
  };
  const auto selects = [&](const Tensor& index) {
    const Tensor out = unwritten({kLong, 2}, kFloat32);
    table.index_select(view_of(out), view_of(rows), 0, view_of(index), IndexUse::embedding);
  };
  const auto with = [](std::vector<std::pair<int64_t, int64_t>> bad) {
    Tensor index = indices({kLong}, 100);
    for (const auto& [place, value] : bad) raw::fill_(raw::narrow(index, 0, place, 1), value);
    return index;
  };
  const std::string range = " is out of range for dimension 0 of size 100";
  // The last of all; several, of which the first is in a late part; the smallest and largest numbers.
  BOOST_TEST(text_of(with({{kLong - 1, 100}}), gathers) == "gather: index 100" + range);
  BOOST_TEST(text_of(with({{kLong - 1, -1}, {150'000, 777}, {kLong - 2, 888}}), gathers) ==
             "gather: index 777" + range);
  BOOST_TEST(text_of(with({{120'000, INT64_MIN}, {190'000, 5'000}}), adds) ==
             "scatter_add: index " + std::to_string(INT64_MIN) + range);
  BOOST_TEST(text_of(with({{199'999, INT64_MAX}}), adds_rows) ==
             "index_add: index " + std::to_string(INT64_MAX) + range);
  BOOST_TEST(text_of(with({{180'000, 100}, {40'000, -7}}), selects) ==
             "embedding: index -7 is out of range for a weight of 100 rows");
  // Of a transposed index the first is the one that lies first.
  const Tensor turned = raw::transpose(raw::view(indices({2 * kLong}, 100), {2, kLong}), 0, 1),
               out = unwritten({kLong, 2}, kFloat32);
  raw::fill_(raw::narrow(raw::narrow(turned, 0, 190'000, 1), 1, 0, 1), 555);
  raw::fill_(raw::narrow(raw::narrow(turned, 0, 100, 1), 1, 1, 1), 666);
  BOOST_TEST(text_of(turned, [&](const Tensor& index) {
               table.gather(view_of(out), view_of(rows), 0, view_of(index), IndexUse::gather);
             }) == "gather: index 555" + range);
}

BOOST_AUTO_TEST_SUITE_END()
