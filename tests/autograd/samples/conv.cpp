#include "tendril/autograd/ops/conv.h"

#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

std::vector<OpSample> conv_samples() {
  const auto with = [](const ConvGeometry& geometry) {
    return [geometry](const std::vector<Tensor>& x) {
      return std::vector{conv2d(x[0], x[1], x.size() > 2 ? x[2] : Tensor(), geometry)};
    };
  };
  return {
      {"conv2d",
       with({}),
       {{{2, 2, 3, 3}, {2, 2, 2, 2}, {2}}, {{1, 1, 1, 1}, {1, 1, 1, 1}, {1}}, {{0, 2, 3, 2}, {1, 2, 2, 2}, {1}}}},
      {"conv2d with all options",
       with({.stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}, .groups = 2}),
       {{{1, 2, 3, 4}, {2, 1, 2, 3}, {2}}, {{1, 2, 2, 2}, {4, 1, 1, 2}}, {{2, 4, 2, 2}, {2, 2, 3, 1}}}},
      {"conv2d of one place",
       with({}),
       {{{2, 3, 2, 2}, {2, 3, 1, 1}}, {{1, 2, 1, 3}, {1, 2, 1, 1}}, {{2, 3, 2}, {2, 2, 1, 1}}}},
      {"conv2d of one image",
       with({.stride = 2, .padding = 1}),
       {{{2, 4, 3}, {1, 2, 3, 3}, {1}}, {{1, 2, 2}, {2, 1, 2, 2}}, {{2, 1, 1}, {1, 2, 3, 3}}}},
  };
}

}  // namespace tendril::samples
