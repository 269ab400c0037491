#include "tendril/autograd/ops/scan.h"

#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

std::vector<OpSample> scan_samples() {
  using Tensors = std::vector<Tensor>;
  const std::vector<std::vector<Dims>> shapes = {{{2, 3}}, {{2, 3, 2}}, {{4}}, {{}}, {{0, 3}}, {{1, 1}}};
  const std::vector<std::vector<Dims>> some = {{{2, 3}}, {{2, 3, 2}}, {{4}}, {{}}, {{1, 1}}};
  return {
      {"cumsum",
       [](const auto& x) {
         return Tensors{x[0].cumsum(-1), x[0].cumsum(0)};
       },
       shapes},
      {"cumprod",
       [](const auto& x) {
         return Tensors{x[0].cumprod(-1), x[0].cumprod(0)};
       },
       shapes},
      {"cumprod with zeros",
       [](const auto& x) { return Tensors{x[0].mul(x[0].gt(0)).cumprod(0)}; },
       {{{5, 2}}, {{3}}, {{}}, {{2, 0}}}},
      {"prod",
       [](const auto& x) {
         return Tensors{x[0].prod(), x[0].prod(-1, true), x[0].prod(0)};
       },
       some},
      {"prod with zeros", [](const auto& x) { return Tensors{x[0].mul(x[0].gt(0)).prod(-1)}; }, some},
      {"cummax",
       [](const auto& x) {
         const auto [values, indices] = x[0].cummax(-1);
         return Tensors{values, indices, std::get<0>(x[0].cummax(0))};
       },
       shapes,
       {},
       true},
      {"cummin",
       [](const auto& x) {
         const auto [values, indices] = x[0].cummin(-1);
         return Tensors{values, indices, std::get<0>(x[0].cummin(0))};
       },
       shapes,
       {},
       true},
      {"logcumsumexp",
       [](const auto& x) {
         return Tensors{x[0].logcumsumexp(-1), x[0].logcumsumexp(0)};
       },
       shapes},
  };
}

}  // namespace tendril::samples
