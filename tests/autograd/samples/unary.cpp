#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

std::vector<OpSample> unary_samples() {
  const std::vector<std::vector<Dims>> shapes = {{{2, 3}}, {{}}, {{4}}, {{0, 3}}, {{1, 1}}, {{2, 1, 2}}};
  std::vector<OpSample> all;
#define TENDRIL_UNARY(op, doc, dtypes, expression, saves, gradient, fused, low, high, ...) \
  all.push_back({#op, [](const std::vector<Tensor>& x) { return std::vector{x[0].op()}; }, shapes, {{low, high}}});
#include "tendril/tensor/pointwise.def"
  return all;
}

}  // namespace tendril::samples
