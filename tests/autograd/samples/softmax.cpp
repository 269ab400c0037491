#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

std::vector<OpSample> softmax_samples() {
  const std::vector<std::vector<Dims>> shapes = {{{2, 3}}, {{2, 3, 2}}, {{4}}, {{}}, {{0, 3}}, {{1, 1}}};
  return {
      {"softmax",
       [](const auto& x) {
         return std::vector{x[0].softmax(-1), x[0].softmax(0)};
       },
       shapes},
      {"log_softmax",
       [](const auto& x) {
         return std::vector{x[0].log_softmax(-1), x[0].log_softmax(0)};
       },
       shapes},
      {"logsumexp",
       [](const auto& x) {
         return std::vector{x[0].logsumexp(-1), x[0].logsumexp(-1, true)};
       },
       shapes},
      {"logsumexp of several dims",
       [](const auto& x) {
         return std::vector{x[0].logsumexp({}), x[0].logsumexp({-1, 0}, true)};
       },
       {{{2, 3}}, {{3, 1}}, {{2, 3, 2}}}},
  };
}

}  // namespace tendril::samples
