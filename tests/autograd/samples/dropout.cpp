#include "tendril/autograd/ops/dropout.h"

#include "tests/autograd/samples/samples.h"
#include "tests/seed.h"

namespace tendril::samples {

std::vector<OpSample> dropout_samples() {
  const auto at = [](double p) {
    return [p](const std::vector<Tensor>& x) {
      Generator generator(testing::test_seed());
      return std::vector{tendril::dropout(x[0], p, generator)};
    };
  };
  const std::vector<std::vector<Dims>> shapes = {{{2, 3}}, {{}}, {{0, 3}}, {{1, 1}}, {{50}}};
  return {{"dropout", at(0.4), shapes}, {"dropout of nothing", at(0), shapes}, {"dropout of all", at(1), shapes}};
}

}  // namespace tendril::samples
