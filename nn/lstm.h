#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tendril/autograd/ops/lstm.h"
#include "tendril/nn/module.h"
#include "tendril/nn/utils/rnn.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::nn {

struct LSTMOptions {
  int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;  ///< input and output are [batch, steps, features]; states are not affected
  double dropout = 0;        ///< in training, on the output of each layer but the last
  bool bidirectional = false;
  int64_t proj_size = 0;  ///< above 0: h is a projection to so many numbers, below hidden_size
  DType dtype = kFloat32;
  Device device = default_device();
  Generator& generator = default_generator();  ///< for the initial values, and for dropout: must outlive the module
};

/// What is carried from one part of a sequence to the next: [layers * directions, batch, hidden_size] each (h with a
/// projection: proj_size), or without the batch for an input without one. The directions of a layer lie together,
/// forward first.
struct LSTMState {
  Tensor h = {}, c = {};  ///< [layers * directions, batch, size]; undefined: zeros

  template <class Self, class F>
  static void for_each_tensor(Self& self, const F& f) {
    f(self.h);
    f(self.c);
  }
};

/// `auto [output, state] = lstm(x, state);`
struct LSTMResult {
  Tensor output;    ///< of the last layer: [steps, batch, hidden_size * directions] (proj_size with a projection)
  LSTMState state;  ///< of every layer, after its last step

  template <class Self, class F>
  static void for_each_tensor(Self& self, const F& f) {
    detail::for_each_tensor(self.output, f);
    detail::for_each_tensor(self.state, f);
  }
};

/// ... of sequences of different lengths.
struct PackedLSTMResult {
  utils::PackedSequence output;  ///< packed as the input
  LSTMState state;               ///< of every layer, after each sequence's own last step; in the order they were given

  template <class Self, class F>
  static void for_each_tensor(Self& self, const F& f) {
    detail::for_each_tensor(self.output, f);
    detail::for_each_tensor(self.state, f);
  }
};

/// Long short-term memory, as PyTorch's nn.LSTM, with its parameters' names ("weight_ih_l0", "weight_hh_l0",
/// "bias_ih_l0", "bias_hh_l0", "weight_hr_l0" of a projection, "..._reverse") and its order of gates: input, forget,
/// cell, output. (Hochreiter and Schmidhuber, 1997; autograd/ops/lstm.h has the formula.) Initial values as PyTorch's:
/// uniform in +-1/sqrt(hidden_size).
class LSTM : public Movable<LSTM> {
 public:
  /// Throws Error unless the sizes and the number of layers are positive, dropout is in [0, 1] and proj_size in
  /// [0, hidden_size).
  LSTM(int64_t input_size, int64_t hidden_size, const LSTMOptions& options = {});

  /// x is [steps, batch, input_size], or [steps, input_size] for a batch of one. A state that is undefined is zeros.
  /// ShapeError for other sizes, no steps, or a state that does not fit; DTypeError for another dtype.
  LSTMResult forward(const Tensor& x, const LSTMState& state = {}) const;
  LSTMResult operator()(const Tensor& x, const LSTMState& state = {}) const;

  /// Packed sequences (nn/utils/rnn.h), each computed to its own end. A state is in the order in which the sequences
  /// were given. Errors as above, and as PackedSequence::check.
  PackedLSTMResult forward(const utils::PackedSequence& x, const LSTMState& state = {}) const;
  PackedLSTMResult operator()(const utils::PackedSequence& x, const LSTMState& state = {}) const;

  /// Draws the initial values anew.
  void reset_parameters(Generator& generator = default_generator());

  /// Numbers of each step.
  int64_t input_size() const noexcept { return input_size_; }
  /// Numbers of h and c.
  int64_t hidden_size() const noexcept { return hidden_size_; }
  /// How many, one on the other.
  int64_t num_layers() const noexcept { return num_layers_; }
  std::string extra_repr() const override;

 private:
  int64_t directions() const noexcept { return bidirectional_ ? 2 : 1; }
  int64_t output_size() const noexcept { return proj_size_ > 0 ? proj_size_ : hidden_size_; }
  void check(const Tensor& x, const LSTMState& state) const;
  void check_state(const LSTMState& state, const Dims& batch, DType dtype) const;
  /// All layers over segments [steps, sequences, input_size]; the states with a batch.
  std::pair<std::vector<Tensor>, LSTMState> run(std::vector<Tensor> segments, const LSTMState& start) const;

  int64_t input_size_, hidden_size_, num_layers_, proj_size_;
  bool batch_first_, bidirectional_;
  double dropout_;
  Generator* generator_;
  std::vector<LstmWeights> weights_;  // of layer l's forward direction at l * directions, its reverse after it
};

}  // namespace tendril::nn

TENDRIL_API_END
