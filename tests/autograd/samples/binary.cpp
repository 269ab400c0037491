#include "tendril/autograd/ops/pointwise.h"
#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

std::vector<OpSample> binary_samples() {
  const std::vector<std::vector<Dims>> shapes = {{{2, 3}, {2, 3}}, {{2, 3}, {3}},    {{2, 1}, {1, 3}}, {{}, {2, 2}},
                                                 {{3}, {}},        {{0, 3}, {1, 3}}, {{1}, {1}}};
  const std::vector<std::vector<Dims>> alone = {{{2, 3}}, {{}}, {{0, 3}}, {{1, 1}}};
  std::vector<OpSample> all;
#define TENDRIL_BINARY(op, doc, dtypes, expression, saves, gradient_x, gradient_y, fused_x, fused_y, x_low, x_high, \
                       y_low, y_high)                                                                               \
  all.push_back({#op,                                                                                               \
                 [](const std::vector<Tensor>& x) { return std::vector{x[0].op(x[1])}; },                           \
                 shapes,                                                                                            \
                 {{x_low, x_high}, {y_low, y_high}}});                                                              \
  all.push_back({#op " by a number",                                                                                \
                 [](const std::vector<Tensor>& x) { return std::vector{x[0].op(1.5)}; },                            \
                 alone,                                                                                             \
                 {{x_low, x_high}}});                                                                               \
  all.push_back({#op " of a number",                                                                                \
                 [](const std::vector<Tensor>& x) { return std::vector{op(1.5, x[0])}; },                           \
                 alone,                                                                                             \
                 {{y_low, y_high}}});
#define TENDRIL_INTEGRAL(...)
#include "tendril/tensor/pointwise.def"
  all.push_back({"pow by zero", [](const std::vector<Tensor>& x) { return std::vector{x[0].pow(0)}; }, alone});
  all.push_back({"pow by two, of negative numbers too",
                 [](const std::vector<Tensor>& x) { return std::vector{x[0].pow(2)}; }, alone});
  return all;
}

}  // namespace tendril::samples
