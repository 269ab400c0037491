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

#include "../progress.h"
#include "corpus.h"
#include "evaluate.h"
#include "generators.h"
#include "report.h"

namespace language_model {

/// What surrounds a trainer's loop: which batches are its own, reports and samples, checkpoints, the end on SIGTERM.
///
///     Run run(rank, options, corpus, model, optimizer, schedule);
///     while (run.next_epoch()) {
///       if (run.epoch_begins()) run.hidden = run.zero_state();
///       for (const auto& [data, target] : run.batches()) {
///         ...                                            // goes on from run.hidden, and sets it
///         if (!run.iteration(loss)) break;
///       }
///       run.end_epoch([&](double loss) { schedule.step(loss); });
///     }
///     run.finish();
class Run {
 public:
  /// Trainer `rank`, or 0: alone. Refers to all of them; optimizer and schedule belong to its checkpoints. Trainer 1
  /// (or who is alone) also reports, and looks after each epoch at how much was learnt, while the others wait. Of a
  /// trainer that dies they hear at once.
  template <class Model, class Optimizer>
  Run(int rank, const Options& options, const Corpus& corpus, Model& model, Optimizer& optimizer,
      optim::lr_scheduler::ReduceLROnPlateau& schedule);

  /// Whether there is one; the first time goes on from a checkpoint. One of another number of workers has no places in
  /// the text for these: an epoch in whose middle it was begins anew.
  bool next_epoch();
  /// Not one in whose middle a checkpoint was made.
  bool epoch_begins() const { return report_.iterations == 0; }
  nn::LSTMState zero_state() const;
  /// What this trainer has yet to read in it: all trainers have as many.
  std::span<const Batch> batches() const { return share_.subspan(static_cast<std::size_t>(report_.iterations)); }
  /// The first time writes the graph of the iteration, on all workers, to the file that the options name, if any.
  void draw(const dist::autograd::Context& context, const tendril::Tensor& loss);
  /// False: leave the loop, the run is to stop.
  bool iteration(double loss);
  /// Evaluates and saves, or saves and stops. Between both, `learn` is given the held-out loss; not with several
  /// trainers that share a model, where it is better or worse by chance from epoch to epoch.
  void end_epoch(const std::function<void(double)>& learn);
  /// Samples and a summary.
  void finish();

 private:
  /// The LSTM's state, which the next batch begins with.
  struct Hidden : nn::Module {
    explicit Hidden(const Options& options);
    nn::LSTMState state;
  };
  Hidden hidden_;

 public:
  nn::LSTMState& hidden = hidden_.state;

 private:
  /// All parts of a model, wherever they live, under the names that they have in one process: one part of a checkpoint,
  /// which a model whose parts live elsewhere loads too.
  struct Parts {
    nn::CheckpointParts all;
    StateDict state_dict() const;
    void load_state_dict(const StateDict& dict, const LoadOptions& options);
  };

  Run(int rank, const Options& options, const Corpus& corpus);
  bool reports() const { return rank_ <= 1; }
  bool alone() const { return rank_ == 0; }
  /// Whether this worker is asked to stop (SIGTERM, Ctrl-C), or one that has told the parameter server, which hears
  /// from each trainer ten times a second: it does not matter whom the signal reached.
  bool stop_wanted();
  /// Whether any trainer says so; returns when all have said something.
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
  double best_;  // loss of the held-out text, of the model that was saved
  Generators generators_;
  Parts whole_;  // the model's, where it has several
  dist::WorkerParts parts_;
  std::function<std::optional<double>()> valid_;  // where this one reports and something is held out
  std::function<std::string()> sample_;
  std::optional<examples::Progress> progress_;
  std::chrono::steady_clock::time_point asked_;  // the server, whether to stop
  bool began_ = false, drawn_ = false, stopped_ = false;
  std::uint64_t before_ = 0, sent_ = 0;  // RPCs while it learns, not while it looks at the held-out text
};

template <class Model, class Optimizer>
Run::Run(int rank, const Options& options, const Corpus& corpus, Model& model, Optimizer& optimizer,
         optim::lr_scheduler::ReduceLROnPlateau& schedule)
    : Run(rank, options, corpus) {
  parts_.shared.emplace_back("optimizer", optimizer);  // trainer 1's: all take their steps by the same options
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
