#include "options.h"

#include "../support/flags.h"

namespace language_model {

std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status) {
  constexpr examples::Range<std::int64_t> kSize{1, 1'000'000};
  Options options;
  bool tiny = false;
  std::string resume = "no";
  examples::Flags flags("language_model",
                        "Trains an LSTM language model whose embedding and decoder live on a parameter server.");
  flags.add("--world-size", options.world_size, {1, 64},
            "A parameter server and one trainer or more, which share all parameters; 1: one process, no RPC");
  flags.add("--epochs", options.epochs, kSize, "Times through the corpus");
  flags.add("--seed", options.seed, {0, std::int64_t{1} << 40}, "Random seed");
  flags.add("--lr", options.lr, {0, 1e6}, "Learning rate of SGD");
  flags.add("--dropout", options.dropout, {0, 1}, "Dropout of embeddings, between LSTM layers and before the decoder");
  flags.add("--data", options.data, "A text to learn: a file, or a folder of train.txt and valid.txt");
  flags.add("--tokens", options.tokens, {0, std::int64_t{1} << 40}, "Without a text: length of the one that is made");
  flags.add("--batch,--batch-size", options.batch, kSize, "Sequences side by side");
  flags.add("--bptt", options.bptt, kSize, "Tokens of a sequence in one iteration");
  flags.add("--ntoken", options.ntoken, kSize, "Without a text: size of the vocabulary");
  flags.add("--ninp,--emsize", options.ninp, kSize, "Size of a word vector");
  flags.add("--model", options.model, {"LSTM", "GRU", "RNN_TANH", "RNN_RELU"}, "What reads the words");
  flags.add("--nhid", options.nhid, kSize, "Size of its hidden state");
  flags.add("--nlayers", options.nlayers, kSize, "Its layers");
  flags.add("--losses", options.losses, "Write the loss of every iteration to this file");
  flags.add("--logdir", options.logdir, "A folder for TensorBoard's curves");
  flags.add("--samples", options.samples, {0, kSize.high}, "Words to write after training on a text");
  flags.add("--temperature", options.temperature, {0, 100}, "Of what is written: 0 takes the likeliest word");
  flags.add("--clip", options.clip, {0, 1e9}, "Longest gradient, 0 for any");
  flags.add("--checkpoint", options.checkpoint, "Written after each epoch and on SIGTERM or Ctrl-C (--world-size 1)");
  flags.add("--resume", resume, {"no", "auto"}, "auto: go on from the checkpoint, if it is there");
  flags.add_device(options.device, "Where both workers compute: cpu, cuda or cuda:N");
  flags.add("--tiny", tiny, "Two times through a corpus of 500 tokens: done at once");
  flags.add_launch(options.launch);
  const auto status = flags.parse(argc, argv, [&] {
    if (tiny && !flags.given("--epochs")) options.epochs = 2;
    if (tiny && !flags.given("--tokens")) options.tokens = 500;
    options.resume = resume == "auto";
    if (options.resume && options.checkpoint.empty()) throw examples::FlagError("--resume", "needs --checkpoint");
    if (options.world_size != 1 && !options.checkpoint.empty())
      throw examples::FlagError("--checkpoint", "needs --world-size 1");
    if (options.trainers() > 1 && options.device != "cpu")
      throw examples::FlagError("--device", "expected cpu with more than one trainer, got " + options.device);
    for (const char* flag : {"--tokens", "--ntoken"})
      if (!options.data.empty() && flags.given(flag)) throw examples::FlagError(flag, "not beside --data");
    if (options.data.empty() && options.samples > 0) throw examples::FlagError("--samples", "needs --data");
    const std::int64_t least = options.batch * (options.bptt + 1);
    if (options.data.empty() && options.tokens < least)
      throw examples::FlagError("--tokens", "expected at least batch x (bptt + 1) = " + std::to_string(least) +
                                                ", got " + std::to_string(options.tokens));
    options.launch.world_size = options.world_size;
  });
  exit_status = status.value_or(0);
  return status ? std::nullopt : std::optional(options);
}

}  // namespace language_model
