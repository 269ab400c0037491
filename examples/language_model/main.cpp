// A language model whose embedding table and decoder live on a parameter server ("ps", rank 0) and whose LSTM lives on
// the trainer (rank 1), after PyTorch's tutorial "Getting started with distributed RPC framework".
#include <tendril/dist/autograd/backward.h>
#include <tendril/dist/autograd/context.h>
#include <tendril/dist/optimizer.h>
#include <tendril/nn/optim/sgd.h>
#include <tendril/rpc/group.h>
#include <tendril/rpc/launch.h>

#include <cstdio>
#include <exception>

#include "../support/device.h"
#include "alone.h"
#include "evaluate.h"
#include "options.h"
#include "report.h"

namespace language_model {

namespace optim = tendril::optim;

namespace {

void run_trainer(Options options) {
  const Corpus corpus = make_corpus(options);
  RNNModel model("ps", options);
  dist::DistributedOptimizer<optim::SGD> opt(model.parameter_rrefs(), {.lr = options.lr});
  Report report(options);
  const auto requests = [] {
    const auto metrics = rpc::default_agent()->metrics();
    return metrics.requests_sent + metrics.requests_received;
  };
  std::uint64_t sent = 0;  // while it learns, not while it looks at what is kept aside
  while (report.epochs < options.epochs) {
    nn::LSTMState hidden;  // zeros
    const auto before = requests();
    for (const auto& [data, target] : corpus.train) {
      dist::autograd::Context ctx;  // its id travels with every call made here
      const auto [output, state] = model.forward(data, hidden);
      const Tensor loss = tendril::cross_entropy(output, target);
      dist::autograd::backward(ctx, {loss});
      opt.step(ctx);
      hidden = detached(state);
      report.iteration(loss.item<double>());
    }
    sent += requests() - before;
    report.epoch(valid_loss(model, corpus));
  }
  if (options.samples > 0) std::printf("\n%s\n", sample(model, corpus, options).c_str());
  report.finish(sent);
}

}  // namespace

/// What each process of the group does, whoever started it. The parameter server waits in shutdown() and serves until
/// the trainer is done.
void run_worker(int rank, const Options& options) {
  if (options.world_size == 1) return run_alone(options);
  tendril::set_default_device(examples::device_of(options.device));
  rpc::init_rpc(rank == 0 ? "ps" : "trainer");
  if (rank == 1) run_trainer(options);
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
