#pragma once

#include <cstdint>
#include <optional>
#include <string>

/// The command line of the transformer example.
namespace transformer {

struct Options {
  std::string text;  ///< File to train on; empty: generated sums.
  std::int64_t steps = 3000, batch_size = 32;
  std::int64_t context = 64;  ///< Characters that a prediction may depend on.
  std::int64_t layers = 3, heads = 4, embedding = 64;
  double dropout = 0.0, lr = 2e-3, clip = 1.0;
  std::int64_t seed = 1;
  std::int64_t sample_every = 500;  ///< Steps between samples, losses of the held-out text, and checkpoints.
  std::int64_t sample_length = 120;
  double temperature = 0.8;
  std::string prompt;  ///< Start of each sample; empty: the start of the held-out text.
  std::string device = "cpu";
  std::string checkpoint = "transformer.safetensors";
  bool resume = false;
  std::string logdir;     ///< TensorBoard folder for losses and samples; empty: none.
  std::string effective;  ///< All flags with their values.
};

std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status);

}  // namespace transformer
