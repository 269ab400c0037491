#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <vector>

#include "tendril/tensor/cuda/kernels/reduction_plan.h"

BOOST_AUTO_TEST_SUITE(reduction_plan)

namespace {

using namespace tendril;
using cuda::Places;
using cuda::plan_reduction;
using cuda::plan_second_pass;
using cuda::ReductionPlan;

/// A view of nothing: only its layout is looked at.
struct Shape {
  Dims sizes, strides;
  View view;

  Shape(const Dims& with_sizes, const Dims& with_strides)
      : sizes(with_sizes), strides(with_strides), view{nullptr,      sizes.data(), strides.data(), numel_of(sizes),
                                                       sizes.size(), kFloat32,     false} {}
  explicit Shape(const Dims& with_sizes) : Shape(with_sizes, contiguous_strides(with_sizes)) {}
  Shape(const Shape&) = delete;
};

using Sums = std::map<int64_t, std::vector<int64_t>>;  // where in the result, of what in x

/// What is summed where, from the views themselves.
Sums expected(const View& out, const View& x) {
  Sums sums;
  for (int64_t i = 0; i < x.numel; ++i) {
    int64_t rest = i, from = 0, to = 0;
    for (int d = x.ndim - 1; d >= 0; --d) {
      const int64_t index = rest % x.sizes[d];
      rest /= x.sizes[d];
      from += index * x.strides[d];
      if (out.sizes[d] > 1) to += index * out.strides[d];
    }
    sums[to].push_back(from);
  }
  for (auto& [to, from] : sums) std::sort(from.begin(), from.end());
  return sums;
}

/// What the kernels sum: share by share, as they walk.
Sums planned(const ReductionPlan& plan) {
  const bool twice = plan.splits() > 1;
  std::vector<std::vector<int64_t>> partial(static_cast<std::size_t>(plan.splits() * plan.results()));
  Sums sums;
  const auto put = [&](int64_t share, int64_t result, int64_t place, int64_t from) {
    if (twice) {
      partial[static_cast<std::size_t>(share * plan.results() + result)].push_back(from);
    } else {
      sums[place].push_back(from);
    }
  };
  for (int64_t share = 0; share < plan.splits(); ++share) {
    const int64_t inner = share % plan.inner_splits, outer = share / plan.inner_splits;
    for (int64_t k = 0; k < plan.kept.count; ++k) {
      int64_t place[2], reduced[1];
      plan.kept.of(k, place);
      const int64_t last = std::min((outer + 1) * plan.outer_chunk, plan.reduced.count);
      for (int64_t j = outer * plan.outer_chunk; j < last; ++j) {
        plan.reduced.of(j, reduced);
        for (int64_t i = inner * plan.inner_chunk; i < std::min((inner + 1) * plan.inner_chunk, plan.length); ++i) {
          const int64_t from = place[0] + reduced[0] + i * plan.step;
          plan.by_row ? put(share, k, place[1], from)
                      : put(share, k * plan.length + i, place[1] + i * plan.out_step, from);
        }
      }
    }
  }
  if (twice) {
    const ReductionPlan second = plan_second_pass(plan);
    BOOST_TEST(!second.by_row);
    BOOST_TEST(second.splits() == 1);
    for (int64_t k = 0; k < second.kept.count; ++k) {
      int64_t place[2], reduced[1];
      second.kept.of(k, place);
      for (int64_t i = 0; i < second.length; ++i) {
        for (int64_t j = 0; j < second.reduced.count; ++j) {
          second.reduced.of(j, reduced);
          const auto& part = partial[static_cast<std::size_t>(place[0] + i * second.step + reduced[0])];
          auto& sum = sums[place[1] + i * second.out_step];
          sum.insert(sum.end(), part.begin(), part.end());
        }
      }
    }
  }
  for (auto& [to, from] : sums) std::sort(from.begin(), from.end());
  return sums;
}

Dims reduced_sizes(const Dims& sizes, unsigned mask) {
  Dims kept = sizes;
  for (int d = 0; d < sizes.size(); ++d) {
    if (mask >> d & 1) kept[d] = 1;
  }
  return kept;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_element_is_summed_once_and_where_it_belongs) {
  const std::vector<std::pair<Dims, Dims>> layouts = {{{3, 4, 5}, {20, 5, 1}},    {{3, 4, 5}, {1, 3, 12}},
                                                      {{3, 4, 5}, {40, 10, 2}},   {{7}, {1}},
                                                      {{1, 6, 1}, {6, 1, 1}},     {{4, 5}, {0, 1}},
                                                      {{4, 5}, {1, 0}},           {{9001}, {1}},
                                                      {{2, 9001}, {9001, 1}},     {{9001, 2}, {2, 1}},
                                                      {{9001, 2}, {1, 9001}},     {{300, 3, 49}, {147, 49, 1}},
                                                      {{2, 3, 4100}, {1, 2, 6}},  {{5, 2, 2500}, {5001, 1, 2}},
                                                      {{2500, 36}, {36, 1}},      {{1}, {1}},
                                                      {{40, 64, 4}, {256, 4, 1}}, {{}, {}}};
  for (const auto& [sizes, strides] : layouts) {
    const Shape x(sizes, strides);
    for (unsigned mask = 0; mask < 1u << sizes.size(); ++mask) {
      const Shape out(reduced_sizes(sizes, mask));
      for (const int vector : {1, 4}) {
        BOOST_TEST_CONTEXT(sizes << " by strides " << strides << ", mask " << mask << ", vectors of " << vector) {
          const ReductionPlan plan = plan_reduction(out.view, x.view, vector, vector);
          BOOST_TEST((planned(plan) == expected(out.view, x.view)));
          BOOST_TEST(plan.lanes <= 256);
          BOOST_TEST(plan.lanes % plan.across == 0);
          BOOST_TEST(plan.lanes * plan.stacked <= 256);
          BOOST_TEST(plan.splits() <= 1024);
          if (plan.width > 1) BOOST_TEST(plan.step == 1);
          if (plan.width > 1 && !plan.by_row) BOOST_TEST(plan.length % plan.width == 0);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(few_long_rows_and_few_long_columns_are_cut) {
  const Shape row(Dims{1 << 20}), one(Dims{1});
  BOOST_TEST(plan_reduction(one.view, row.view, 4, 4).splits() > 100);
  const Shape columns(Dims{1 << 16, 8}), eight(Dims{1, 8});
  BOOST_TEST(plan_reduction(eight.view, columns.view, 4, 4).splits() > 50);
  const Shape many(Dims{1 << 16, 64}), sums(Dims{1 << 16, 1});
  BOOST_TEST(plan_reduction(sums.view, many.view, 4, 4).splits() == 1);
}

BOOST_AUTO_TEST_CASE(much_that_is_kept_beside_few_columns_shares_blocks) {
  const auto plan_of = [](const Dims& sizes) {
    const Shape x(sizes), out({sizes[0], 1, sizes[2]});
    return plan_reduction(out.view, x.view, 4, 4);
  };
  const ReductionPlan many = plan_of({1'000'000, 3, 4});
  BOOST_TEST(!many.by_row);
  BOOST_TEST(many.lanes * many.stacked == 256);
  BOOST_TEST(many.splits() == 1);
  const ReductionPlan few = plan_of({500, 3, 4});  // a block each: more would leave a device idle
  BOOST_TEST(few.stacked == 1);
}

BOOST_AUTO_TEST_CASE(what_is_empty_has_results_all_the_same) {
  const Shape x({3, 0, 2}), out({3, 1, 2});
  const ReductionPlan plan = plan_reduction(out.view, x.view, 4, 4);
  BOOST_TEST(plan.results() == 6);
  BOOST_TEST(plan.reduced.count == 0);
  BOOST_TEST(plan.splits() == 1);
}

BOOST_AUTO_TEST_CASE(places_beyond_two_to_the_31st_are_found) {
  Places<2> places;
  places.insert(int64_t{1} << 20, {1, 3});
  places.insert(int64_t{1} << 20, {int64_t{1} << 21, 7});
  places.finish();
  BOOST_TEST(places.count == int64_t{1} << 40);
  BOOST_TEST(!places.narrow);
  int64_t at[2];
  places.of((int64_t{5} << 20) + 6, at);
  BOOST_TEST(at[0] == (int64_t{5} << 21) + 6);
  BOOST_TEST(at[1] == 5 * 7 + 6 * 3);
}

BOOST_AUTO_TEST_SUITE_END()
