#include "tendril/autograd/ops/rearrange.h"

#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

std::vector<OpSample> rearrange_samples() {
  using Tensors = std::vector<Tensor>;
  return {
      {"flip",
       [](const auto& x) {
         return Tensors{flip(x[0], {0, -1})};
       },
       {{{2, 3}}, {{3, 1}}, {{2, 1, 2}}, {{0, 3}}}},
      {"roll", [](const auto& x) { return Tensors{roll(x[0], -2, -1)}; }, {{{2, 3}}, {{1}}, {{2, 0}}}},
      {"roll of all", [](const auto& x) { return Tensors{roll(x[0], 4)}; }, {{{2, 3}}, {{}}, {{1, 2, 3}}}},
      {"repeat",
       [](const auto& x) {
         return Tensors{repeat(x[0], {2, 1, 3})};
       },
       {{{2, 3}}, {{}}, {{2, 1, 2}}}},
      {"tile", [](const auto& x) { return Tensors{tile(x[0], {2})}; }, {{{2, 3}}, {{}}, {{1, 2, 1}}}},
      {"repeat_interleave",
       [](const auto& x) { return Tensors{repeat_interleave(x[0], 2, 0)}; },
       {{{2, 3}}, {{}}, {{3, 1}}}},
      {"pad",
       [](const auto& x) {
         return Tensors{pad(x[0], {1, -1, 2, 0}, PadMode::constant, 0.5)};
       },
       {{{2, 3}}, {{1, 1}}, {{2, 1, 2}}}},
      {"pad by reflection",
       [](const auto& x) {
         return Tensors{pad(x[0], {2, 1}, PadMode::reflect)};
       },
       {{{2, 3}}, {{4}}, {{2, 1, 3}}}},
      {"pad by replication",
       [](const auto& x) {
         return Tensors{pad(x[0], {3, 1, 0, 2}, PadMode::replicate)};
       },
       {{{2, 3}}, {{1, 1}}, {{2, 1, 3}}}},
      {"pad around",
       [](const auto& x) {
         return Tensors{pad(x[0], {1, 2}, PadMode::circular)};
       },
       {{{2, 3}}, {{2}}, {{2, 1, 3}}}},
      {"tril", [](const auto& x) { return Tensors{tril(x[0], 1)}; }, {{{3, 3}}, {{2, 4}}, {{2, 3, 1}}}},
      {"triu", [](const auto& x) { return Tensors{triu(x[0], -1)}; }, {{{3, 3}}, {{2, 4}}, {{2, 3, 1}}}},
      {"diag of a vector", [](const auto& x) { return Tensors{diag(x[0], -1)}; }, {{{3}}, {{1}}, {{2}}}},
      {"diag of a matrix", [](const auto& x) { return Tensors{diag(x[0], 1)}; }, {{{3, 3}}, {{2, 4}}, {{3, 1}}}},
      {"diagonal", [](const auto& x) { return Tensors{diagonal(x[0], 1, -1, 0)}; }, {{{3, 2, 3}}, {{2, 4}}, {{1, 1}}}},
      {"roll of dims, repeat_interleave of all, trace",
       [](const auto& x) {
         return Tensors{x[0].roll({1, -1}, {0, 1}), x[0].repeat_interleave(2), trace(x[0])};
       },
       {{{3, 3}}, {{2, 4}}, {{1, 1}}}},
      {"unflatten",
       [](const auto& x) {
         return Tensors{x[0].unflatten(-1, {2, -1})};
       },
       {{{2, 4}}, {{2}}, {{0, 6}}}},
      {"meshgrid",
       [](const auto& x) {
         return meshgrid({x[0], x[1]});
       },
       {{{2}, {3}}, {{1}, {2}}, {{}, {2}}}},
      {"movedim", [](const auto& x) { return Tensors{movedim(x[0], 0, -1)}; }, {{{2, 3}}, {{2}}, {{2, 1, 3}}}},
  };
}

}  // namespace tendril::samples
