#include "tendril/autograd/ops/norm.h"

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/raw.h"
#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

std::vector<OpSample> norm_samples() {
  const auto statistics = [](const Tensor& x, double from) {
    const int64_t channels = x.sizes()[1];
    const double end = from + 0.25 * (static_cast<double>(channels) - 0.5);
    return raw::cast(raw::arange(from, end, 0.25), x.dtype()).to(default_device());
  };
  const auto affine = [](const std::vector<Tensor>& x) {
    return std::pair{x.size() > 1 ? x[1] : Tensor(), x.size() > 2 ? x[2] : Tensor()};
  };
  const std::vector<std::vector<Dims>> shapes = {
      {{3, 2, 1, 2}, {2}, {2}}, {{4, 2}, {2}}, {{2, 1, 3}}, {{3, 1, 1, 1}, {1}, {1}}};
  std::vector<std::vector<Dims>> with_empty = shapes;
  with_empty.push_back({{0, 2, 2, 1}, {2}, {2}});
  return {
      // An epsilon that keeps variances away from 0 also where the batch is a broadcast of one image.
      {"batch_norm in training",
       [affine](const auto& x) {
         const auto [weight, bias] = affine(x);
         return std::vector{batch_norm(x[0], {}, {}, weight, bias, true, 0.1, 0.5)};
       },
       with_empty},
      {"batch_norm in evaluation",
       [=](const auto& x) {
         const auto [weight, bias] = affine(x);
         return std::vector{batch_norm(x[0], statistics(x[0], -0.5), statistics(x[0], 0.75), weight, bias)};
       },
       with_empty},
      {.name = "batch_norm_relu of a sum in training",
       .f =
           [](const auto& x) {
             return std::vector{
                 batch_norm_relu(x[0], {}, {}, x[1], x[2], {.residual = x[3], .training = true, .eps = 0.5})};
           },
       .shapes = {{{3, 2, 1, 2}, {2}, {2}, {3, 2, 1, 2}},
                  {{2, 1, 3}, {1}, {1}, {2, 1, 3}},
                  {{0, 2, 2}, {2}, {2}, {0, 2, 2}}},
       .kink = [](const auto& x) { return batch_norm(x[0], {}, {}, x[1], x[2], true, 0.1, 0.5) + x[3]; }},
      {.name = "batch_norm_relu in evaluation",
       .f =
           [=](const auto& x) {
             return std::vector{batch_norm_relu(x[0], statistics(x[0], -0.4), statistics(x[0], 0.75), x[1], x[2])};
           },
       .shapes = {{{3, 2, 1, 2}, {2}, {2}}, {{4, 2}, {2}, {2}}, {{3, 1, 1, 1}, {1}, {1}}},
       .kink =
           [=](const auto& x) { return batch_norm(x[0], statistics(x[0], -0.4), statistics(x[0], 0.75), x[1], x[2]); }},
  };
}

}  // namespace tendril::samples
