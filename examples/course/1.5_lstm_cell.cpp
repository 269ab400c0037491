// Task 1.5: a step of an LSTM. lstm_whole.cpp, projected.
#include <tendril/autograd/gradcheck.h>
#include <tendril/autograd/ops/lstm.h>
#include <tendril/autograd/ops/pointwise.h>
#include <tendril/tensor/creation.h>

#include <vector>

#include "course.h"

using namespace tendril;
using course::check;

int main() {
  manual_seed(1);
  const auto draw = [](const Dims& sizes) { return randn(sizes, {.dtype = kFloat64, .requires_grad = true}); };
  // 4 steps of 2 sequences, 3 numbers in, 5 cells. Of a projection by the identity nothing is to be seen: the layer
  // with it, yours, gives what the library's kernel for layers without one gives.
  const Tensor x = draw({4, 2, 3}), h0 = draw({2, 5}), c0 = draw({2, 5});
  const LstmWeights plain{draw({20, 3}), draw({20, 5}), draw({20}), draw({20}), {}};
  LstmWeights yours = plain;
  yours.weight_hr = eye(5, {.dtype = kFloat64});
  const auto agrees = [&](const char* name, const Tensor& h, const Tensor& c, bool reverse) {
    check(name, [&]() -> std::string {
      const auto expected = lstm_layer(x, plain, h, c, reverse), got = lstm_layer(x, yours, h, c, reverse);
      if (!allclose(got.output, expected.output)) return "h of all steps differs";
      return allclose(got.c_n, expected.c_n) ? "" : "the last c differs";
    });
  };
  agrees("from zeros", {}, {}, false);
  agrees("from a state", h0, c0, false);
  agrees("from the last step to the first", h0, c0, true);
  check("its gradients", [&]() -> std::string {
    const auto f = [](const std::vector<Tensor>& in) {
      const auto [output, c_n] = lstm_layer(in[0], {in[1], in[2], {}, {}, in[3]}, in[4], in[5]);
      return std::vector<Tensor>{output, c_n};
    };
    // Here the projection makes 2 numbers of 3 cells.
    const auto result = autograd::gradcheck(
        f, {draw({2, 1, 2}), draw({12, 2}), draw({12, 2}), draw({2, 3}), draw({1, 2}), draw({1, 3})});
    return result.ok ? "" : result.message;
  });
  return course::result();
}
