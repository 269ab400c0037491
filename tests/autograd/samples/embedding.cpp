#include "tendril/autograd/ops/embedding.h"

#include "tendril/tensor/raw.h"
#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

std::vector<OpSample> embedding_samples() {
  const auto at = [](const Dims& sizes, std::optional<int64_t> padding) {
    return [=](const std::vector<Tensor>& x) {
      const int64_t rows = x[0].size(0);
      std::vector<int64_t> values(static_cast<std::size_t>(numel_of(sizes)));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i * i) % rows;
      const Tensor index = raw::from_data(values, sizes).to(default_device());
      const Tensor out = tendril::embedding(index, x[0], padding);
      if (!padding) return std::vector{out};
      // The padding row has a gradient of zero by definition: it must not be seen.
      return std::vector{out.masked_fill(index.eq((*padding + rows) % rows).unsqueeze(-1), 0)};
    };
  };
  const std::vector<std::vector<Dims>> tables = {{{3, 2}}, {{1, 1}}, {{4, 3}}, {{2, 0}}};
  return {{"embedding", at({2, 3}, {}), tables},
          {"embedding with padding", at({5}, 0), tables},
          {"embedding with padding from the end", at({2, 1, 2}, -1), tables},
          {"embedding of one index", at({}, {}), tables},
          {"embedding of no index", at({0, 2}, {}), tables}};
}

}  // namespace tendril::samples
