#pragma once

#include <tendril/dist/autograd/context.h>
#include <tendril/dist/checkpoint/checkpoint.h>
#include <tendril/dist/collectives/process_group.h>
#include <tendril/nn/optim/lr_scheduler.h>

#include <chrono>
#include <concepts>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "../support/progress.h"
#include "corpus.h"
#include "evaluate.h"
#include "generators.h"
#include "report.h"

namespace language_model {

/// Everything around a trainer's loop: its share of the batches, reports, samples, checkpoints, stopping on SIGTERM.
///
///     Run run(rank, options, corpus, model, optimizer, schedule);
///     while (run.next_epoch()) {
///       if (run.epoch_begins()) run.hidden = run.zero_state();
///       for (const auto& [data, target] : run.batches()) {
///         ...                                            // starts from run.hidden and updates it
///         if (!run.iteration(loss)) break;
///       }
///       run.end_epoch([&](double loss) { schedule.step(loss); });
///     }
///     run.finish();
class Run {
 public:
  /// For trainer `rank`, or 0 if there is only one process. Keeps references to all arguments; checkpoints include the
  /// optimizer and the schedule. Trainer 1, or the single process, also prints reports and evaluates after each epoch
  /// while the other trainers wait. If a trainer dies, waiting trainers fail immediately.
  template <class Model, class Optimizer>
  Run(int rank, const Options& options, const Corpus& corpus, Model& model, Optimizer& optimizer,
      optim::lr_scheduler::ReduceLROnPlateau& schedule);

  /// Returns whether an epoch is left. The first call loads the checkpoint, if any. A checkpoint from another number of
  /// trainers has no matching positions in the text, so an interrupted epoch starts over.
  bool next_epoch();
  /// False if this epoch is resumed in the middle from a checkpoint.
  bool epoch_begins() const { return report_.iterations == 0; }
  nn::LSTMState zero_state() const;
  /// The remaining batches of this trainer's share. All shares have the same size.
  std::span<const Batch> batches() const { return share_.subspan(static_cast<std::size_t>(report_.iterations)); }
  /// The first call writes the iteration's graph on all workers to the file of --graph, if given.
  void draw(const dist::autograd::Context& context, const tendril::Tensor& loss);
  /// Records the loss. Returns false if the run was asked to stop; then leave the loop.
  bool iteration(double loss);
  /// Evaluates and saves, or saves and stops. With one trainer, calls `learn` with the held-out loss before saving. Not
  /// with several trainers, whose held-out loss fluctuates from epoch to epoch.
  void end_epoch(const std::function<void(double)>& learn);
  /// Prints samples and a summary.
  void finish();

 private:
  /// The LSTM's state at the start of the next batch.
  struct Hidden : nn::Module {
    explicit Hidden(const Options& options);
    nn::LSTMState state;
  };
  Hidden hidden_;

 public:
  nn::LSTMState& hidden = hidden_.state;

 private:
  /// All parts of a model, local or remote, as one part of a checkpoint with the names of the single-process model. A
  /// model with other placements can load it too.
  struct Parts {
    nn::CheckpointParts all;
    StateDict state_dict() const;
    void load_state_dict(const StateDict& dict, const LoadOptions& options);
  };

  Run(int rank, const Options& options, const Corpus& corpus);
  bool reports() const { return rank_ <= 1; }
  bool alone() const { return rank_ == 0; }
  /// Whether this worker received SIGTERM or Ctrl-C, or another one that told the parameter server. Each trainer
  /// queries the server ten times per second, so a signal to any process stops all of them.
  bool stop_wanted();
  /// Returns whether `mine` is true on any trainer. Blocks until all trainers have called it.
  bool any(bool mine);
  nn::CheckpointParts all_parts() const;
  void load();
  void save();
  void save_best(std::optional<double> valid);
  std::uint64_t requests() const;

  const int rank_;
  const Options& options_;
  const std::span<const Batch> share_;
  std::optional<dist::ProcessGroup> trainers_;
  Report report_;
  double best_;  // held-out loss of the saved model
  Generators generators_;
  Parts whole_;  // the model's parts, if it has several
  dist::WorkerParts parts_;
  std::function<std::optional<double>()> valid_;  // only on the reporting trainer
  std::function<std::string()> sample_;
  std::optional<examples::Progress> progress_;
  std::chrono::steady_clock::time_point asked_;  // last query of the server for a stop
  bool began_ = false, drawn_ = false, stopped_ = false;
  std::uint64_t before_ = 0, sent_ = 0;  // RPCs during training, excluding evaluation
};

template <class Model, class Optimizer>
Run::Run(int rank, const Options& options, const Corpus& corpus, Model& model, Optimizer& optimizer,
         optim::lr_scheduler::ReduceLROnPlateau& schedule)
    : Run(rank, options, corpus) {
  parts_.shared.emplace_back("optimizer", optimizer);  // trainer 1's, because all trainers use the same options
  parts_.shared.emplace_back("schedule", schedule);
  if constexpr (std::derived_from<Model, nn::Module>)
    generators_.add(model);
  else
    generators_.add(model.rnn);
  if (!reports()) return;
  if constexpr (requires { model.served; }) {
    parts_.own = {{"model", model.served}};
    generators_.add(model.served);
  } else {
    whole_.all = {{"embedding", model.embedding}, {"rnn", model.rnn}, {"decoder", model.decoder}};
    parts_.own = {{"model", whole_}};
    if constexpr (!std::derived_from<Model, nn::Module>)
      generators_.add(model.embedding), generators_.add(model.decoder);
  }
  valid_ = [&] { return valid_loss(model, corpus); };
  sample_ = [&] { return sample(model, corpus, options); };
}

}  // namespace language_model
