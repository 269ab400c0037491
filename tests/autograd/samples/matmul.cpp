#include "tendril/autograd/ops/matmul.h"

#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

std::vector<OpSample> matmul_samples() {
  const auto product = [](const std::vector<Tensor>& x) { return std::vector{tendril::matmul(x[0], x[1])}; };
  return {
      {"mm",
       [](const auto& x) { return std::vector{x[0].mm(x[1])}; },
       {{{2, 3}, {3, 4}}, {{1, 1}, {1, 1}}, {{0, 3}, {3, 2}}, {{2, 0}, {0, 3}}}},
      {"bmm",
       [](const auto& x) { return std::vector{x[0].bmm(x[1])}; },
       {{{2, 2, 3}, {2, 3, 2}}, {{1, 1, 1}, {1, 1, 1}}, {{0, 2, 3}, {0, 3, 2}}, {{2, 2, 0}, {2, 0, 1}}}},
      {"dot", [](const auto& x) { return std::vector{x[0].dot(x[1])}; }, {{{3}, {3}}, {{1}, {1}}, {{0}, {0}}}},
      {"matmul",
       product,
       {{{3}, {3}},
        {{3}, {3, 2}},
        {{2, 3}, {3}},
        {{2, 2, 3}, {3, 2}},
        {{2, 2, 3}, {3}},
        {{3}, {2, 3, 2}},
        {{2, 1, 2, 3}, {2, 3, 2}},
        {{1, 2, 3}, {2, 3, 1}},
        {{0, 2, 3}, {3, 2}},
        {{2, 3}, {0, 3, 2}}}},
      {"addmm",
       [](const auto& x) {
         return std::vector{addmm(x[0], x[1], x[2]), addmm(x[0], x[1], x[2], 0.5, 2)};
       },
       {{{2, 4}, {2, 3}, {3, 4}}, {{4}, {2, 3}, {3, 4}}, {{}, {1, 1}, {1, 1}}, {{2, 1}, {2, 0}, {0, 3}}}},
      {"linear",
       [](const auto& x) { return std::vector{linear(x[0], x[1], x[2])}; },
       {{{2, 3}, {4, 3}, {4}},
        {{3}, {2, 3}, {2}},
        {{2, 2, 3}, {2, 3}, {2}},
        {{0, 3}, {2, 3}, {2}},
        {{1, 1}, {1, 1}, {1}}}},
      {"linear without bias",
       [](const auto& x) { return std::vector{linear(x[0], x[1])}; },
       {{{2, 3}, {4, 3}}, {{3}, {2, 3}}, {{2, 0}, {3, 0}}}},
      {.name = "linear_relu",
       .f = [](const auto& x) { return std::vector{linear_relu(x[0], x[1], x[2])}; },
       .shapes = {{{2, 3}, {4, 3}, {4}}, {{2, 2, 3}, {2, 3}, {2}}, {{0, 3}, {2, 3}, {2}}, {{1, 1}, {1, 1}, {1}}},
       .kink = [](const auto& x) { return linear(x[0], x[1], x[2]); }},
      {.name = "linear_relu without bias",
       .f = [](const auto& x) { return std::vector{linear_relu(x[0], x[1])}; },
       .shapes = {{{2, 3}, {4, 3}}, {{3}, {2, 3}}, {{2, 1}, {3, 1}}},
       .kink = [](const auto& x) { return linear(x[0], x[1]); }},
      {"linear_gelu_tanh",
       [](const auto& x) { return std::vector{linear_gelu_tanh(x[0], x[1], x[2])}; },
       {{{2, 3}, {4, 3}, {4}}, {{2, 2, 3}, {2, 3}, {2}}, {{0, 3}, {2, 3}, {2}}, {{2, 0}, {3, 0}, {3}}}},
  };
}

}  // namespace tendril::samples
