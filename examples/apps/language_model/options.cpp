#include "options.h"

#include <chrono>

#include "../support/flags.h"
#include "../support/progress.h"

namespace language_model {

std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status) {
  constexpr examples::Range<std::int64_t> kSize{1, 1'000'000};
  Options options;
  bool tiny = false, cuda = false;
  examples::Flags flags("language_model",
                        "Trains an LSTM language model whose embedding and decoder live on a parameter server.");
  flags.add_world_size(options.world_size, 64, "Number of processes: one parameter server and the trainers; 1: no RPC");
  flags.add_epochs(options.epochs, "Passes over the corpus");
  flags.add_seed(options.seed);
  flags.add_learning_rate(options.lr, "Learning rate of SGD");
  flags.add_dropout(options.dropout, {0, 1}, "Dropout of embeddings, between LSTM layers and before the decoder");
  flags.add_data(options.data, "Text to train on: a file, or a folder with train.txt and valid.txt");
  flags.add("--tokens", options.tokens, {0, std::int64_t{1} << 40}, "Without a text: length of the generated corpus");
  flags.add_batch_size(options.batch, "Parallel sequences");
  flags.add("--bptt", options.bptt, kSize, "Tokens per sequence and iteration");
  flags.add("--ntoken", options.ntoken, kSize, "Without a text: size of the vocabulary");
  flags.add("--ninp,--emsize", options.ninp, kSize, "Size of a word vector");
  flags.add_model(options.model, {"LSTM", "GRU", "RNN_TANH", "RNN_RELU", "Transformer"},
                  "Model between embedding and decoder");
  flags.add("--nhid", options.nhid, kSize, "Size of the hidden state, or of a Transformer's feed-forward part");
  flags.add("--nlayers", options.nlayers, kSize, "Layers of the model");
  flags.add("--nhead", options.nhead, kSize, "Attention heads of a Transformer; must divide --ninp");
  flags.add("--tied", options.tied, "Share the decoder's weight with the embedding");
  const auto trainer = [&] { return options.world_size == 1 ? 0 : 1; };
  flags.add_graph(options.graph, "iteration", trainer);
  flags.add_output("--losses", options.losses, "Write the loss of every iteration to this file",
                   [trainer] { return examples::Output{.writer = trainer()}; });
  flags.add_logdir(options.logdir, trainer);
  flags.add("--samples", options.samples, {0, kSize.high}, "Words to generate after training on a text");
  flags.add_temperature(options.temperature, "Sampling temperature; 0 always takes the most likely word");
  flags.add_clip(options.clip);
  flags.add_log_interval(options.log_interval, {0, kSize.high},
                         "Iterations between status lines within an epoch; 0: none");
  flags.add("--dry-run", options.dry_run, "One iteration of one epoch, to check that everything works");
  flags.add_output("--save", options.save, "Write the weights with the lowest held-out loss to this safetensors file",
                   [trainer] { return examples::Output{.replaced = true, .writer = trainer()}; });
  flags.add_checkpoint(options.checkpoint, options.resume, "after each epoch (a folder with several workers)", [&] {
    if (options.world_size == 1) return examples::Output{.replaced = true};
    return examples::Output{.endings = {"/index"}, .makes_folders = true, .replaced = true, .writer = 1};
  });
  flags.add_device(options.device, "Device of both workers: cpu, cuda or cuda:N");
  flags.add("--cuda", cuda, "Same as --device cuda");
  flags.add_tiny(tiny, "A short run: two passes over a corpus of 500 tokens");
  flags.add_launch(options.launch);
  auto read = flags.parse(argc, argv, options, exit_status, [&] {
    if (tiny && !flags.given("--epochs")) flags.imply("--epochs", options.epochs, 2);
    if (tiny && !flags.given("--tokens")) flags.imply("--tokens", options.tokens, 500);
    if (options.dry_run && !flags.given("--epochs")) flags.imply("--epochs", options.epochs, 1);
    if (cuda && flags.given("--device")) throw examples::FlagError("--cuda", "not beside --device");
    if (cuda) flags.imply("--device", options.device, "cuda");
    if (!options.graph.empty() && options.world_size == 1)
      throw examples::FlagError("--graph", "of several workers: expected --world-size 2 or more, got 1");
    if (options.resume && options.checkpoint.empty()) throw examples::FlagError("--resume", "needs --checkpoint");
    if (options.model == "Transformer" && options.ninp % options.nhead != 0)
      throw examples::FlagError("--ninp", "expected a multiple of --nhead = " + std::to_string(options.nhead) +
                                              ", got " + std::to_string(options.ninp));
    if (options.tied && options.width() != options.ninp)
      throw examples::FlagError("--tied", "expected --nhid to be --ninp = " + std::to_string(options.ninp) + ", got " +
                                              std::to_string(options.nhid));
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
    if (!options.checkpoint.empty()) options.launch.grace = std::chrono::minutes(1);  // time to save
    options.effective = flags.effective();
  });
  if (read && !options.checkpoint.empty()) examples::catch_stop_signals();
  return read;
}

}  // namespace language_model
