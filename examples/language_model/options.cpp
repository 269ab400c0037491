#include "options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <vector>

#include "../device_flag.h"
#include "../launch_flags.h"

namespace language_model {
namespace {

// --world_size=2 -> --world-size=2
std::string with_dashes(std::string argument) {
  if (argument.rfind("--", 0) == 0)
    std::replace(argument.begin(), std::find(argument.begin(), argument.end(), '='), '_', '-');
  return argument;
}

// CLI::Range would print integers as floating-point numbers.
template <class T>
CLI::Validator between(T low, T high) {
  return {[low, high](std::string& text) {
            T value{};
            if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high) return std::string();
            std::ostringstream message;
            message << "expected a number from " << low << " to " << high << ", got " << text;
            return message.str();
          },
          ""};
}

}  // namespace

std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status) {
  using Integer = std::int64_t;
  Options options;
  CLI::App app{"Trains an LSTM language model whose embedding and decoder live on a parameter server.",
               "language_model"};
  app.option_defaults()->always_capture_default();
  app.add_option("--world-size", options.world_size, "2: a parameter server and a trainer; 1: one process, no RPC")
      ->check(between<Integer>(1, 2));
  auto* epochs =
      app.add_option("--epochs", options.epochs, "Times through the corpus")->check(between<Integer>(1, 1'000'000));
  app.add_option("--seed", options.seed, "Random seed")->check(between<Integer>(0, Integer{1} << 40));
  app.add_option("--lr", options.lr, "Learning rate of SGD")->check(between(0.0, 1e6));
  app.add_option("--dropout", options.dropout, "Dropout of embeddings, between LSTM layers and before the decoder")
      ->check(between(0.0, 1.0));
  auto* tokens = app.add_option("--tokens", options.tokens, "Length of the corpus");
  const auto add_size = [&](const char* flag, Integer& value, const char* help) {
    return app.add_option(flag, value, help)->check(between<Integer>(1, 1'000'000));
  };
  add_size("--batch", options.batch, "Sequences side by side");
  add_size("--bptt", options.bptt, "Tokens of a sequence in one iteration");
  add_size("--ntoken", options.ntoken, "Size of the vocabulary");
  add_size("--ninp", options.ninp, "Size of a word vector");
  add_size("--nhid", options.nhid, "Size of the LSTM's hidden state");
  add_size("--nlayers", options.nlayers, "Layers of the LSTM");
  app.add_option("--losses", options.losses, "Write the loss of every iteration to this file");
  examples::add_device_flag(app, options.device, "Where both workers compute: cpu, cuda or cuda:N");
  bool tiny = false;
  app.add_flag("--tiny", tiny, "Two times through a corpus of 500 tokens: done at once");
  examples::add_launch_flags(app, options.launch);
  try {
    std::vector<std::string> arguments;
    for (int i = argc - 1; i > 0; --i) arguments.push_back(with_dashes(argv[i]));  // CLI11 takes them last first
    app.parse(std::move(arguments));
    if (tiny && epochs->count() == 0) options.epochs = 2;
    if (tiny && tokens->count() == 0) options.tokens = 500;
    if (options.tokens < options.batch * (options.bptt + 1))
      throw CLI::ValidationError(
          "--tokens", "expected at least batch x (bptt + 1) = " + std::to_string(options.batch * (options.bptt + 1)) +
                          ", got " + std::to_string(options.tokens));
    options.launch.world_size = options.world_size;
  } catch (const CLI::ParseError& error) {
    exit_status = app.exit(error);
    return std::nullopt;
  }
  if (examples::device_is_missing(options.device, exit_status)) return std::nullopt;
  return options;
}

}  // namespace language_model
