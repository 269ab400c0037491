#include "tendril/autograd/ops/lstm.h"

#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

std::vector<OpSample> lstm_samples() {
  const auto layer = [](bool reverse, bool output, bool c_n) {
    return [=](const std::vector<Tensor>& x) {
      const auto result =
          lstm_layer(x[0], x[1], x.size() > 2 ? x[2] : Tensor(), x.size() > 2 ? x[3] : Tensor(), reverse);
      std::vector<Tensor> wanted;
      if (output) wanted.push_back(result.output);
      if (c_n) wanted.push_back(result.c_n);
      return wanted;
    };
  };
  // x [T, N, I], weights, biases, states
  const auto whole = [](bool biased, bool states, bool reverse) {
    return [=](const std::vector<Tensor>& x) {
      const std::size_t first = biased ? 5 : 3;
      const auto [output, c_n] =
          lstm_layer(x[0], LstmWeights{x[1], x[2], biased ? x[3] : Tensor(), biased ? x[4] : Tensor()},
                     states ? x[first] : Tensor(), states ? x[first + 1] : Tensor(), reverse);
      return std::vector<Tensor>{output, c_n};
    };
  };
  const std::vector<std::vector<Dims>> with_all = {{{2, 2, 1}, {4, 1}, {4, 1}, {4}, {4}, {2, 1}, {2, 1}},
                                                   {{1, 1, 1}, {4, 1}, {4, 1}, {4}, {4}, {1, 1}, {1, 1}},
                                                   {{2, 0, 1}, {4, 1}, {4, 1}, {4}, {4}, {0, 1}, {0, 1}}};
  const std::vector<std::vector<Dims>> with_weights = {
      {{2, 1, 2}, {4, 2}, {4, 1}}, {{1, 1, 1}, {8, 1}, {8, 2}}, {{3, 1, 1}, {4, 1}, {4, 1}}};
  // x_gates [T, N, 4 H], weight_hh [4 H, H], h0 and c0 [N, H]
  const std::vector<std::vector<Dims>> with_state = {
      {{3, 2, 8}, {8, 2}, {2, 2}, {2, 2}}, {{1, 1, 4}, {4, 1}, {1, 1}, {1, 1}}, {{2, 0, 4}, {4, 1}, {0, 1}, {0, 1}}};
  const std::vector<std::vector<Dims>> without = {{{3, 2, 4}, {4, 1}}, {{1, 2, 8}, {8, 2}}, {{2, 1, 4}, {4, 1}}};
  return {{"lstm_layer", layer(false, true, true), with_state},
          {"lstm_layer in reverse", layer(true, true, true), with_state},
          {"lstm_layer from zeros", layer(false, true, true), without},
          {"lstm_layer, its output only", layer(false, true, false), without},
          {"lstm_layer in reverse, its last cells only", layer(true, false, true), without},
          {"lstm_layer of an input", whole(true, true, false), with_all},
          {"lstm_layer of an input, in reverse, without biases, from zeros", whole(false, false, true), with_weights}};
}

}  // namespace tendril::samples
