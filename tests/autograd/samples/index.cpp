#include "tendril/tensor/creation.h"
#include "tendril/tensor/raw.h"
#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

namespace {

/// Indices below `bound`, some of them repeated.
Tensor indices(const Dims& sizes, int64_t bound) {
  std::vector<int64_t> values(static_cast<std::size_t>(numel_of(sizes)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i * i) % bound;
  return raw::from_data(values, sizes).to(default_device());
}

}  // namespace

std::vector<OpSample> index_samples() {
  return {
      {"gather",
       [](const auto& x) {
         return std::vector{x[0].gather(-1, indices({x[0].size(0), 4}, x[0].size(1)))};
       },
       {{{2, 3}}, {{1, 1}}, {{3, 2}}, {{0, 3}}}},
      {"gather from a corner",
       [](const auto& x) {
         return std::vector{x[0].gather(0, indices({4, 1}, x[0].size(0)))};
       },
       {{{2, 3}}, {{1, 1}}, {{3, 2}}}},
      {"gather from a number",
       [](const auto& x) { return std::vector{x[0].gather(0, indices({}, 1))}; },
       {{{}}, {{}}, {{}}}},
      {"scatter_add",
       [](const auto& x) { return std::vector{x[0].scatter_add(1, indices(x[1].sizes(), x[0].size(1)), x[1])}; },
       {{{2, 3}, {2, 4}}, {{1, 1}, {1, 1}}, {{3, 2}, {2, 1}}, {{0, 3}, {0, 2}}}},
      {"scatter_add of a larger source",
       [](const auto& x) {
         return std::vector{x[0].scatter_add(1, indices({2, 1}, x[0].size(1)), x[1])};
       },
       {{{2, 3}, {2, 4}}, {{3, 1}, {3, 1}}, {{2, 2}, {3, 3}}}},
      {"scatter_add to a number",
       [](const auto& x) { return std::vector{x[0].scatter_add(0, indices({}, 1), x[1])}; },
       {{{}, {}}, {{}, {}}, {{}, {}}}},
      {"scatter",
       [](const auto& x) {
         return std::vector{x[0].scatter(1, arange(0, 2).reshape({1, 2}).expand({2, 2}), x[1])};
       },
       {{{2, 3}, {2, 2}}, {{2, 2}, {2, 3}}, {{3, 2}, {2, 2}}}},
      {"index_select",
       [](const auto& x) { return std::vector{x[0].index_select(0, indices({4}, x[0].size(0)))}; },
       {{{2, 3}}, {{3}}, {{1, 1}}, {{2, 0}}}},
      {"index_select of the last dim",
       [](const auto& x) { return std::vector{x[0].index_select(-1, indices({2}, x[0].size(-1)))}; },
       {{{2, 3}}, {{2, 1, 2}}, {{0, 3}}}},
      {"index_add",
       [](const auto& x) { return std::vector{x[0].index_add(0, indices({x[1].size(0)}, x[0].size(0)), x[1])}; },
       {{{2, 3}, {4, 3}}, {{3}, {2}}, {{1, 1}, {1, 1}}, {{2, 0}, {3, 0}}}},
  };
}

}  // namespace tendril::samples
