#include "tendril/autograd/ops/indexing.h"

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

std::vector<OpSample> indexing_samples() {
  using Tensors = std::vector<Tensor>;
  const auto putting = [](bool accumulate) {
    return [accumulate](const Tensors& x) {
      Tensor y = x[0] * 2;
      index_put_(y, {tensor({1, 0, accumulate ? 1 : 2}), slice(0, 2)}, x[1], accumulate);
      return Tensors{y};
    };
  };
  return {
      {"index by slices",
       [](const auto& x) {
         return Tensors{x[0][{slice(1, {}), None, Ellipsis, -1}]};
       },
       {{{2, 3}}, {{3, 1}}, {{2, 2, 2}}}},
      {"index by positions",
       [](const auto& x) {
         return Tensors{x[0][{tensor({1, -1, 0, 1})}]};
       },
       {{{2, 3}}, {{3}}, {{2, 1, 2}}}},
      {"index by two tensors",
       [](const auto& x) {
         return Tensors{x[0][{Ellipsis, tensor({{1}, {0}}), tensor({0, -1, 0})}]};
       },
       {{{2, 3}}, {{3, 2, 2}}, {{2, 1}}}},
      {"index by tensors that are apart",
       [](const auto& x) {
         return Tensors{x[0][{tensor({1, 0}), slice(), tensor({0, 1})}]};
       },
       {{{2, 3, 2}}, {{2, 1, 2}}, {{3, 2, 3, 2}}}},
      {"index by a mask",
       [](const auto& x) {
         return Tensors{x[0][{slice(0, 1), tensor({true, false, true})}]};
       },
       {{{2, 3}}, {{1, 3}}, {{2, 3, 2}}}},
      {"index_put_", putting(false), {{{3, 2}, {3, 2}}, {{3, 4}, {2}}, {{4, 3}, {1}}}},
      {"index_put_ that adds", putting(true), {{{3, 2}, {3, 2}}, {{3, 4}, {2}}, {{4, 3}, {1}}}},
      {"writing to an index",
       [](const auto& x) {
         Tensor y = x[0] * 2;
         y[{tensor({true, false, true})}] *= x[1];
         y[{Index(1)}] = x[1] * x[1];
         return Tensors{y};
       },
       {{{3, 2}, {2}}, {{3}, {}}, {{3, 1}, {1}}}},
      {"masked_select",
       [](const auto& x) {
         return Tensors{masked_select(x[0], tensor({{true}, {false}, {true}}))};
       },
       {{{3, 2}}, {{4}}, {{2, 3, 1}}}},
      {"take_along_dim",
       [](const auto& x) {
         return Tensors{take_along_dim(x[0], tensor({{1}, {0}, {1}}), 0)};
       },
       {{{2, 3}}, {{2, 1}}, {{3, 2}}}},
  };
}

}  // namespace tendril::samples
