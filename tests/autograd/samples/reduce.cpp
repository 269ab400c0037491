#include "tendril/autograd/ops/reduce.h"

#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

std::vector<OpSample> reduce_samples() {
  const std::vector<std::vector<Dims>> any = {{{2, 3}}, {{2, 3, 2}}, {{4}}, {{}}, {{0, 3}}, {{1, 1}}};
  const std::vector<std::vector<Dims>> some = {{{2, 3}}, {{2, 3, 2}}, {{4}}, {{}}, {{1, 1}}};
  const std::vector<std::vector<Dims>> rows = {{{2, 3}}, {{3, 2, 2}}, {{1, 3}}, {{0, 3}}, {{1, 1}}};
  const std::vector<std::vector<Dims>> filled_rows = {{{2, 3}}, {{3, 2, 2}}, {{3, 3}}, {{2, 2}}};
  std::vector<OpSample> all = {
      {"sum", [](const auto& x) { return std::vector{x[0].sum()}; }, any},
      {"sum of a dim", [](const auto& x) { return std::vector{x[0].sum({0})}; }, rows},
      {"sum of a dim, kept", [](const auto& x) { return std::vector{x[0].sum({-1}, true)}; }, rows},
      {"sum of two dims",
       [](const auto& x) {
         return std::vector{x[0].sum({1, 0})};
       },
       rows},
      {"sum_to",
       [](const auto& x) {
         return std::vector{sum_to(x[0], {x[0].size(-1)}), sum_to(x[0], {})};
       },
       rows},
      {"mean", [](const auto& x) { return std::vector{x[0].mean()}; }, some},
      {"mean of a dim",
       [](const auto& x) {
         return std::vector{x[0].mean({1}), x[0].mean({-1}, true)};
       },
       rows},
      {"var",
       [](const auto& x) {
         return std::vector{x[0].var({1}), x[0].var({0, 1}, false, true)};
       },
       filled_rows},
      {"std",
       [](const auto& x) {
         return std::vector{x[0].std({1}), x[0].std({0, 1}, false)};
       },
       filled_rows,
       {},
       true},
      {"max", [](const auto& x) { return std::vector{x[0].max()}; }, some, {}, true},
      {"min", [](const auto& x) { return std::vector{x[0].min()}; }, some, {}, true},
      {"amax and amin",
       [](const auto& x) {
         return std::vector{x[0].amax({0}), x[0].amin({-1, 0}, true)};
       },
       filled_rows,
       {},
       true},
      {"max of a dim",
       [](const auto& x) {
         const auto [values, indices] = x[0].max(-1);
         return std::vector{values, indices};
       },
       {{{2, 3}}, {{2, 3, 2}}, {{4}}, {{}}, {{0, 3}}, {{1, 1}}},
       {},
       true},
      {"min of a dim, kept",
       [](const auto& x) {
         const auto [values, indices] = x[0].min(0, true);
         return std::vector{values, indices};
       },
       {{{2, 3}}, {{2, 3, 2}}, {{4}}, {{}}, {{3, 0}}, {{1, 1}}},
       {},
       true},
      {"norm",
       [](const auto& x) {
         return std::vector{x[0].norm(), x[0].norm(3, {-1}, true)};
       },
       filled_rows},
      {"norms of other powers",
       [](const auto& x) {
         return std::vector{x[0].norm(1), x[0].norm(0.5, {0}), x[0].norm(INFINITY, {0, 1}), x[0].norm(-INFINITY, {1})};
       },
       filled_rows,
       {{.low = 0.2}},
       true},
  };
#define TENDRIL_REDUCTION(op, doc, fold, expression, gradient, low, high) \
  all.push_back({#op, [](const auto& x) { return std::vector{op(x[0]), op(x[0], {-1}, true)}; }, some, {{low, high}}});
#include "tendril/tensor/reductions.def"
  return all;
}

}  // namespace tendril::samples
