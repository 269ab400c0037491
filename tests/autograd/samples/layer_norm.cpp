#include "tendril/autograd/ops/layer_norm.h"

#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

std::vector<OpSample> layer_norm_samples() {
  const auto maybe = [](const std::vector<Tensor>& x, std::size_t i) { return i < x.size() ? x[i] : Tensor(); };
  const auto last = [](const Tensor& x) { return Dims{x.sizes()[x.dim() - 1]}; };
  // An epsilon that keeps variances away from 0 also where a line is a broadcast of one element.
  const std::vector<std::vector<Dims>> shapes = {
      {{2, 3, 4}, {4}, {4}}, {{3, 5}, {5}}, {{6}}, {{4, 1}, {1}, {1}}, {{0, 3}, {3}, {3}}};
  return {
      {"layer_norm",
       [=](const auto& x) { return std::vector{tendril::layer_norm(x[0], last(x[0]), maybe(x, 1), maybe(x, 2), 0.5)}; },
       shapes},
      {"layer_norm over two dimensions",
       [=](const auto& x) {
         return std::vector{tendril::layer_norm(x[0], {3, 2}, maybe(x, 1), maybe(x, 2), 0.5)};
       },
       {{{2, 3, 2}, {3, 2}, {3, 2}}, {{3, 2}, {3, 2}}, {{1, 2, 3, 2}}}},
      {"rms_norm",
       [=](const auto& x) { return std::vector{tendril::rms_norm(x[0], last(x[0]), maybe(x, 1), 0.5)}; },
       {{{2, 3, 4}, {4}}, {{3, 5}}, {{6}, {6}}, {{0, 3}, {3}}}},
      {"group_norm",
       [=](const auto& x) { return std::vector{tendril::group_norm(x[0], 2, maybe(x, 1), maybe(x, 2), 0.5)}; },
       {{{2, 4, 3}, {4}, {4}}, {{3, 2, 2, 1}, {2}}, {{2, 6}}, {{0, 4, 2}, {4}, {4}}}},
  };
}

}  // namespace tendril::samples
