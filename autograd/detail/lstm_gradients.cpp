#include "tendril/autograd/detail/lstm_gradients.h"

#include <vector>

#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/raw.h"

namespace tendril::detail {

namespace {

struct Step {
  Tensor h, c, i, f, g, o, tanh_c;  // h and c from before it
};

}  // namespace

LstmGradients lstm_gradients(const Tensor& x_gates, const Tensor& weight, const Tensor& h0, const Tensor& c0,
                             bool reverse, const Tensor& d_output, const Tensor& d_c_n) {
  const int64_t steps = x_gates.sizes()[0], cells = weight.sizes()[1];
  const Tensor zeros = raw::zeros({x_gates.sizes()[1], cells}, x_gates.dtype(), x_gates.device());
  const auto gate = [&](const Tensor& x, int64_t k) { return x.narrow(1, k * cells, cells); };
  const auto step = [&](int64_t s) { return reverse ? steps - 1 - s : s; };
  std::vector<Step> walk;
  Tensor h = h0.defined() ? h0 : zeros, c = c0.defined() ? c0 : zeros;
  for (int64_t s = 0; s < steps; ++s) {
    const Tensor x = x_gates.select(0, step(s)) + h.mm(weight.t());
    Step now{h, c, gate(x, 0).sigmoid(), gate(x, 1).sigmoid(), gate(x, 2).tanh(), gate(x, 3).sigmoid(), {}};
    c = now.f * c + now.i * now.g;
    now.tanh_c = c.tanh();
    h = now.o * now.tanh_c;
    walk.push_back(now);
  }
  Tensor d_h = zeros, d_c = d_c_n.defined() ? d_c_n : zeros, d_weight;
  std::vector<Tensor> d_gates(static_cast<std::size_t>(steps));
  for (int64_t s = steps - 1; s >= 0; --s) {
    const auto& [h_before, c_before, i, f, cell, o, tanh_c] = walk[static_cast<std::size_t>(s)];
    const int64_t t = step(s);
    if (d_output.defined()) d_h = d_h + d_output.select(0, t);
    d_c = d_c + d_h * o * (1 - tanh_c.square());
    const Tensor d_x = cat({d_c * cell * i * (1 - i), d_c * c_before * f * (1 - f), d_c * i * (1 - cell.square()),
                            d_h * tanh_c * o * (1 - o)},
                           1);
    d_gates[static_cast<std::size_t>(t)] = d_x;
    const Tensor part = d_x.t().mm(h_before);
    d_weight = d_weight.defined() ? d_weight + part : part;
    d_h = d_x.mm(weight);
    d_c = d_c * f;
  }
  return {stack(d_gates, 0), d_weight, d_h, d_c};
}

}  // namespace tendril::detail
