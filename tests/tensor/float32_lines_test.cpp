// What is made of lines and of all elements along dimensions, in float32 against itself in float64
// (against_float64.h).
#include "tests/tensor/against_float64.h"

BOOST_AUTO_TEST_SUITE(float32_lines)

using namespace tendril;
using namespace tendril::testing;

namespace {

using raw::view_of;

const Kernels& table = *kernels(kCPU);

/// Three dimensions, of which one or none is long; now and then enough for several threads.
Dims some_sizes(int round) {
  Dims sizes{roll(1, 9), roll(1, 9), roll(1, 9)};
  if (round % 2 == 0) sizes[static_cast<int>(roll(0, 2))] = roll(1, round % 4 ? 900 : 5000);
  return sizes;
}
/// Few different numbers, so that some are equal.
Tensor coarse(const Dims& sizes) { return raw::unary(Unary::floor, noise(sizes, -20, 20)); }

}  // namespace

BOOST_AUTO_TEST_CASE(what_becomes_of_each_line_agrees_with_itself_in_float64) {
  struct Row {
    const char* name;
    void (*kernel)(const View& out, const View& x, int dim);
  };
  const Row rows[] = {{"softmax", table.softmax}, {"log_softmax", table.log_softmax}};
  for (const Row& row : rows) {
    for (int round = 0; round < 16; ++round) {
      const Dims sizes = some_sizes(round);
      const auto dim = static_cast<int>(roll(0, 2));
      check_anyhow(row.name, {noise(sizes, -9, 9)}, {{sizes}}, 1e-6, [&](const Tensors& out, const Tensors& given) {
        row.kernel(view_of(out[0]), view_of(given[0]), dim);
      });
    }
  }
}

BOOST_AUTO_TEST_CASE(running_results_agree_with_themselves_in_float64) {
  for (const Scan op : {Scan::sum, Scan::prod, Scan::max, Scan::min, Scan::logsumexp}) {
    const bool extremum = op == Scan::max || op == Scan::min;
    for (int round = 0; round < 16; ++round) {
      const Dims sizes = some_sizes(round);
      const auto dim = static_cast<int>(roll(0, 2));
      // A product of thousands stays a number.
      const Tensor x = op == Scan::prod             ? noise(sizes, 0.999, 1.001)
                       : extremum && round % 3 == 0 ? coarse(sizes)
                                                    : noise(sizes, -9, 9);
      std::vector<Result> results = {{sizes, false, op == Scan::prod || extremum ? 0.0 : 1.0}};
      if (extremum) results.push_back({sizes, true});
      check_anyhow(name_of(op), {x}, results, extremum ? 0 : 1e-6, [&](const Tensors& out, const Tensors& given) {
        const View indices = extremum ? view_of(out[1]) : View();
        table.scan(op, view_of(out[0]), extremum ? &indices : nullptr, view_of(given[0]), dim);
      });
    }
  }
  for (int round = 0; round < 16; ++round) {
    const Dims sizes = some_sizes(round);
    const auto dim = static_cast<int>(roll(0, 2));
    check_anyhow("recurrence", {noise(sizes, -0.9, 0.9), noise(sizes)}, {{sizes}}, 1e-6,
                 [&](const Tensors& out, const Tensors& given) {
                   table.recurrence(view_of(out[0]), view_of(given[0]), view_of(given[1]), dim);
                 });
  }
}

BOOST_AUTO_TEST_CASE(reductions_over_any_dimensions_do) {
  for (int op = 0; op < static_cast<int>(Reduction::count_); ++op) {
    const auto reduction = static_cast<Reduction>(op);
    if (reduction == Reduction::all || reduction == Reduction::any) continue;  // of bool
    for (int round = 0; round < 16; ++round) {
      const Dims sizes = some_sizes(round);
      Dims reduced = sizes;
      const int64_t which = roll(1, 7);
      for (int d = 0; d < 3; ++d) reduced[d] = which >> d & 1 ? 1 : sizes[d];
      // A product of thousands stays a number.
      const Tensor x = reduction == Reduction::prod ? noise(sizes, 0.999, 1.001) : noise(sizes);
      const bool exact = reduction == Reduction::prod || reduction == Reduction::max || reduction == Reduction::min;
      const double each = static_cast<double>(numel_of(sizes)) / static_cast<double>(numel_of(reduced));
      check_anyhow(name_of(reduction), {x}, {{reduced, false, exact ? 0 : std::sqrt(each)}}, 1e-6,
                   [&](const Tensors& out, const Tensors& given) {
                     table.reduce(reduction, view_of(out[0]), view_of(given[0]));
                   });
    }
  }
}

BOOST_AUTO_TEST_CASE(the_largest_and_smallest_are_found_at_the_same_places) {
  for (int round = 0; round < 24; ++round) {
    const Dims sizes = some_sizes(round);
    const auto dim = static_cast<int>(roll(0, 2));
    Dims lines = sizes;
    lines[dim] = 1;
    for (const bool largest : {false, true}) {
      const Tensor x = round % 3 ? coarse(sizes) : noise(sizes);
      check_anyhow("extremum", {x}, {{lines}, {lines, true}, {lines}, {lines, true}}, 0,
                   [&](const Tensors& out, const Tensors& given) {
                     const View values = view_of(out[0]), indices = view_of(out[1]), alone = view_of(out[2]),
                                places_alone = view_of(out[3]);
                     table.extremum(largest, &values, &indices, view_of(given[0]), dim);
                     table.extremum(largest, &alone, nullptr, view_of(given[0]), dim);
                     table.extremum(largest, nullptr, &places_alone, view_of(given[0]), dim);
                   });
    }
  }
}

BOOST_AUTO_TEST_CASE(lines_are_sorted_alike) {
  for (int round = 0; round < 24; ++round) {
    const Dims sizes = some_sizes(round);
    for (const bool descending : {false, true}) {
      check("sort_places", {round % 3 ? coarse(sizes) : noise(sizes)}, {{sizes, true}}, 0,
            [&](const Tensors& out, const Tensors& given) {
              table.sort_places(view_of(out[0]), view_of(given[0]), descending);
            });
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
