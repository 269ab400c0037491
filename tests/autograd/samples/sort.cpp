#include "tendril/autograd/ops/sort.h"

#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

std::vector<OpSample> sort_samples() {
  using Tensors = std::vector<Tensor>;
  using tendril::sort;
  return {
      {"sort", [](const auto& x) { return Tensors{std::get<0>(sort(x[0], 0))}; }, {{{3, 2}}, {{4}}, {{}}}, {}, true},
      {"sort descending",
       [](const auto& x) { return Tensors{std::get<0>(sort(x[0], -1, true))}; },
       {{{2, 3}}, {{4}}, {{2, 0}}},
       {},
       true},
      {"topk", [](const auto& x) { return Tensors{std::get<0>(topk(x[0], 1, 0))}; }, {{{3, 2}}, {{4}}, {{}}}, {}, true},
      {"topk of the smallest",
       [](const auto& x) { return Tensors{std::get<0>(topk(x[0], 2, -1, false))}; },
       {{{2, 3}}, {{4}}, {{1, 2}}},
       {},
       true},
      {"kthvalue",
       [](const auto& x) { return Tensors{std::get<0>(kthvalue(x[0], 2))}; },
       {{{2, 3}}, {{4}}, {{1, 2}}},
       {},
       true},
      {"median",
       [](const auto& x) {
         return Tensors{std::get<0>(median(x[0], 0, true)), median(x[0])};
       },
       {{{3, 2}}, {{4}}, {{}}},
       {},
       true},
  };
}

}  // namespace tendril::samples
