#pragma once

#include <tendril/dist/autograd/context.h>
#include <tendril/dist/collectives/process_group.h>
#include <tendril/nn/checkpoint.h>
#include <tendril/nn/optim/lr_scheduler.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "../progress.h"
#include "corpus.h"
#include "evaluate.h"
#include "generators.h"
#include "report.h"
#include "stop.h"
#include "whole_model.h"

namespace language_model {

/// What surrounds a trainer's loop: which batches are its own, reports and samples, checkpoints, the end on SIGTERM.
///
///     Run run(rank, options, corpus, model, optimizer);
///     while (run.next_epoch()) {
///       for (const auto& [data, target] : run.batches()) {
///         ...                                            // goes on from run.hidden, and sets it
///         if (!run.iteration(loss)) break;
///       }
///       run.end_epoch();
///     }
///     run.finish();
class Run {
 public:
  /// Trainer `rank`, or 0: alone. Refers to all of them. Trainer 1 (or who is alone) also reports, and looks after each
  /// epoch at how much was learnt, while the others wait. Of a trainer that dies they hear at once.
  template <class Model, class Optimizer>
  Run(int rank, const Options& options, const Corpus& corpus, Model& model, Optimizer& optimizer);

  /// The rate falls where what is kept aside is no better after an epoch. Not for several trainers that share a model:
  /// from epoch to epoch it is better or worse by chance. Before the first epoch.
  void anneal(tendril::optim::lr_scheduler::ReduceLROnPlateau& schedule) {
    shared_.emplace_back("schedule", schedule);
    if (options_.trainers() <= 1) on_valid_ = [&schedule](double loss) { schedule.step(loss); };
  }

  /// Whether there is one; the first time goes on from a checkpoint. One of another number of workers has no places in
  /// the text for these: an epoch in whose middle it was begins anew.
  bool next_epoch();
  /// What this trainer has yet to read in it: all trainers have as many.
  std::span<const Batch> batches() const { return share_.subspan(static_cast<std::size_t>(report_.iterations)); }
  /// The first time writes the graph of the iteration, on all workers, to the file that the options name, if any.
  void draw(const tendril::dist::autograd::Context& context, const tendril::Tensor& loss);
  /// False: leave the loop, the run is to stop.
  bool iteration(double loss);
  /// Evaluates and saves, or saves and stops.
  void end_epoch();
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
  Run(int rank, const Options& options, const Corpus& corpus, nn::Module& here);
  bool reports() const { return rank_ <= 1; }
  bool alone() const { return rank_ == 0; }
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
  std::optional<tendril::dist::ProcessGroup> trainers_;
  Report report_;
  double best_;  // loss of what is kept aside, of the model that was saved
  Generators generators_;
  nn::CheckpointParts shared_, own_, each_;  // dist::WorkerParts
  std::function<void(double)> on_valid_;     // where this one reports and something is kept aside
  std::shared_ptr<void> whole_;              // the model, of which own_ is
  std::function<std::optional<double>()> valid_;
  std::function<std::string()> sample_;
  std::function<tendril::StateDict()> weights_;
  std::optional<examples::Progress> progress_;
  std::optional<StopTogether> stop_;
  bool began_ = false, drawn_ = false, stopped_ = false;
  std::uint64_t before_ = 0, sent_ = 0;  // RPCs while it learns, not while it looks at what is kept aside
};

template <class Model, class Optimizer>
Run::Run(int rank, const Options& options, const Corpus& corpus, Model& model, Optimizer& optimizer)
    : Run(rank, options, corpus, here(model)) {
  shared_.emplace_back("optimizer", optimizer);  // trainer 1's: all take their steps by the same options
  if (!reports()) return;
  for_each_part(model, [this](const std::string&, auto& part) {
    if constexpr (requires { part.module_rref(); }) generators_.add(part.module_rref());
  });
  const auto whole = std::make_shared<WholeModel<Model>>(model);
  whole_ = whole;
  own_.emplace_back("model", *whole);
  valid_ = [&] { return valid_loss(model, corpus); };
  sample_ = [&] { return sample(model, corpus, options); };
  weights_ = [whole] {  // under the names of PyTorch's word_language_model: encoder.weight, rnn.weight_ih_l0, ...
    tendril::StateDict named;
    for (const auto& [name, tensor] : whole->state_dict()) named.insert(name.substr(name.find('.') + 1), tensor);
    return named;
  };
}

}  // namespace language_model
