// Windows appear where views are changed in place, and in the gradients of slices.
#include "tendril/autograd/ops/pointwise.h"
#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

std::vector<OpSample> window_samples() {
  const std::vector<std::vector<Dims>> shapes = {{{2, 3}, {3}}, {{3, 1}, {1}}, {{2, 2, 2}, {2, 2}}, {{1, 0}, {0}}};
  return {
      {"a slice is overwritten",
       [](const auto& x) {
         Tensor y = x[0] * 2;
         y.select(0, 0).copy_(x[1]);
         return std::vector{y};
       },
       shapes},
      {"an older view sees the change",
       [](const auto& x) {
         Tensor y = x[0] * 2;
         const Tensor all = y.reshape({-1});
         y.select(0, -1).mul_(x[1]);
         return std::vector{all * all, y};
       },
       shapes},
      {"a transposed part is changed",
       [](const auto& x) {
         Tensor y = x[0] * 2;
         y.transpose(0, -1).select(-1, 0).add_(1).mul_(x[0].transpose(0, -1).select(-1, 0));
         return std::vector{y, y.transpose(0, 1) * 2};
       },
       shapes},
      {"an expanded view of what is changed",
       [](const auto& x) {
         Tensor y = x[1] * 2;
         const Tensor wide = y.unsqueeze(0).expand({2, -1}).contiguous().reshape({2, -1});
         Tensor seen = y.unsqueeze(0);
         y.mul_(3);
         return std::vector{wide, seen.expand({2, -1}) * seen};
       },
       {{{1}, {3}}, {{1}, {1}}, {{1}, {0}}}},
      {"the base of an expanded view is changed",
       [](const auto& x) {
         Tensor y = x[0] * 2;
         const Tensor wide = y.unsqueeze(0).expand({2, x[0].numel()});
         y.mul_(x[0]);
         return std::vector{wide * wide};
       },
       {{{3}}, {{1}}, {{0}}}},
  };
}

}  // namespace tendril::samples
