#include "tendril/autograd/ops/join.h"

#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

std::vector<OpSample> join_samples() {
  return {
      {"cat",
       [](const auto& x) { return std::vector{cat(x, 0)}; },
       {{{2, 3}, {1, 3}}, {{2}, {3}, {1}}, {{0, 2}, {2, 2}}, {{1, 1}, {1, 1}}, {{2, 0}, {1, 0}}}},
      {"cat with tensors of shape [0]",
       [](const auto& x) { return std::vector{cat(x, -1)}; },
       {{{0}, {2, 3}}, {{2, 3}, {0}, {2, 1}, {0}}, {{0}, {0}, {1, 1, 2}}}},
      {"cat along the last dim",
       [](const auto& x) { return std::vector{cat(x, -1)}; },
       {{{2, 3}, {2, 1}}, {{2, 1, 2}, {2, 1, 1}}, {{1, 1}, {1, 1}}}},
      {"stack",
       [](const auto& x) {
         return std::vector{stack(x, 0), stack(x, -1)};
       },
       {{{2, 3}, {2, 3}}, {{}, {}}, {{0}, {0}}, {{1, 2}, {1, 2}, {1, 2}}}},
      {"cat of one tensor with itself",
       [](const auto& x) {
         return std::vector{cat({x[0], x[0]}, 0)};
       },
       {{{2}}, {{1, 2}}, {{0, 2}}}},
  };
}

}  // namespace tendril::samples
