#pragma once

#include <memory>

#include "../model.h"

namespace language_model {

/// The part between embedding and decoder: an LSTM or the model of --model. GRU and RNN have one state and leave the
/// cell state unchanged; a Transformer has no state and only reads the batch.
class Body : public Part {
 public:
  explicit Body(const Options& options);
  /// `input` is [steps, batch, ninp]; the output [steps, batch, options.width()].
  nn::LSTMResult forward(const Tensor& input, const nn::LSTMState& hidden) const;

 private:
  // Not std::optional: g++ 14 warns that emplace() in a constructor may destroy an object that was never constructed.
  std::unique_ptr<nn::LSTM> lstm_;
  std::unique_ptr<nn::GRU> gru_;
  std::unique_ptr<nn::RNN> rnn_;
  std::unique_ptr<nn::PositionalEncoding> positions_;
  std::unique_ptr<nn::TransformerEncoder> transformer_;
  double scale_;  ///< applied to the vectors before positions are added
};

/// A decoder that shares the embedding's weight with --tied.
struct TiedDecoder : Decoder {
  TiedDecoder(const Options& options, const EmbeddingTable& table) : Decoder(options) {
    if (options.tied) decoder.weight = table.encoder.weight;
  }
  TiedDecoder(const Options& options, const rpc::RRef<EmbeddingTable>& table)
      : TiedDecoder(options, table.local_value()) {}
};

}  // namespace language_model
