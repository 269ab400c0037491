#include "run.h"

#include <tendril/dist/checkpoint/checkpoint.h>
#include <tendril/rpc/group.h>
#include <tendril/tensor/creation.h>
#include <tendril/tensor/error.h>
#include <tendril/tensor/files/safetensors.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <utility>

#include "../graph_file.h"

namespace language_model {

namespace dist = tendril::dist;

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
    : state{tendril::zeros({options.nlayers, options.batch, options.nhid}),
            tendril::zeros({options.nlayers, options.batch, options.nhid})} {
  register_buffer("h", state.h);
  register_buffer("c", state.c);
}

Run::Run(int rank, const Options& options, const Corpus& corpus, nn::Module& here)
    : hidden_(options),
      rank_(rank),
      options_(options),
      share_(share_of(corpus, rank, options)),
      report_(options, reports(), share_.size()),
      best_(std::numeric_limits<double>::infinity()),
      generators_(here) {
  if (!alone()) {
    trainers_.emplace(trainers_of(options), dist::ProcessGroup::Options{.timeout = std::chrono::minutes(10)});
    if (!options.checkpoint.empty()) {
      if (reports()) std::filesystem::create_directories(options.checkpoint);
      stop_.emplace();
    }
  }
  // What means the same with any number of trainers, and what is of the places in the text that this one has read.
  shared_ = {{"epochs", report_.epochs}, {"first_loss", report_.first_loss}, {"best", best_}};
  each_ = {
      {"hidden", hidden_}, {"random", generators_}, {"iterations", report_.iterations}, {"loss_sum", report_.loss_sum}};
}

bool Run::any(bool mine) {
  if (alone()) return mine;
  const Tensor said = tendril::full({1}, mine ? 1 : 0, {.dtype = tendril::kInt64, .device = tendril::kCPU});
  trainers_->all_reduce(said, dist::ReduceOp::max, {.timeout = std::chrono::milliseconds(0)});
  return said.item<std::int64_t>() != 0;
}

std::uint64_t Run::requests() const {
  if (alone()) return 0;
  const auto metrics = tendril::rpc::default_agent()->metrics();
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
  if (report_.iterations == 0) {
    hidden.h = tendril::zeros_like(hidden_.buffers()[0]);
    hidden.c = tendril::zeros_like(hidden.h);
  }
  before_ = requests();
  return true;
}

void Run::draw(const dist::autograd::Context& context, const tendril::Tensor& loss) {
  if (reports() && !std::exchange(drawn_, true)) examples::write_graph(options_.graph, context, loss);
}

bool Run::iteration(double loss) {
  if (progress_ && options_.log_interval > 0) progress_->clear();
  report_.iteration(loss);
  if (progress_) progress_->advance();
  return !examples::stop_wanted();
}

void Run::end_epoch() {
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
    if (valid && on_valid_) on_valid_(*valid);
    if (!options_.save.empty()) save_best(valid);
  }
  report_.epoch(valid);
  if (!options_.checkpoint.empty())
    save();
  else
    any(false);  // the others wait
}

void Run::finish() {
  if (stopped_ || !reports()) return;
  if (options_.samples > 0) std::printf("\n%s\n", sample_().c_str());
  report_.finish(sent_);
}

nn::CheckpointParts Run::all_parts() const {
  nn::CheckpointParts all = shared_;
  for (const auto* some : {&own_, &each_}) all.insert(all.end(), some->begin(), some->end());
  return all;
}

void Run::load() {
  if (!options_.resume) return;
  if (alone()) {
    if (std::filesystem::exists(options_.checkpoint)) nn::load_checkpoint(options_.checkpoint, all_parts());
  } else if (dist::has_checkpoint(options_.checkpoint)) {
    dist::load_checkpoint(*trainers_, options_.checkpoint, {.shared = shared_, .own = own_, .each = each_},
                          {.each_may_stay = true});
  }
}

void Run::save() {
  if (alone()) return nn::save_checkpoint(options_.checkpoint, all_parts());
  dist::save_checkpoint(*trainers_, options_.checkpoint, {.shared = shared_, .own = own_, .each = each_});
}

void Run::save_best(std::optional<double> valid) {
  if (valid && *valid >= best_) return;
  if (valid) best_ = *valid;
  tendril::save_safetensors(weights_(), options_.save);
}

}  // namespace language_model
