#include "tendril/nn/rnn_cell.h"

#include <cmath>

#include "tendril/autograd/ops/matmul.h"
#include "tendril/nn/detail/recurrent_step.h"
#include "tendril/nn/init.h"
#include "tendril/tensor/raw.h"

namespace tendril::nn {

namespace {

/// A step of one row as one of a batch of one.
template <class Step>
Tensor step(const RNNCellBase& cell, const Tensor& x, const Tensor& h, const Step& take) {
  const LstmWeights w{cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh};
  const bool batched = x.dim() == 2;
  const Tensor x_gates = linear(batched ? x : x.unsqueeze(0), w.weight_ih, w.bias_ih);
  const Tensor next = take(x_gates, batched ? h : h.unsqueeze(0), w);
  return batched ? next : next.squeeze(0);
}

}  // namespace

RNNCellBase::RNNCellBase(const char* op, int64_t gates, int64_t input_size, int64_t hidden_size,
                         const RNNCellOptions& options)
    : op_(op), input_size_(input_size), hidden_size_(hidden_size) {
  TENDRIL_CHECK(input_size > 0, op, ": input_size: got ", input_size, ", expected a positive number");
  TENDRIL_CHECK(hidden_size > 0, op, ": hidden_size: got ", hidden_size, ", expected a positive number");
  const auto add = [&](const char* name, Tensor& parameter, const Dims& sizes) {
    parameter = raw::empty(sizes, options.dtype, options.device);
    register_parameter(name, parameter);
  };
  add("weight_ih", weight_ih, {gates * hidden_size, input_size});
  add("weight_hh", weight_hh, {gates * hidden_size, hidden_size});
  if (options.bias) {
    add("bias_ih", bias_ih, {gates * hidden_size});
    add("bias_hh", bias_hh, {gates * hidden_size});
  }
  reset_parameters(options.generator);
}

RNNCellBase::RNNCellBase(RNNCellBase&& from, const std::type_info& type, Extent object)
    : Module(std::move(from), type, object),
      weight_ih(std::move(from.weight_ih)),
      weight_hh(std::move(from.weight_hh)),
      bias_ih(std::move(from.bias_ih)),
      bias_hh(std::move(from.bias_hh)),
      op_(from.op_),
      input_size_(from.input_size_),
      hidden_size_(from.hidden_size_) {}

void RNNCellBase::reset_parameters(Generator& generator) {
  const double bound = 1 / std::sqrt(static_cast<double>(hidden_size_));
  for (const Tensor& parameter : parameters()) init::uniform_(parameter, -bound, bound, generator);
}

void RNNCellBase::check(const Tensor& x) const {
  TENDRIL_CHECK(x.defined(), op_, ": x is an undefined tensor");
  TENDRIL_CHECK_AS(ShapeError, (x.dim() == 1 || x.dim() == 2) && x.size(-1) == input_size_, op_, ": x has shape ",
                   x.sizes(), ", expected [batch, ", input_size_, "] or [", input_size_, "]");
  TENDRIL_CHECK_AS(DTypeError, x.dtype() == weight_ih.dtype(), op_, ": x is ", x.dtype(), ", the parameters are ",
                   weight_ih.dtype());
}

Tensor RNNCellBase::checked_state(const char* name, const Tensor& state, const Tensor& x) const {
  Dims expected = x.sizes();
  expected[x.dim() - 1] = hidden_size_;
  if (!state.defined()) return raw::zeros(expected, x.dtype(), x.device());
  TENDRIL_CHECK_AS(ShapeError, state.sizes() == expected, op_, ": ", name, " has shape ", state.sizes(), ", expected ",
                   expected);
  TENDRIL_CHECK_AS(DTypeError, state.dtype() == x.dtype(), op_, ": ", name, " is ", state.dtype(), ", x is ",
                   x.dtype());
  return state;
}

std::string RNNCellBase::extra_repr() const {
  return std::to_string(input_size_) + ", " + std::to_string(hidden_size_) + (bias_ih.defined() ? "" : ", bias=False");
}

RNNCell::RNNCell(int64_t input_size, int64_t hidden_size, const RNNCellOptions& options)
    : Movable("RNNCell", 1, input_size, hidden_size, options), nonlinearity_(options.nonlinearity) {}

Tensor RNNCell::forward(const Tensor& x, const Tensor& h) const {
  check(x);
  return step(*this, x, checked_state("h", h, x),
              nonlinearity_ == RNNNonlinearity::tanh ? detail::tanh_step : detail::relu_step);
}

GRUCell::GRUCell(int64_t input_size, int64_t hidden_size, const RNNCellOptions& options)
    : Movable("GRUCell", 3, input_size, hidden_size, options) {}

Tensor GRUCell::forward(const Tensor& x, const Tensor& h) const {
  check(x);
  return step(*this, x, checked_state("h", h, x), detail::gru_step);
}

LSTMCell::LSTMCell(int64_t input_size, int64_t hidden_size, const RNNCellOptions& options)
    : Movable("LSTMCell", 4, input_size, hidden_size, options) {}

LSTMState LSTMCell::forward(const Tensor& x, const LSTMState& state) const {
  check(x);
  const Tensor h = checked_state("h", state.h, x), c = checked_state("c", state.c, x);
  const bool batched = x.dim() == 2;
  const auto with_batch = [&](const Tensor& t) { return batched ? t : t.unsqueeze(0); };
  const auto [output, c_n] = lstm_layer(with_batch(x).unsqueeze(0), {weight_ih, weight_hh, bias_ih, bias_hh},
                                        with_batch(h), with_batch(c), false);
  const Tensor next = output.squeeze(0);
  return batched ? LSTMState{next, c_n} : LSTMState{next.squeeze(0), c_n.squeeze(0)};
}

}  // namespace tendril::nn
