#include "alone.h"

#include <tendril/nn/checkpoint.h>
#include <tendril/nn/optim/lr_scheduler.h>
#include <tendril/nn/optim/sgd.h>
#include <tendril/nn/utils/clip_grad.h>

#include <cstdio>
#include <filesystem>

#include "../support/device.h"
#include "../support/progress.h"
#include "evaluate.h"
#include "report.h"

namespace language_model {

namespace optim = tendril::optim;

namespace {

/// The LSTM's state, which the next batch begins with: a part of the checkpoint.
struct Hidden : nn::Module {
  explicit Hidden(const Options& options)
      : state{tendril::zeros({options.nlayers, options.batch, options.nhid}),
              tendril::zeros({options.nlayers, options.batch, options.nhid})} {
    register_buffer("h", state.h);
    register_buffer("c", state.c);
  }
  nn::LSTMState state;
};

}  // namespace

void run_alone(Options options) {
  tendril::set_default_device(examples::device_of(options.device));
  if (!options.checkpoint.empty()) examples::catch_stop_signals();
  const Corpus corpus = make_corpus(options);
  LocalModel model(options);
  optim::SGD opt(model.parameters(), {.lr = options.lr});
  optim::lr_scheduler::ReduceLROnPlateau schedule(opt, {.factor = 0.25, .patience = 0, .threshold = 0});
  Hidden hidden(options);
  Report report(options);
  const auto [embedding, rnn, decoder] = model.generators();
  const nn::CheckpointParts parts = {{"model", model},
                                     {"optimizer", opt},
                                     {"schedule", schedule},
                                     {"hidden", hidden},
                                     {"embedding", *embedding},
                                     {"rnn", *rnn},
                                     {"decoder", *decoder},
                                     {"epochs", report.epochs},
                                     {"iterations", report.iterations},
                                     {"loss_sum", report.loss_sum},
                                     {"first_loss", report.first_loss}};
  if (options.resume && std::filesystem::exists(options.checkpoint)) nn::load_checkpoint(options.checkpoint, parts);

  const auto count = static_cast<std::int64_t>(corpus.train.size());
  examples::Progress progress("iterations", options.epochs * count, report.epochs * count + report.iterations);
  while (report.epochs < options.epochs) {
    if (report.iterations == 0) hidden.state.h.zero_(), hidden.state.c.zero_();
    while (report.iterations < count) {
      const auto& [data, target] = corpus.train[static_cast<std::size_t>(report.iterations)];
      opt.zero_grad();
      const auto [output, state] = model.forward(data, hidden.state);
      const Tensor loss = tendril::cross_entropy(output, target);
      loss.backward();
      if (options.clip > 0) nn::utils::clip_grad_norm_(model.parameters(), options.clip);
      opt.step();
      hidden.state = detached(state);
      report.iteration(loss.item<double>());
      progress.advance();
      if (!examples::stop_wanted()) continue;
      progress.clear();
      nn::save_checkpoint(options.checkpoint, parts);
      std::printf("Stopped. --resume auto goes on from %s\n", options.checkpoint.c_str());
      return;
    }
    progress.clear();
    const auto valid = valid_loss(model, corpus);
    if (valid) schedule.step(*valid);
    report.epoch(valid);
    if (!options.checkpoint.empty()) nn::save_checkpoint(options.checkpoint, parts);
  }
  if (options.samples > 0) std::printf("\n%s\n", sample(model, corpus, options).c_str());
  report.finish(0);
}

}  // namespace language_model
