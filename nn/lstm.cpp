#include "tendril/nn/lstm.h"

#include <cmath>
#include <sstream>
#include <tuple>

#include "tendril/autograd/autocast.h"
#include "tendril/autograd/ops/dropout.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/detail/segments.h"
#include "tendril/nn/init.h"
#include "tendril/tensor/raw.h"

namespace tendril::nn {

LSTM::LSTM(int64_t input_size, int64_t hidden_size, const LSTMOptions& options)
    : input_size_(input_size),
      hidden_size_(hidden_size),
      num_layers_(options.num_layers),
      proj_size_(options.proj_size),
      batch_first_(options.batch_first),
      bidirectional_(options.bidirectional),
      dropout_(options.dropout),
      generator_(&options.generator) {
  TENDRIL_CHECK(input_size > 0, "LSTM: input_size: got ", input_size, ", expected a positive number");
  TENDRIL_CHECK(hidden_size > 0, "LSTM: hidden_size: got ", hidden_size, ", expected a positive number");
  TENDRIL_CHECK(num_layers_ > 0, "LSTM: num_layers: got ", num_layers_, ", expected a positive number");
  TENDRIL_CHECK(dropout_ >= 0 && dropout_ <= 1, "LSTM: dropout: got ", dropout_, ", expected a probability in [0, 1]");
  TENDRIL_CHECK(proj_size_ >= 0 && proj_size_ < hidden_size, "LSTM: proj_size: got ", proj_size_,
                ", expected a number of 0 or more, below hidden_size, ", hidden_size);

  weights_.resize(static_cast<std::size_t>(num_layers_ * directions()));  // registered by address: grows no more
  for (int64_t layer = 0; layer < num_layers_; ++layer) {
    const int64_t width = layer == 0 ? input_size : output_size() * directions();
    for (int64_t direction = 0; direction < directions(); ++direction) {
      LstmWeights& w = weights_[static_cast<std::size_t>(layer * directions() + direction)];
      const std::string suffix = "_l" + std::to_string(layer) + (direction == 1 ? "_reverse" : "");
      const auto add = [&](const char* name, Tensor& parameter, const Dims& sizes) {
        parameter = raw::empty(sizes, options.dtype, options.device);
        register_parameter(name + suffix, parameter);
      };
      add("weight_ih", w.weight_ih, {4 * hidden_size, width});
      add("weight_hh", w.weight_hh, {4 * hidden_size, output_size()});
      if (options.bias) {
        add("bias_ih", w.bias_ih, {4 * hidden_size});
        add("bias_hh", w.bias_hh, {4 * hidden_size});
      }
      if (proj_size_ > 0) add("weight_hr", w.weight_hr, {proj_size_, hidden_size});
    }
  }
  reset_parameters(options.generator);
}

void LSTM::reset_parameters(Generator& generator) {
  const double bound = 1 / std::sqrt(static_cast<double>(hidden_size_));
  for (const Tensor& parameter : parameters()) init::uniform_(parameter, -bound, bound, generator);
}

void LSTM::check(const Tensor& x, const LSTMState& state) const {
  TENDRIL_CHECK(x.defined(), "LSTM: x is an undefined tensor");
  TENDRIL_CHECK_AS(ShapeError, (x.dim() == 2 || x.dim() == 3) && x.size(-1) == input_size_, "LSTM: x has shape ",
                   x.sizes(), ", expected [", batch_first_ ? "batch, steps, " : "steps, batch, ", input_size_,
                   "] or [steps, ", input_size_, "]");
  const bool batched = x.dim() == 3;
  TENDRIL_CHECK_AS(ShapeError, x.size(batched && batch_first_ ? 1 : 0) > 0, "LSTM: x has shape ", x.sizes(),
                   ", expected at least one step");
  const bool cast = autograd::detail::autocast_on();  // then each layer's arguments are made fit
  TENDRIL_CHECK_AS(DTypeError, cast || x.dtype() == weights_[0].weight_ih.dtype(), "LSTM: x is ", x.dtype(),
                   ", the parameters are ", weights_[0].weight_ih.dtype());
  check_state(state, batched ? Dims{x.size(batch_first_ ? 0 : 1)} : Dims{}, x.dtype());
}

void LSTM::check_state(const LSTMState& state, const Dims& batch, DType dtype) const {
  for (const auto& [name, part, size] :
       {std::tuple("h", &state.h, output_size()), std::tuple("c", &state.c, hidden_size_)}) {
    if (!part->defined()) continue;
    Dims expected = {num_layers_ * directions(), size};
    if (!batch.empty()) expected.insert(1, batch[0]);
    TENDRIL_CHECK_AS(ShapeError, part->sizes() == expected, "LSTM: state.", name, " has shape ", part->sizes(),
                     ", expected ", expected);
    TENDRIL_CHECK_AS(DTypeError, autograd::detail::autocast_on() || part->dtype() == dtype, "LSTM: state.", name,
                     " is ", part->dtype(), ", x is ", dtype);
  }
}

std::pair<std::vector<Tensor>, LSTMState> LSTM::run(std::vector<Tensor> x, const LSTMState& start) const {
  std::vector<Tensor> h, c;
  for (int64_t layer = 0; layer < num_layers_; ++layer) {
    std::vector<detail::Segments> outputs;
    for (int64_t direction = 0; direction < directions(); ++direction) {
      const int64_t at = layer * directions() + direction;
      const LstmWeights& w = weights_[static_cast<std::size_t>(at)];
      const bool reverse = direction == 1;
      const auto first = [&](const Tensor& all) { return all.defined() ? all.select(0, at) : all; };
      auto [output, last] = detail::walk(
          x, {first(start.h), first(start.c)}, reverse, [&](const Tensor& segment, const detail::States& before) {
            const auto [each, c_n] = lstm_layer(segment, w, before[0], before[1], reverse);
            return std::pair(each, detail::States{each.select(0, reverse ? 0 : each.size(0) - 1), c_n});
          });
      outputs.push_back(std::move(output));
      h.push_back(last[0].unsqueeze(0));
      c.push_back(last[1].unsqueeze(0));
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = bidirectional_ ? cat({outputs[0][i], outputs[1][i]}, 2) : outputs[0][i];
      if (is_training() && dropout_ > 0 && layer + 1 < num_layers_) x[i] = dropout(x[i], dropout_, *generator_);
    }
  }
  return {std::move(x), LSTMState{cat(h, 0), cat(c, 0)}};  // bare braces would copy x
}

LSTMResult LSTM::forward(const Tensor& given, const LSTMState& state) const {
  check(given, state);
  const bool batched = given.dim() == 3;
  const auto with_batch = [&](const Tensor& all) { return batched || !all.defined() ? all : all.unsqueeze(1); };
  const auto without_batch = [&](const Tensor& all) { return batched ? all : all.squeeze(1); };
  const Tensor x = !batched ? given.unsqueeze(1) : batch_first_ ? given.transpose(0, 1) : given;
  const auto [outputs, last] = run({x}, {with_batch(state.h), with_batch(state.c)});
  return {batched && batch_first_ ? outputs[0].transpose(0, 1) : without_batch(outputs[0]),
          {without_batch(last.h), without_batch(last.c)}};
}

PackedLSTMResult LSTM::forward(const utils::PackedSequence& x, const LSTMState& state) const {
  x.check("LSTM");
  TENDRIL_CHECK_AS(ShapeError, x.data.dim() == 2 && x.data.size(1) == input_size_, "LSTM: the packed data has shape ",
                   x.data.sizes(), ", expected [elements, ", input_size_, "]");
  TENDRIL_CHECK_AS(DTypeError, autograd::detail::autocast_on() || x.data.dtype() == weights_[0].weight_ih.dtype(),
                   "LSTM: the packed data is ", x.data.dtype(), ", the parameters are ", weights_[0].weight_ih.dtype());
  check_state(state, {x.batch_sizes[0]}, x.data.dtype());
  const auto ordered = [](const Tensor& all, const Tensor& by) {
    return all.defined() && by.defined() ? all.index_select(1, by) : all;
  };
  const auto [outputs, last] =
      run(detail::segments_of(x), {ordered(state.h, x.sorted_indices), ordered(state.c, x.sorted_indices)});
  return {{detail::packed(outputs), x.batch_sizes, x.sorted_indices, x.unsorted_indices},
          {ordered(last.h, x.unsorted_indices), ordered(last.c, x.unsorted_indices)}};
}

LSTMResult LSTM::operator()(const Tensor& x, const LSTMState& state) const { return call(*this, x, state); }
PackedLSTMResult LSTM::operator()(const utils::PackedSequence& x, const LSTMState& state) const {
  return call(*this, x, state);
}

std::string LSTM::extra_repr() const {
  std::ostringstream out;
  out << input_size_ << ", " << hidden_size_;
  if (proj_size_ != 0) out << ", proj_size=" << proj_size_;
  if (num_layers_ != 1) out << ", num_layers=" << num_layers_;
  if (!weights_[0].bias_ih.defined()) out << ", bias=false";
  if (batch_first_) out << ", batch_first=true";
  if (dropout_ != 0) out << ", dropout=" << dropout_;
  if (bidirectional_) out << ", bidirectional=true";
  return out.str();
}

}  // namespace tendril::nn
