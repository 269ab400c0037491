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

/// Recurrent layers that carry one state, as PyTorch's, with its parameters' names ("weight_ih_l0", "weight_hh_l0",
/// "bias_ih_l0", "bias_hh_l0", "..._reverse"). Initial values: uniform in +-1/sqrt(hidden_size).
namespace tendril::nn {

/// What a step applies.
enum class RNNNonlinearity : uint8_t {
  tanh,  ///< the hyperbolic tangent
  relu,  ///< max(x, 0)
};

struct RNNOptions {
  int64_t num_layers = 1;
  RNNNonlinearity nonlinearity = RNNNonlinearity::tanh;  ///< of RNN only
  bool bias = true;
  bool batch_first = false;  ///< input and output are [batch, steps, features]; states are not affected
  double dropout = 0;        ///< in training, on the output of each layer but the last
  bool bidirectional = false;
  DType dtype = kFloat32;
  Device device = default_device();
  Generator& generator = default_generator();  ///< for the initial values, and for dropout: must outlive the module
};

/// `auto [output, h_n] = gru(x, h_0);`
struct RNNResult {
  Tensor output;  ///< of the last layer: [steps, batch, hidden_size * directions]
  Tensor h_n;     ///< of every layer, after its last step: [layers * directions, batch, hidden_size]

  template <class Self, class F>
  static void for_each_tensor(Self& self, const F& f) {
    detail::for_each_tensor(self.output, f);
    detail::for_each_tensor(self.h_n, f);
  }
};

/// ... of sequences of different lengths.
struct PackedRNNResult {
  utils::PackedSequence output;  ///< packed as the input
  Tensor h_n;  ///< of every layer, after each sequence's own last step; in the order in which they were given

  template <class Self, class F>
  static void for_each_tensor(Self& self, const F& f) {
    detail::for_each_tensor(self.output, f);
    detail::for_each_tensor(self.h_n, f);
  }
};

/// What RNN and GRU share.
class RNNBase : public Module {
 public:
  /// x is [steps, batch, input_size], or [steps, input_size] for a batch of one. h_0 is [layers * directions, batch,
  /// hidden_size], without the batch for an x without; undefined: zeros.
  /// ShapeError for other sizes, no steps, or a state that does not fit; DTypeError for another dtype.
  RNNResult forward(const Tensor& x, const Tensor& h_0 = {}) const;
  RNNResult operator()(const Tensor& x, const Tensor& h_0 = {}) const;

  /// Packed sequences (nn/utils/rnn.h), each computed to its own end. h_0 is in the order in which the sequences were
  /// given. Errors as above, and as PackedSequence::check.
  PackedRNNResult forward(const utils::PackedSequence& x, const Tensor& h_0 = {}) const;
  PackedRNNResult operator()(const utils::PackedSequence& x, const Tensor& h_0 = {}) const;

  /// Draws the initial values anew.
  void reset_parameters(Generator& generator = default_generator());
  /// Numbers of each step.
  int64_t input_size() const noexcept { return input_size_; }
  /// Numbers of the state.
  int64_t hidden_size() const noexcept { return hidden_size_; }
  std::string extra_repr() const override;

 protected:
  /// A step from h, given what the input contributes to the gates, [batch, gates * hidden_size]: the next h.
  using Step = Tensor (*)(const Tensor& x_gates, const Tensor& h, const LstmWeights& weights);

  /// Throws Error unless the sizes and the number of layers are positive and dropout is in [0, 1].
  RNNBase(const char* op, Step step, int64_t gates, int64_t input_size, int64_t hidden_size, const RNNOptions& options);
  RNNBase(RNNBase&& from, const std::type_info& type, Extent object);

 private:
  int64_t directions() const noexcept { return bidirectional_ ? 2 : 1; }
  void check(const Tensor& x, const Tensor& h_0) const;
  void check_state(const Tensor& h_0, const Dims& batch, DType dtype) const;
  /// All layers over segments [steps, sequences, input_size]; the states with a batch.
  std::pair<std::vector<Tensor>, Tensor> run(std::vector<Tensor> segments, const Tensor& start) const;

  const char* op_;
  Step step_;
  int64_t input_size_, hidden_size_, num_layers_;
  bool batch_first_, bidirectional_;
  double dropout_;
  Generator* generator_;
  std::vector<LstmWeights> weights_;  // of layer l's forward direction at l * directions, its reverse after it
};

/// h <- tanh(W_ih x + b_ih + W_hh h + b_hh), or max(., 0) (Elman, "Finding Structure in Time", 1990).
class RNN : public Movable<RNN, RNNBase> {
 public:
  RNN(int64_t input_size, int64_t hidden_size, const RNNOptions& options = {});
};

/// Gated recurrent units (Cho et al., "Learning Phrase Representations", 2014, as PyTorch and cuDNN have it), of which
/// the weights hold the gates r, z, n below each other:
///     r = sigmoid(W_ir x + b_ir + W_hr h + b_hr),    z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
///     n = tanh(W_in x + b_in + r (W_hn h + b_hn)),   h <- (1 - z) n + z h
class GRU : public Movable<GRU, RNNBase> {
 public:
  GRU(int64_t input_size, int64_t hidden_size, const RNNOptions& options = {});
};

}  // namespace tendril::nn

TENDRIL_API_END
