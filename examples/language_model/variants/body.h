#pragma once

#include <memory>

#include "../model.h"

namespace language_model {

/// What lies between embedding and decoder: an LSTM, or what --model names. GRU and RNN carry one state and leave the
/// cell state as it was; a Transformer carries none and sees what is in the batch.
class Body : public Part {
 public:
  explicit Body(const Options& options);
  /// `input` is [steps, batch, ninp]; the output [steps, batch, options.width()].
  nn::LSTMResult forward(const Tensor& input, const nn::LSTMState& hidden) const;

 private:
  // Not std::optional: g++ 14 warns that emplace() in a constructor may destroy what never was.
  std::unique_ptr<nn::LSTM> lstm_;
  std::unique_ptr<nn::GRU> gru_;
  std::unique_ptr<nn::RNN> rnn_;
  std::unique_ptr<nn::PositionalEncoding> positions_;
  std::unique_ptr<nn::TransformerEncoder> transformer_;
  double scale_;  ///< of the vectors, before positions are added
};

/// A decoder whose weight is the embedding's where --tied says so.
struct TiedDecoder : Decoder {
  TiedDecoder(const Options& options, const EmbeddingTable& table) : Decoder(options) {
    if (options.tied) decoder.weight = table.encoder.weight;
  }
  TiedDecoder(const Options& options, const rpc::RRef<EmbeddingTable>& table)
      : TiedDecoder(options, table.local_value()) {}
};

}  // namespace language_model
