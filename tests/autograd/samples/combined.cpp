#include "tendril/autograd/ops/combined.h"

#include "tendril/tensor/creation.h"
#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

std::vector<OpSample> combined_samples() {
  using Tensors = std::vector<Tensor>;
  const std::vector<std::vector<Dims>> three = {
      {{2, 3}, {2, 3}, {3}}, {{2, 1}, {3}, {1, 3}}, {{}, {2}, {2}}, {{0, 2}, {2}, {2}}};
  const std::vector<std::vector<Dims>> pairs = {{{2, 3}, {2, 3}}, {{2, 1}, {3}}, {{}, {2}}};
  return {
      {"add and sub, scaled",
       [](const auto& x) {
         return Tensors{x[0].add(x[1], 0.5), x[0].sub(x[1], 3)};
       },
       pairs},
      {"addcmul", [](const auto& x) { return Tensors{addcmul(x[0], x[1], x[2], -0.5)}; }, three},
      {"addcdiv", [](const auto& x) { return Tensors{addcdiv(x[0], x[1], x[2], 2)}; }, three, {{}, {}, {0.5, 2}}},
      {"lerp",
       [](const auto& x) {
         return Tensors{lerp(x[0], x[1], x[2]), lerp(x[0], x[1], 0.2), lerp(x[0], x[1], 0.7)};
       },
       three},
      {"mv", [](const auto& x) { return Tensors{mv(x[0], x[1])}; }, {{{2, 3}, {3}}, {{1, 1}, {1}}, {{0, 2}, {2}}}},
      {"take",
       [](const auto& x) {
         return Tensors{take(x[0], tensor({{int64_t{0}, int64_t{-1}}, {int64_t{1}, int64_t{0}}}, {.dtype = kInt64}))};
       },
       {{{2, 3}}, {{2}}, {{2, 1, 2}}}},
      {"std_mean and var_mean",
       [](const auto& x) {
         const auto [deviation, mean] = std_mean(x[0], {0});
         const auto [variance, same] = var_mean(x[0], {}, false);
         return Tensors{deviation, mean, variance, same};
       },
       {{{2, 3}}, {{3}}, {{2, 1, 2}}}},
      {"normalize",
       [](const auto& x) {
         return Tensors{normalize(x[0]), normalize(x[0], 1, 0)};
       },
       {{{2, 3}}, {{3, 1}}, {{2, 3, 2}}}},
      {"hstack, vstack, dstack",
       [](const auto& x) {
         return Tensors{hstack({x[0], x[0]}), vstack({x[0], x[0]}), dstack({x[0], x[0]})};
       },
       {{{2, 3}}, {{3}}, {{}}, {{2, 1, 2}}}},
  };
}

}  // namespace tendril::samples
