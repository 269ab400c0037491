// A layer of an LSTM in float32 against itself in float64, over random sizes, on one thread and on three. Memory that
// it is given holds NaN before, so that what is not written is seen.
#include <boost/test/unit_test.hpp>
#include <vector>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/ops/lstm.h"
#include "tests/tensor/against_float64.h"

BOOST_AUTO_TEST_SUITE(float32_lstm)

using namespace tendril;
using namespace tendril::testing;

namespace {

struct Layer {
  int64_t steps, batch, inputs, cells;
  bool biases, states, reverse;
  std::vector<Tensor> given;  // x, both weights, both biases, both states, the gradients of output and c_n

  explicit Layer(int round)
      : steps(roll(1, 7)),
        batch(roll(1, round % 4 ? 30 : 90)),
        inputs(roll(1, 40)),
        cells(round % 4 ? roll(1, 40) : roll(200, 400)),  // now and then enough for several threads
        biases(round % 2 == 0),
        states(round % 3 == 0),
        reverse(roll(0, 1) == 1) {
    const Dims bias{4 * cells}, state{batch, cells};
    for (const Dims& sizes : {Dims{steps, batch, inputs}, Dims{4 * cells, inputs}, Dims{4 * cells, cells}, bias, bias,
                              state, state, Dims{steps, batch, cells}, state}) {
      given.push_back(noise(sizes, -0.5, 0.5));
    }
  }

  /// Output, c_n, and the gradients of all that took part.
  std::vector<Tensor> run(DType dtype) const {
    std::vector<Tensor> in;
    for (const Tensor& x : given) in.push_back(raw::clone(raw::cast(x, dtype)).requires_grad_());
    leave_nan_behind(in, dtype, 2 * steps);
    const LstmWeights weights{in[1], in[2], biases ? in[3] : Tensor(), biases ? in[4] : Tensor(), {}};
    const LstmLayerResult made =
        lstm_layer(in[0], weights, states ? in[5] : Tensor(), states ? in[6] : Tensor(), reverse);
    autograd::backward({made.output, made.c_n}, {in[7].detach(), in[8].detach()});
    std::vector<Tensor> all{made.output.detach(), made.c_n.detach()};
    for (std::size_t i = 0; i < 7; ++i) {
      if (in[i].grad().defined()) all.push_back(in[i].grad());
    }
    return all;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(results_and_gradients_of_any_sizes_agree_with_themselves_in_float64) {
  for (int round = 0; round < 16; ++round) {
    const Layer layer(round);
    const std::vector<Tensor> exact = layer.run(kFloat64);
    BOOST_TEST(exact.size() == 5U + (layer.biases ? 2 : 0) + (layer.states ? 2 : 0));
    for (const int threads : {1, 3}) {
      const ThreadLimit limit(threads);
      const std::vector<Tensor> got = layer.run(kFloat32);
      for (std::size_t i = 0; i < exact.size(); ++i) {
        agree(got[i], exact[i], 1e-5, "round " + std::to_string(round) + ", result " + std::to_string(i));
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
