#include "options.h"

#include "../support/flags.h"

namespace transformer {

std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status) {
  constexpr std::int64_t kMany = 1'000'000'000;
  Options options;
  examples::Flags flags("transformer", "Trains a character-level GPT on a text and prints samples while it trains.");
  flags.add("--text", options.text, "UTF-8 file to train on; default: generated sums");
  flags.add("--steps", options.steps, {1, kMany}, "Training steps");
  flags.add_batch_size(options.batch_size, "Pieces of text per step");
  flags.add("--context", options.context, {1, 1 << 16}, "Characters per piece");
  flags.add("--layers", options.layers, {1, 1000}, "Transformer layers");
  flags.add("--heads", options.heads, {1, 1000}, "Attention heads per layer");
  flags.add("--embedding", options.embedding, {1, 1 << 16}, "Size of a character's vector; a multiple of --heads");
  flags.add_dropout(options.dropout, {0, 1, true}, "Dropout in the layers");
  flags.add_learning_rate(options.lr, "Highest learning rate of AdamW, between a warm-up and a cosine decay");
  flags.add_clip(options.clip);
  flags.add_seed(options.seed);
  flags.add("--sample-every", options.sample_every, {1, kMany}, "Steps between samples, evaluations and checkpoints");
  flags.add("--sample-length", options.sample_length, {0, kMany}, "Characters per sample");
  flags.add_temperature(options.temperature, "Sampling temperature; 0 always takes the most likely character");
  flags.add("--prompt", options.prompt, "Start of each sample; default: the start of the held-out text");
  flags.add_device(options.device, "Device of the model: cpu, cuda or cuda:N");
  flags.add_checkpoint(options.checkpoint, options.resume, "with each sample");
  flags.add_logdir(options.logdir);
  return flags.parse(argc, argv, options, exit_status, [&] {
    options.effective = flags.effective();
    if (options.embedding % options.heads != 0)
      throw examples::FlagError("--embedding", "expected a multiple of --heads = " + std::to_string(options.heads) +
                                                   ", got " + std::to_string(options.embedding));
  });
}

}  // namespace transformer
