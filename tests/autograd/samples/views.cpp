#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

std::vector<OpSample> views_samples() {
  const std::vector<std::vector<Dims>> any = {{{2, 3}}, {{2, 3, 2}}, {{4}}, {{}}, {{0, 3}}, {{1, 1}}};
  const std::vector<std::vector<Dims>> matrices = {{{2, 3}}, {{4, 1}}, {{0, 3}}, {{1, 1}}, {{2, 3, 2}}};
  return {
      {"reshape",
       [](const auto& x) {
         return std::vector{x[0].reshape({x[0].numel(), 1}), x[0].reshape({x[0].numel()})};
       },
       any},
      {"view",
       [](const auto& x) {
         return std::vector{x[0].clone().view({1, x[0].numel()})};
       },
       any},
      {"flatten", [](const auto& x) { return std::vector{x[0].flatten()}; }, any},
      {"squeeze",
       [](const auto& x) {
         return std::vector{x[0].unsqueeze(0).squeeze(), x[0].unsqueeze(-1).squeeze(-1)};
       },
       any},
      {"unsqueeze",
       [](const auto& x) {
         return std::vector{x[0].unsqueeze(0), x[0].unsqueeze(-1)};
       },
       any},
      {"expand",
       [](const auto& x) {
         Dims wide = x[0].sizes();
         wide.insert(0, 3);
         return std::vector{x[0].expand(wide)};
       },
       any},
      {"expand a dim",
       [](const auto& x) {
         return std::vector{x[0].expand({2, 3})};
       },
       {{{2, 1}}, {{1, 3}}, {{1, 1}}, {{}}, {{3}}}},
      {"permute",
       [](const auto& x) {
         return std::vector{x[0].permute({1, 2, 0}), x[0].permute({-1, 0, 1})};
       },
       {{{2, 3, 2}}, {{1, 1, 1}}, {{0, 2, 1}}}},
      {"transpose", [](const auto& x) { return std::vector{x[0].transpose(0, -1)}; }, any},
      {"t", [](const auto& x) { return std::vector{x[0].t()}; }, {{{2, 3}}, {{4}}, {{}}, {{0, 3}}}},
      {"select",
       [](const auto& x) {
         return std::vector{x[0].select(-1, 0), x[0].select(1, -1)};
       },
       matrices},
      {"index", [](const auto& x) { return std::vector{x[0][1]}; }, {{{2, 3}}, {{3}}, {{2, 1, 2}}}},
      {"slice",
       [](const auto& x) {
         return std::vector{x[0].slice(0, 1), x[0].slice(-1, 0, -1), x[0].slice(-1, 0, INT64_MAX, 2)};
       },
       matrices},
      {"narrow",
       [](const auto& x) {
         return std::vector{x[0].narrow(1, 0, 1), x[0].narrow(0, 0, x[0].size(0))};
       },
       matrices},
      {"split", [](const auto& x) { return x[0].split(2, 0); }, {{{5, 2}}, {{3}}, {{0, 2}}, {{1, 1}}}},
      {"split by sizes",
       [](const auto& x) {
         return x[0].split(std::vector<int64_t>{1, 0, 2}, -1);
       },
       {{{2, 3}}, {{3}}, {{0, 3}}}},
      {"chunk", [](const auto& x) { return x[0].chunk(2, -1); }, {{{2, 3}}, {{4}}, {{1, 1}}, {{2, 0}}}},
      {"unbind", [](const auto& x) { return x[0].unbind(0); }, {{{3, 2}}, {{3}}, {{1, 1}}, {{2, 0}}}},
  };
}

}  // namespace tendril::samples
