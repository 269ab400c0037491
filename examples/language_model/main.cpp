// A language model whose embedding table and decoder live on a parameter server ("ps", rank 0) and whose LSTM lives on
// the trainer (rank 1), after PyTorch's tutorial "Getting started with distributed RPC framework". With more trainers
// all parameters live on the server (shared_model.h).
#include <tendril/dist/autograd/backward.h>
#include <tendril/dist/autograd/context.h>
#include <tendril/dist/optimizer.h>
#include <tendril/nn/optim/sgd.h>
#include <tendril/rpc/group.h>
#include <tendril/rpc/launch.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <optional>
#include <span>
#include <string>

#include "../support/device.h"
#include "alone.h"
#include "evaluate.h"
#include "options.h"
#include "report.h"
#include "shared_model.h"

namespace language_model {

namespace optim = tendril::optim;

namespace {

std::string name_of(int rank, const Options& options) {
  return rank == 0 ? "ps" : options.trainers() > 1 ? "trainer" + std::to_string(rank) : "trainer";
}

/// The part of the corpus that a trainer reads: all have as many batches.
std::span<const Batch> share_of(const Corpus& corpus, int rank, const Options& options) {
  const auto count = corpus.train.size() / static_cast<std::size_t>(options.trainers());
  TENDRIL_CHECK(count > 0, "expected at least a batch for each trainer, got ", corpus.train.size(), " for ",
                options.trainers());
  return std::span(corpus.train).subspan(static_cast<std::size_t>(rank - 1) * count, count);
}

/// Of a trainer that dies meanwhile the others hear at once.
void wait_for_trainers(const Options& options) {
  std::vector<std::string> names;
  for (int rank = 1; rank < options.world_size; ++rank) names.push_back(name_of(rank, options));
  if (names.size() > 1) rpc::barrier(names, std::chrono::hours(24));
}

/// Rank 1 also reports, and sees after each epoch, while the others wait, how much was learnt.
template <class Model>
void run_trainer(int rank, Options options) {
  const Corpus corpus = make_corpus(options);
  Model model("ps", options);
  dist::DistributedOptimizer<optim::SGD> opt(model.parameter_rrefs(), {.lr = options.lr},
                                             {.hogwild = options.trainers() > 1});
  std::optional<Report> report;
  if (rank == 1) report.emplace(options);
  const auto requests = [] {
    const auto metrics = rpc::default_agent()->metrics();
    return metrics.requests_sent + metrics.requests_received;
  };
  std::uint64_t sent = 0;  // while it learns, not while it looks at what is kept aside
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    nn::LSTMState hidden;  // zeros
    const auto before = requests();
    for (const auto& [data, target] : share_of(corpus, rank, options)) {
      dist::autograd::Context ctx;  // its id travels with every call made here
      const auto [output, state] = model.forward(data, hidden);
      const Tensor loss = tendril::cross_entropy(output, target);
      dist::autograd::backward(ctx, {loss});
      if (options.clip > 0) opt.clip_grad_norm_(ctx, options.clip);
      opt.step(ctx);
      hidden = detached(state);
      if (report) report->iteration(loss.item<double>());
    }
    sent += requests() - before;
    wait_for_trainers(options);
    if (report) report->epoch(valid_loss(model, corpus));
    wait_for_trainers(options);
  }
  if (!report) return;
  if (options.samples > 0) std::printf("\n%s\n", sample(model, corpus, options).c_str());
  report->finish(sent);
}

}  // namespace

/// What each process of the group does, whoever started it. The parameter server waits in shutdown() and serves until
/// the trainers are done.
void run_worker(int rank, const Options& options) {
  if (options.world_size == 1) return run_alone(options);
  tendril::set_default_device(examples::device_of(options.device));
  rpc::init_rpc(name_of(rank, options));
  if (rank > 0) options.trainers() > 1 ? run_trainer<SharedModel>(rank, options) : run_trainer<RNNModel>(rank, options);
  rpc::shutdown();
}

}  // namespace language_model

int main(int argc, char** argv) {
  int status = 0;
  const auto options = language_model::parse_options(argc, argv, status);
  if (!options) return status;
  try {
    tendril::rpc::launch<&language_model::run_worker>(argc, argv, options->launch, *options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
