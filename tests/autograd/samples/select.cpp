#include "tendril/autograd/ops/pointwise.h"
#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

std::vector<OpSample> select_samples() {
  const std::vector<std::vector<Dims>> one = {{{2, 3}}, {{}}, {{0, 3}}, {{1, 1}}, {{4}}};
  const std::vector<std::vector<Dims>> two = {{{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{2, 1}, {1, 3}}, {{}, {2}}, {{0}, {1}}};
  // A half type rounds values near a bound to the bound, where the gradient is 0.
  const auto bounds = [](const std::vector<Tensor>& x) { return (x[0] + 0.7) * (x[0] - 0.9); };
  return {
      {"where", [](const auto& x) { return std::vector{where(x[0].detach() > 0, x[0], x[1])}; }, two},
      {"where with another mask",
       [](const auto& x) { return std::vector{where(x[1].detach().lt(0.3), x[1], x[0] * 2)}; }, two},
      {"where, number first", [](const auto& x) { return std::vector{where(x[0].detach() > 0, 3, x[0])}; }, one},
      {"where, number second", [](const auto& x) { return std::vector{where(x[0].detach() > 0, x[0], 3.5)}; }, one},
      {"masked_fill", [](const auto& x) { return std::vector{x[0].masked_fill(x[0].detach() > 0, -1)}; }, one},
      {"masked_fill, broadcast", [](const auto& x) { return std::vector{x[0].masked_fill(x[1].detach() > 0, 2)}; },
       two},
      {.name = "clamp",
       .f = [](const auto& x) { return std::vector{x[0].clamp(-0.7, 0.9)}; },
       .shapes = one,
       .kink = bounds},
      {.name = "clamp from below",
       .f = [](const auto& x) { return std::vector{x[0].clamp(-0.7, std::nullopt)}; },
       .shapes = one,
       .kink = bounds},
      {.name = "clamp from above",
       .f = [](const auto& x) { return std::vector{x[0].clamp(std::nullopt, 0.9)}; },
       .shapes = one,
       .kink = bounds},
  };
}

}  // namespace tendril::samples
