// Task 1.5: one step of an LSTM. lstm_whole.cpp, projected.
#include <tendril/autograd/gradcheck.h>
#include <tendril/autograd/ops/lstm.h>
#include <tendril/autograd/ops/pointwise.h>
#include <tendril/tensor/creation.h>
#include <tendril/tensor/print.h>

#include <sstream>
#include <string>
#include <vector>

#include "course.h"

using namespace tendril;
using course::check;

namespace {

std::string differs(const std::string& what, const Tensor& got, const Tensor& expected) {
  std::ostringstream text;
  text << what << ": expected\n" << expected << ", got\n" << got;
  return text.str();
}

}  // namespace

int main() {
  manual_seed(1);
  const auto draw = [](const Dims& sizes) { return randn(sizes, {.dtype = kFloat64, .requires_grad = true}); };
  // 4 steps of 2 sequences, 3 inputs, 5 cells. A projection by the identity changes nothing, so your layer with a
  // projection must agree with the library's kernel for layers without one.
  const Tensor x = draw({4, 2, 3}), h0 = draw({2, 5}), c0 = draw({2, 5});
  const LstmWeights plain{draw({20, 3}), draw({20, 5}), draw({20}), draw({20}), {}};
  LstmWeights yours = plain;
  yours.weight_hr = eye(5, {.dtype = kFloat64});
  const auto agrees = [&](const char* name, const Tensor& h, const Tensor& c, bool reverse) {
    check(name, [&]() -> std::string {
      const auto expected = lstm_layer(x, plain, h, c, reverse), got = lstm_layer(x, yours, h, c, reverse);
      for (const int64_t step : reverse ? std::vector<int64_t>{3, 2, 1, 0} : std::vector<int64_t>{0, 1, 2, 3}) {
        const Tensor is = got.output[step], wanted = expected.output[step];
        if (!allclose(is, wanted)) return differs("h of step " + std::to_string(step), is, wanted);
      }
      return allclose(got.c_n, expected.c_n) ? "" : differs("the last c", got.c_n, expected.c_n);
    });
  };
  agrees("from zeros", {}, {}, false);
  agrees("from a state", h0, c0, false);
  agrees("from the last step to the first", h0, c0, true);
  check("gradients", [&]() -> std::string {
    const auto f = [](const std::vector<Tensor>& in) {
      const auto [output, c_n] = lstm_layer(in[0], {in[1], in[2], {}, {}, in[3]}, in[4], in[5]);
      return std::vector<Tensor>{output, c_n};
    };
    // Here the projection maps 3 cells to 2 outputs.
    const auto result = autograd::gradcheck(
        f, {draw({2, 1, 2}), draw({12, 2}), draw({12, 2}), draw({2, 3}), draw({1, 2}), draw({1, 3})});
    return result.ok ? "" : result.message;
  });
  return course::result();
}
