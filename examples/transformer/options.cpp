#include "options.h"

#include "../support/flags.h"

namespace transformer {

std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status) {
  constexpr std::int64_t kMany = 1'000'000'000;
  Options options;
  examples::Flags flags("transformer", "A character-level GPT: learns a text, and writes more of it while it learns.");
  flags.add("--text", options.text, "A UTF-8 file to learn from; without, the program makes sums");
  flags.add("--steps", options.steps, {1, kMany}, "Steps of training");
  flags.add_batch_size(options.batch_size, "Pieces of the text in one step");
  flags.add("--context", options.context, {1, 1 << 16}, "Characters of a piece");
  flags.add("--layers", options.layers, {1, 1000}, "Transformer layers");
  flags.add("--heads", options.heads, {1, 1000}, "Heads of attention in a layer");
  flags.add("--embedding", options.embedding, {1, 1 << 16}, "Size of a character's vector; a multiple of --heads");
  flags.add_dropout(options.dropout, {0, 1, true}, "Dropout in the layers");
  flags.add_learning_rate(options.lr, "Highest learning rate of AdamW: after a warm-up, before a cosine");
  flags.add_clip(options.clip);
  flags.add_seed(options.seed);
  flags.add("--sample-every", options.sample_every, {1, kMany}, "Steps between samples, evaluations and checkpoints");
  flags.add("--sample-length", options.sample_length, {0, kMany}, "Characters of a sample");
  flags.add_temperature(options.temperature, "Of samples: 0 takes the likeliest character");
  flags.add("--prompt", options.prompt, "What samples begin with");
  flags.add_device(options.device, "Where the model computes: cpu, cuda or cuda:N");
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
