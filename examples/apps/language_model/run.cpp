#include "run.h"

#include <tendril/rpc/group.h>
#include <tendril/tensor/creation.h>
#include <tendril/tensor/error.h>
#include <tendril/tensor/files/safetensors.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <utility>

#include "../graphs/graph_picture.h"

namespace language_model {

namespace {

std::span<const Batch> share_of(const Corpus& corpus, int rank, const Options& options) {
  if (rank == 0) return corpus.train;
  const auto count = corpus.train.size() / static_cast<std::size_t>(options.trainers());
  TENDRIL_CHECK(count > 0, "expected at least a batch for each trainer, got ", corpus.train.size(), " for ",
                options.trainers());
  return std::span(corpus.train).subspan(static_cast<std::size_t>(rank - 1) * count, count);
}

std::vector<std::string> trainers_of(const Options& options) {
  std::vector<std::string> names;
  for (int rank = 1; rank < options.world_size; ++rank) names.push_back(options.name_of(rank));
  return names;
}

}  // namespace

Run::Hidden::Hidden(const Options& options)
    : state{zeros({options.nlayers, options.batch, options.nhid}),
            zeros({options.nlayers, options.batch, options.nhid})} {
  register_buffer("h", state.h);
  register_buffer("c", state.c);
}

StateDict Run::Parts::state_dict() const {
  StateDict dict;
  for (const auto& part : all) part.save(dict);
  return dict;
}

void Run::Parts::load_state_dict(const StateDict& dict, const LoadOptions& options) {
  for (const auto& part : all) part.load(dict, options);
}

Run::Run(int rank, const Options& options, const Corpus& corpus)
    : hidden_(options),
      rank_(rank),
      options_(options),
      share_(share_of(corpus, rank, options)),
      report_(options, reports(), share_.size()),
      best_(std::numeric_limits<double>::infinity()) {
  if (!alone()) {
    trainers_.emplace(trainers_of(options), dist::ProcessGroup::Options{.timeout = std::chrono::minutes(10)});
    if (!options.checkpoint.empty() && reports()) std::filesystem::create_directories(options.checkpoint);
  }
  // `shared` is valid for any number of trainers; `each` belongs to this trainer's share of the text.
  parts_.shared = {{"epochs", report_.epochs}, {"first_loss", report_.first_loss}, {"best", best_}};
  parts_.each = {
      {"hidden", hidden_}, {"random", generators_}, {"iterations", report_.iterations}, {"loss_sum", report_.loss_sum}};
}

bool stop_was_asked(bool of_me);

/// Runs on the parameter server. Returns whether any worker was asked to stop.
bool stop_was_asked(bool of_me) {
  if (of_me) examples::ask_to_stop();
  return examples::stop_wanted();
}

bool Run::stop_wanted() {
  const auto now = std::chrono::steady_clock::now();
  const bool mine = examples::stop_wanted();
  if (!alone() && !options_.checkpoint.empty() && (mine || now - asked_ > std::chrono::milliseconds(100))) {
    asked_ = now;
    if (rpc::rpc_sync<&stop_was_asked>("ps", mine)) examples::ask_to_stop();
  }
  return examples::stop_wanted();
}

bool Run::any(bool mine) {
  if (alone()) return mine;
  const Tensor said = full({1}, mine ? 1 : 0, {.dtype = kInt64, .device = kCPU});
  trainers_->all_reduce(said, dist::ReduceOp::max, {.timeout = std::chrono::milliseconds(0)});
  return said.item<std::int64_t>() != 0;
}

std::uint64_t Run::requests() const {
  if (alone()) return 0;
  const auto metrics = rpc::default_agent()->metrics();
  return metrics.requests_sent + metrics.requests_received;
}

bool Run::next_epoch() {
  if (!began_) {
    began_ = true;
    load();
    const auto count = static_cast<std::int64_t>(share_.size());
    if (reports())
      progress_.emplace("iterations", options_.epochs * count, report_.epochs * count + report_.iterations);
  }
  if (stopped_ || report_.epochs >= options_.epochs) return false;
  before_ = requests();
  return true;
}

nn::LSTMState Run::zero_state() const { return {zeros_like(hidden.h), zeros_like(hidden.c)}; }

void Run::draw(const dist::autograd::Context& context, const Tensor& loss) {
  if (reports() && !std::exchange(drawn_, true)) examples::write_graph(options_.graph, context, loss);
}

bool Run::iteration(double loss) {
  if (progress_ && options_.log_interval > 0) progress_->clear();
  report_.iteration(loss);
  if (progress_) progress_->advance();
  return !stop_wanted();
}

void Run::end_epoch(const std::function<void(double)>& learn) {
  sent_ += requests() - before_;
  if (progress_) progress_->clear();
  stopped_ = any(examples::stop_wanted());
  if (stopped_) {
    save();
    if (reports()) std::printf("Stopped. --resume auto goes on from %s\n", options_.checkpoint.c_str());
    return;
  }
  std::optional<double> valid;
  if (reports()) {
    valid = valid_();
    if (valid && options_.trainers() <= 1) learn(*valid);
    if (!options_.save.empty()) save_best(valid);
  }
  report_.epoch(valid);
  if (!options_.checkpoint.empty())
    save();
  else
    any(false);  // a barrier: the other trainers wait here
}

void Run::finish() {
  if (stopped_ || !reports()) return;
  if (options_.samples > 0) std::printf("\n%s\n", sample_().c_str());
  report_.finish(sent_);
}

nn::CheckpointParts Run::all_parts() const {
  nn::CheckpointParts all;
  for (const auto* some : {&parts_.shared, &parts_.own, &parts_.each})
    all.insert(all.end(), some->begin(), some->end());
  return all;
}

void Run::load() {
  if (!options_.resume) return;
  if (alone()) {
    if (std::filesystem::exists(options_.checkpoint)) nn::load_checkpoint(options_.checkpoint, all_parts());
  } else if (dist::has_checkpoint(options_.checkpoint)) {
    dist::load_checkpoint(*trainers_, options_.checkpoint, parts_, {.each_may_stay = true});
  }
}

void Run::save() {
  if (alone()) return nn::save_checkpoint(options_.checkpoint, all_parts());
  dist::save_checkpoint(*trainers_, options_.checkpoint, parts_);
}

void Run::save_best(std::optional<double> valid) {
  if (valid && *valid >= best_) return;
  if (valid) best_ = *valid;
  StateDict parts, named;  // names as in PyTorch's word_language_model: encoder.weight, rnn.weight_ih_l0, ...
  parts_.own.front().save(parts);
  for (const auto& [name, tensor] : parts.section("model")) named.insert(name.substr(name.find('.') + 1), tensor);
  save_safetensors(named, options_.save);
}

}  // namespace language_model
