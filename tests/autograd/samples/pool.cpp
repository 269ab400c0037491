#include "tendril/autograd/ops/pool.h"

#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

std::vector<OpSample> pool_samples() {
  return {
      {.name = "max_pool2d",
       .f =
           [](const auto& x) {
             return std::vector{max_pool2d(x[0], 2), max_pool2d(x[0], {2, 3}, {.stride = {2, 1}, .padding = 1}),
                                max_pool2d(x[0], 2, {.stride = 2, .padding = 1, .dilation = 2, .ceil_mode = true}),
                                max_pool2d(x[0], 5, {.ceil_mode = true})};
           },
       .shapes = {{{2, 1, 3, 4}}, {{1, 3, 2}}, {{0, 2, 3, 3}}},
       .distinct = true},
      {"avg_pool2d",
       [](const auto& x) {
         return std::vector{
             avg_pool2d(x[0], 2), avg_pool2d(x[0], {2, 3}, {.stride = {2, 1}, .padding = 1}),
             avg_pool2d(x[0], 3, {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false}),
             avg_pool2d(x[0], 2, {.stride = 1, .divisor_override = 3}), avg_pool2d(x[0], 5, {.ceil_mode = true})};
       },
       {{{2, 1, 3, 4}}, {{1, 3, 2}}, {{0, 2, 3, 3}}}},
      {"adaptive_avg_pool2d",
       [](const auto& x) {
         return std::vector{adaptive_avg_pool2d(x[0], 1), adaptive_avg_pool2d(x[0], {2, 3})};
       },
       {{{2, 1, 3, 4}}, {{1, 2, 2}}, {{0, 2, 3, 3}}, {{1, 1, 1, 1}}}},
  };
}

}  // namespace tendril::samples
