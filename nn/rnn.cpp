#include "tendril/nn/rnn.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include "tendril/autograd/autocast.h"
#include "tendril/autograd/ops/dropout.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/matmul.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/detail/recurrent_step.h"
#include "tendril/nn/detail/segments.h"
#include "tendril/nn/init.h"
#include "tendril/tensor/raw.h"

namespace tendril::nn {

Tensor detail::tanh_step(const Tensor& x_gates, const Tensor& h, const LstmWeights& w) {
  return (x_gates + linear(h, w.weight_hh, w.bias_hh)).tanh();
}
Tensor detail::relu_step(const Tensor& x_gates, const Tensor& h, const LstmWeights& w) {
  return (x_gates + linear(h, w.weight_hh, w.bias_hh)).relu();
}

Tensor detail::gru_step(const Tensor& x_gates, const Tensor& h, const LstmWeights& w) {
  const int64_t size = h.size(1);
  const Tensor h_gates = linear(h, w.weight_hh, w.bias_hh);
  const Tensor rz = (x_gates.narrow(1, 0, 2 * size) + h_gates.narrow(1, 0, 2 * size)).sigmoid();
  const Tensor r = rz.narrow(1, 0, size), z = rz.narrow(1, size, size);
  const Tensor n = (x_gates.narrow(1, 2 * size, size) + r * h_gates.narrow(1, 2 * size, size)).tanh();
  return n + z * (h - n);
}

RNN::RNN(int64_t input_size, int64_t hidden_size, const RNNOptions& options)
    : Movable("RNN", options.nonlinearity == RNNNonlinearity::tanh ? detail::tanh_step : detail::relu_step, 1,
              input_size, hidden_size, options) {}

GRU::GRU(int64_t input_size, int64_t hidden_size, const RNNOptions& options)
    : Movable("GRU", detail::gru_step, 3, input_size, hidden_size, options) {}

RNNBase::RNNBase(const char* op, Step step, int64_t gates, int64_t input_size, int64_t hidden_size,
                 const RNNOptions& options)
    : op_(op),
      step_(step),
      input_size_(input_size),
      hidden_size_(hidden_size),
      num_layers_(options.num_layers),
      batch_first_(options.batch_first),
      bidirectional_(options.bidirectional),
      dropout_(options.dropout),
      generator_(&options.generator) {
  TENDRIL_CHECK(input_size > 0, op, ": input_size: got ", input_size, ", expected a positive number");
  TENDRIL_CHECK(hidden_size > 0, op, ": hidden_size: got ", hidden_size, ", expected a positive number");
  TENDRIL_CHECK(num_layers_ > 0, op, ": num_layers: got ", num_layers_, ", expected a positive number");
  TENDRIL_CHECK(dropout_ >= 0 && dropout_ <= 1, op, ": dropout: got ", dropout_, ", expected a probability in [0, 1]");

  weights_.resize(static_cast<std::size_t>(num_layers_ * directions()));  // registered by address: grows no more
  for (int64_t layer = 0; layer < num_layers_; ++layer) {
    const int64_t width = layer == 0 ? input_size : hidden_size * directions();
    for (int64_t direction = 0; direction < directions(); ++direction) {
      LstmWeights& w = weights_[static_cast<std::size_t>(layer * directions() + direction)];
      const std::string suffix = "_l" + std::to_string(layer) + (direction == 1 ? "_reverse" : "");
      const auto add = [&](const char* name, Tensor& parameter, const Dims& sizes) {
        parameter = raw::empty(sizes, options.dtype, options.device);
        register_parameter(name + suffix, parameter);
      };
      add("weight_ih", w.weight_ih, {gates * hidden_size, width});
      add("weight_hh", w.weight_hh, {gates * hidden_size, hidden_size});
      if (!options.bias) continue;
      add("bias_ih", w.bias_ih, {gates * hidden_size});
      add("bias_hh", w.bias_hh, {gates * hidden_size});
    }
  }
  reset_parameters(options.generator);
}

RNNBase::RNNBase(RNNBase&& from, const std::type_info& type, Extent object)
    : Module(std::move(from), type, object),
      op_(from.op_),
      step_(from.step_),
      input_size_(from.input_size_),
      hidden_size_(from.hidden_size_),
      num_layers_(from.num_layers_),
      batch_first_(from.batch_first_),
      bidirectional_(from.bidirectional_),
      dropout_(from.dropout_),
      generator_(from.generator_),
      weights_(std::move(from.weights_)) {}

void RNNBase::reset_parameters(Generator& generator) {
  const double bound = 1 / std::sqrt(static_cast<double>(hidden_size_));
  for (const Tensor& parameter : parameters()) init::uniform_(parameter, -bound, bound, generator);
}

void RNNBase::check(const Tensor& x, const Tensor& h_0) const {
  TENDRIL_CHECK(x.defined(), op_, ": x is an undefined tensor");
  TENDRIL_CHECK_AS(ShapeError, (x.dim() == 2 || x.dim() == 3) && x.size(-1) == input_size_, op_, ": x has shape ",
                   x.sizes(), ", expected [", batch_first_ ? "batch, steps, " : "steps, batch, ", input_size_,
                   "] or [steps, ", input_size_, "]");
  const bool batched = x.dim() == 3;
  TENDRIL_CHECK_AS(ShapeError, x.size(batched && batch_first_ ? 1 : 0) > 0, op_, ": x has shape ", x.sizes(),
                   ", expected at least one step");
  TENDRIL_CHECK_AS(DTypeError, x.dtype() == weights_[0].weight_ih.dtype(), op_, ": x is ", x.dtype(),
                   ", the parameters are ", weights_[0].weight_ih.dtype());
  check_state(h_0, batched ? Dims{x.size(batch_first_ ? 0 : 1)} : Dims{}, x.dtype());
}

void RNNBase::check_state(const Tensor& h_0, const Dims& batch, DType dtype) const {
  if (!h_0.defined()) return;
  Dims expected = {num_layers_ * directions(), hidden_size_};
  if (!batch.empty()) expected.insert(1, batch[0]);
  TENDRIL_CHECK_AS(ShapeError, h_0.sizes() == expected, op_, ": h_0 has shape ", h_0.sizes(), ", expected ", expected);
  TENDRIL_CHECK_AS(DTypeError, h_0.dtype() == dtype, op_, ": h_0 is ", h_0.dtype(), ", x is ", dtype);
}

std::pair<std::vector<Tensor>, Tensor> RNNBase::run(std::vector<Tensor> x, const Tensor& start) const {
  // A layer of a half type is computed in float and its results are rounded, not what goes from step to step.
  const DType dtype = x[0].dtype(), wide = x[0].device().is_cpu() ? computed_in(dtype) : dtype;
  const auto widened = [&](const Tensor& t) { return t.defined() ? t.to(wide) : t; };
  std::vector<Tensor> last;
  for (int64_t layer = 0; layer < num_layers_; ++layer) {
    std::vector<detail::Segments> of_directions;
    for (int64_t direction = 0; direction < directions(); ++direction) {
      const int64_t at = layer * directions() + direction;
      const LstmWeights& own = weights_[static_cast<std::size_t>(at)];
      const LstmWeights w{widened(own.weight_ih), widened(own.weight_hh), widened(own.bias_ih), widened(own.bias_hh)};
      const auto steps_of = [&](const Tensor& segment, const detail::States& before) {
        const std::vector<Tensor> x_gates = linear(widened(segment), w.weight_ih, w.bias_ih).unbind(0);  // one product
        Tensor h =
            before[0].defined() ? before[0] : raw::zeros({segment.size(1), hidden_size_}, wide, segment.device());
        std::vector<Tensor> outputs(x_gates.size());
        for (std::size_t i = 0; i < x_gates.size(); ++i) {
          const std::size_t t = direction == 1 ? x_gates.size() - 1 - i : i;
          outputs[t] = h = step_(x_gates[t], h, w);
        }
        return std::pair(stack(outputs, 0).to(dtype), detail::States{h});
      };
      auto [outputs, h] =
          detail::walk(x, {start.defined() ? widened(start.select(0, at)) : start}, direction == 1, steps_of);
      last.push_back(h[0].to(dtype));
      of_directions.push_back(std::move(outputs));
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = bidirectional_ ? cat({of_directions[0][i], of_directions[1][i]}, 2) : of_directions[0][i];
      if (is_training() && dropout_ > 0 && layer + 1 < num_layers_) x[i] = dropout(x[i], dropout_, *generator_);
    }
  }
  return {std::move(x), stack(last, 0)};
}

RNNResult RNNBase::forward(const Tensor& given, const Tensor& h_0) const {
  if (autograd::detail::autocast_on()) {  // of the parameters' dtype, as PyTorch's
    const autograd::detail::AutocastOff whole;
    const DType dtype = weights_[0].weight_ih.dtype();
    return forward(given.defined() ? given.to(dtype) : given, h_0.defined() ? h_0.to(dtype) : h_0);
  }
  check(given, h_0);
  const bool batched = given.dim() == 3;
  const Tensor x = !batched ? given.unsqueeze(1) : batch_first_ ? given.transpose(0, 1) : given;
  const auto [outputs, h_n] = run({x}, batched || !h_0.defined() ? h_0 : h_0.unsqueeze(1));
  if (!batched) return {outputs[0].squeeze(1), h_n.squeeze(1)};
  return {batch_first_ ? outputs[0].transpose(0, 1) : outputs[0], h_n};
}

PackedRNNResult RNNBase::forward(const utils::PackedSequence& x, const Tensor& h_0) const {
  x.check(op_);
  if (autograd::detail::autocast_on()) {
    const autograd::detail::AutocastOff whole;
    const DType dtype = weights_[0].weight_ih.dtype();
    return forward({x.data.to(dtype), x.batch_sizes, x.sorted_indices, x.unsorted_indices},
                   h_0.defined() ? h_0.to(dtype) : h_0);
  }
  TENDRIL_CHECK_AS(ShapeError, x.data.dim() == 2 && x.data.size(1) == input_size_, op_, ": the packed data has shape ",
                   x.data.sizes(), ", expected [elements, ", input_size_, "]");
  TENDRIL_CHECK_AS(DTypeError, x.data.dtype() == weights_[0].weight_ih.dtype(), op_, ": the packed data is ",
                   x.data.dtype(), ", the parameters are ", weights_[0].weight_ih.dtype());
  check_state(h_0, {x.batch_sizes[0]}, x.data.dtype());
  const auto ordered = [](const Tensor& all, const Tensor& by) {
    return all.defined() && by.defined() ? all.index_select(1, by) : all;
  };
  const auto [outputs, h_n] = run(detail::segments_of(x), ordered(h_0, x.sorted_indices));
  return {{detail::packed(outputs), x.batch_sizes, x.sorted_indices, x.unsorted_indices},
          ordered(h_n, x.unsorted_indices)};
}

RNNResult RNNBase::operator()(const Tensor& x, const Tensor& h_0) const { return call(*this, x, h_0); }
PackedRNNResult RNNBase::operator()(const utils::PackedSequence& x, const Tensor& h_0) const {
  return call(*this, x, h_0);
}

std::string RNNBase::extra_repr() const {
  std::ostringstream out;
  out << input_size_ << ", " << hidden_size_;
  if (num_layers_ != 1) out << ", num_layers=" << num_layers_;
  if (!weights_[0].bias_ih.defined()) out << ", bias=false";
  if (batch_first_) out << ", batch_first=true";
  if (dropout_ != 0) out << ", dropout=" << dropout_;
  if (bidirectional_) out << ", bidirectional=true";
  return out.str();
}

}  // namespace tendril::nn
