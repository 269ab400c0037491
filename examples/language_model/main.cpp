// A language model over RPC: the embedding table and the decoder are on a parameter server (rank 0), the LSTM is on the
// trainer (rank 1). Based on PyTorch's tutorial "Getting started with distributed RPC framework".
// ../apps/language_model trains on text, with several trainers, checkpoints and other models.
#include <tendril/tendril.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

using namespace tendril;

constexpr std::int64_t kWords = 50, kEmbedding = 32, kHidden = 64;  // vocabulary and layer sizes
constexpr std::int64_t kSteps = 20, kBatch = 16;                    // words in a sequence, sequences in a batch
constexpr int kBatches = 50;                                        // per epoch

struct Options {
  int epochs = 10;
  double lr = 0.5;
  std::int64_t seed = 1;

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& epochs& lr& seed;
  }
};

struct EmbeddingTable : nn::Module {
  nn::Embedding encoder{kWords, kEmbedding};
  nn::Dropout drop{0.1};
  TENDRIL_MEMBERS(encoder, drop)

  EmbeddingTable() { nn::init::uniform_(encoder.weight, -0.1, 0.1); }

  Tensor forward(const Tensor& input) const { return drop(encoder(input)); }
};

struct Decoder : nn::Module {
  nn::Dropout drop{0.1};
  nn::Linear decoder{kHidden, kWords};
  TENDRIL_MEMBERS(drop, decoder)

  Tensor forward(const Tensor& output) const { return decoder(drop(output)); }
};

struct RNNModel {
  dist::RemoteModule<EmbeddingTable> emb_table{"ps"};
  nn::LSTM rnn{kEmbedding, kHidden};
  dist::RemoteModule<Decoder> decoder{"ps"};

  // The first and the last line are remote calls. Autograd records both.
  std::pair<Tensor, nn::LSTMState> forward(const Tensor& input, const nn::LSTMState& hidden) const {
    const Tensor emb = emb_table.forward(input);
    const auto [output, new_hidden] = rnn(emb, hidden);
    return {decoder.forward(output), new_hidden};
  }

  std::vector<rpc::RRef<Tensor>> parameter_rrefs() const {
    std::vector<rpc::RRef<Tensor>> all = emb_table.remote_parameters();
    for (const auto& param : dist::parameter_rrefs(rnn)) all.push_back(param);
    for (const auto& param : decoder.remote_parameters()) all.push_back(param);
    return all;
  }
};

// Word t of a sequence is (start + t * stride) mod kWords. The model must infer the stride.
std::pair<Tensor, Tensor> next_batch() {
  const Tensor start = randint(0, kWords, {kBatch});
  const Tensor stride = randint(1, 4, {kBatch});
  const Tensor t = arange(kSteps + 1).unsqueeze(1);
  const Tensor words = (start + t * stride).remainder(kWords);
  return {words.narrow(0, 0, kSteps), words.narrow(0, 1, kSteps)};
}

void run_trainer(const Options& options) {
  const RNNModel model;
  dist::DistributedOptimizer<optim::SGD> opt(model.parameter_rrefs(), {.lr = options.lr, .momentum = 0.9});
  for (int epoch = 1; epoch <= options.epochs; ++epoch) {
    double total = 0;
    for (int batch = 0; batch < kBatches; ++batch) {
      const auto [data, target] = next_batch();
      const dist::autograd::Context context;
      const auto [output, hidden] = model.forward(data, {});
      const Tensor loss = cross_entropy(output.flatten(0, 1), target.flatten());
      dist::autograd::backward(context, {loss});
      opt.step(context);
      total += loss.item<double>();
    }
    std::printf("Training epoch %d\tloss %.3f\n", epoch, total / kBatches);
    std::fflush(stdout);
  }
}

void run_worker(int rank, const Options& options) {
  manual_seed(static_cast<std::uint64_t>(options.seed) + static_cast<std::uint64_t>(rank));
  rpc::init_rpc(rank == 0 ? "ps" : "trainer");
  if (rank == 1) run_trainer(options);
  rpc::shutdown();  // the parameter server serves the trainer until it is done
}

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Trains a language model whose embedding table and decoder are on a parameter server");
  app.option_defaults()->always_capture_default();
  app.add_option("--epochs", options.epochs, "number of epochs")->check(CLI::NonNegativeNumber);
  app.add_option("--lr", options.lr, "learning rate")->check(CLI::NonNegativeNumber);
  app.add_option("--seed", options.seed, "random seed")->check(CLI::NonNegativeNumber);
  CLI11_PARSE(app, argc, argv);
  rpc::launch<&run_worker>(argc, argv, {.world_size = 2}, options);
}
