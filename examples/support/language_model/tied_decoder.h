#pragma once

#include "../../language_model/model.h"

namespace language_model {

/// A decoder whose weight is the embedding's where --tied says so.
struct TiedDecoder : Decoder {
  TiedDecoder(const Options& options, const EmbeddingTable& table) : Decoder(options) {
    if (options.tied) decoder.weight = table.encoder.weight;
  }
  TiedDecoder(const Options& options, const rpc::RRef<EmbeddingTable>& table)
      : TiedDecoder(options, table.local_value()) {}
};

}  // namespace language_model
