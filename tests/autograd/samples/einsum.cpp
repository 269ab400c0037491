#include "tendril/autograd/ops/einsum.h"

#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

std::vector<OpSample> einsum_samples() {
  const auto of = [](const char* equation) {
    return [equation](const std::vector<Tensor>& x) { return std::vector{tendril::einsum(equation, x)}; };
  };
  return {
      {"einsum of matrices", of("ij,jk->ik"), {{{2, 3}, {3, 2}}, {{1, 1}, {1, 1}}, {{2, 0}, {0, 3}}}},
      {"einsum of batches",
       of("...ij,...kj->...ki"),
       {{{2, 2, 3}, {2, 3}}, {{2, 1}, {3, 1}}, {{2, 1, 2, 1}, {3, 1, 1}}}},
      {"einsum of a diagonal", of("ii->i"), {{{3, 3}}, {{1, 1}}, {{2, 2}}}},
      {"einsum of a trace", of("ii"), {{{3, 3}}, {{1, 1}}, {{2, 2}}}},
      {"einsum in alphabetical order", of("ba"), {{{2, 3}}, {{1, 2}}, {{3, 1}}}},
      {"einsum of three",
       of("bi,ij,bj->b"),
       {{{2, 3}, {3, 2}, {2, 2}}, {{1, 1}, {1, 2}, {1, 2}}, {{3, 1}, {1, 1}, {3, 1}}}},
      {"einsum of a sum", of("ij,k->j"), {{{2, 3}, {2}}, {{1, 1}, {3}}, {{3, 2}, {1}}}},
      {"baddbmm",
       [](const auto& x) { return std::vector{baddbmm(x[0], x[1], x[2], 0.5, 2)}; },
       {{{2, 1, 2}, {2, 3, 2}, {2, 2, 2}}, {{1}, {1, 1, 1}, {1, 1, 1}}, {{2, 2}, {3, 2, 1}, {3, 1, 2}}}},
      {"outer", [](const auto& x) { return std::vector{outer(x[0], x[1])}; }, {{{2}, {3}}, {{1}, {1}}, {{3}, {0}}}},
  };
}

}  // namespace tendril::samples
