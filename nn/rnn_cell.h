#pragma once

#include <cstdint>
#include <string>
#include <typeinfo>

#include "tendril/autograd/ops/lstm.h"
#include "tendril/nn/lstm.h"
#include "tendril/nn/module.h"
#include "tendril/nn/rnn.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// One step of a recurrent layer, for loops of one's own, as PyTorch's, with its parameters' names ("weight_ih",
/// "weight_hh", "bias_ih", "bias_hh"). The formulas are those of RNN, GRU (rnn.h) and LSTM (lstm.h); initial values are
/// uniform in +-1/sqrt(hidden_size).
namespace tendril::nn {

struct RNNCellOptions {
  RNNNonlinearity nonlinearity = RNNNonlinearity::tanh;  ///< of RNNCell only
  bool bias = true;
  DType dtype = kFloat32;
  Device device = default_device();
  Generator& generator = default_generator();  ///< for the initial values
};

/// What the cells share.
class RNNCellBase : public Module {
 public:
  /// Draws the initial values anew.
  void reset_parameters(Generator& generator = default_generator());
  /// Numbers of the input.
  int64_t input_size() const noexcept { return input_size_; }
  /// Numbers of the state.
  int64_t hidden_size() const noexcept { return hidden_size_; }
  std::string extra_repr() const override;

  Tensor weight_ih, weight_hh;  ///< [gates * hidden_size, input_size] and [gates * hidden_size, hidden_size]
  Tensor bias_ih, bias_hh;      ///< [gates * hidden_size] or undefined

 protected:
  /// Throws Error unless both sizes are positive.
  RNNCellBase(const char* op, int64_t gates, int64_t input_size, int64_t hidden_size, const RNNCellOptions& options);
  RNNCellBase(RNNCellBase&& from, const std::type_info& type, Extent object);

  /// Throws ShapeError and DTypeError for an x that does not fit.
  void check(const Tensor& x) const;
  /// `state`, or zeros for an undefined one. Throws likewise.
  Tensor checked_state(const char* name, const Tensor& state, const Tensor& x) const;

 private:
  const char* op_;
  int64_t input_size_, hidden_size_;
};

/// x is [batch, input_size] or [input_size], h [batch, hidden_size] or [hidden_size], undefined: zeros. Gives the next
/// h. ShapeError for other sizes, DTypeError for another dtype.
class RNNCell : public Movable<RNNCell, RNNCellBase> {
 public:
  RNNCell(int64_t input_size, int64_t hidden_size, const RNNCellOptions& options = {});
  Tensor forward(const Tensor& x, const Tensor& h = {}) const;
  Tensor operator()(const Tensor& x, const Tensor& h = {}) const { return call(*this, x, h); }

 private:
  RNNNonlinearity nonlinearity_;
};

/// As RNNCell, with gates.
class GRUCell : public Movable<GRUCell, RNNCellBase> {
 public:
  GRUCell(int64_t input_size, int64_t hidden_size, const RNNCellOptions& options = {});
  Tensor forward(const Tensor& x, const Tensor& h = {}) const;
  Tensor operator()(const Tensor& x, const Tensor& h = {}) const { return call(*this, x, h); }
};

/// As RNNCell, of two states: `auto [h, c] = cell(x, {h, c})`.
class LSTMCell : public Movable<LSTMCell, RNNCellBase> {
 public:
  LSTMCell(int64_t input_size, int64_t hidden_size, const RNNCellOptions& options = {});
  LSTMState forward(const Tensor& x, const LSTMState& state = {}) const;
  LSTMState operator()(const Tensor& x, const LSTMState& state = {}) const { return call(*this, x, state); }
};

}  // namespace tendril::nn

TENDRIL_API_END
