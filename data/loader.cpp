#include "tendril/data/loader.h"

#include <algorithm>
#include <exception>
#include <locale>
#include <ostream>
#include <sstream>

#include "tendril/data/detail/pipeline.h"
#include "tendril/data/detail/streams.h"

namespace tendril::data {

std::ostream& operator<<(std::ostream& out, const LoaderStats& stats) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text.setf(std::ios::fixed);
  text.precision(2);
  const double stalled = stats.stalled.count(), elapsed = stats.elapsed.count();
  text << "stalled " << stalled << " s of " << elapsed << " s (";
  text.precision(1);
  text << (elapsed > 0 ? 100 * stalled / elapsed : 0.0) << " %), " << stats.batches << " batches";
  return out << text.str();
}

namespace detail {
namespace {

using Clock = std::chrono::steady_clock;

std::shared_ptr<const BatchSampler> batches_of(int64_t examples, const DataLoaderOptions& options) {
  if (options.batch_sampler) {
    TENDRIL_CHECK(!options.sampler && !options.shuffle && !options.drop_last && options.batch_size == 1,
                  "DataLoader: batch_sampler: excludes sampler, shuffle, batch_size and drop_last");
    return options.batch_sampler;
  }
  TENDRIL_CHECK(!options.sampler || !options.shuffle, "DataLoader: sampler: excludes shuffle");
  std::shared_ptr<const Sampler> sampler = options.sampler;
  if (!sampler && options.shuffle) {
    sampler = std::make_shared<RandomSampler>(examples, RandomSamplerOptions{.seed = options.seed});
  } else if (!sampler) {
    sampler = std::make_shared<SequentialSampler>(examples);
  }
  return std::make_shared<BatchSampler>(std::move(sampler), options.batch_size, options.drop_last);
}

/// What no seed, sampler, batch size or shard leaves as it is (FNV-1a, of 64-bit words).
uint64_t fingerprint_of(const std::vector<std::vector<int64_t>>& batches) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](uint64_t word) { hash = (hash ^ word) * 0x100000001b3; };
  for (const auto& batch : batches) {
    add(batch.size());
    for (const int64_t index : batch) add(static_cast<uint64_t>(index));
  }
  return hash;
}

}  // namespace

void rethrow_for(const EpochPlan& plan, int64_t batch, int64_t sample) {
  std::string reason = "an exception that is no std::exception";
  try {
    throw;
  } catch (const std::exception& error) {
    reason = error.what();
  } catch (...) {  // NOLINT(bugprone-empty-catch): it is nested below
  }
  std::ostringstream text;
  text << "DataLoader: ";
  if (sample >= 0) text << "sample " << sample << " (";
  text << "batch " << batch << " of epoch " << plan.epoch;
  if (sample >= 0) {
    text << ')';
  } else {
    text << ", samples";
    const auto& indices = plan.batches[static_cast<std::size_t>(batch)];
    for (std::size_t i = 0; i < std::min<std::size_t>(indices.size(), 8); ++i) {
      text << (i > 0 ? ", " : " ") << indices[i];
    }
    if (indices.size() > 8) text << ", ...";
  }
  std::throw_with_nested(DataLoaderError(text.str() + ": " + reason, sample, batch, plan.epoch));
}

LoaderCore::LoaderCore(int64_t examples, const DataLoaderOptions& options, Make make)
    : examples_(examples), options_(options), make_(std::move(make)) {
  const char* const op = "DataLoader";
  TENDRIL_CHECK(examples > 0, op, ": dataset: got ", examples, " examples, expected at least one");
  TENDRIL_CHECK(options.batch_size >= 1, op, ": batch_size: got ", options.batch_size, ", expected 1 or more");
  TENDRIL_CHECK(options.num_workers >= 0 && options.num_workers <= 1024, op, ": num_workers: got ", options.num_workers,
                ", expected 0 to 1024");
  TENDRIL_CHECK(options.prefetch_factor >= 1 && options.prefetch_factor <= 1 << 12, op, ": prefetch_factor: got ",
                options.prefetch_factor, ", expected 1 to ", 1 << 12);
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);
  TENDRIL_CHECK(options.timeout.count() > 0, op, ": timeout: got ", options.timeout.count(),
                " ms, expected more than 0");
  options_.batch_sampler = batches_of(examples, options);
  TENDRIL_CHECK(size() > 0, op, ": no batch is left of ", examples, " examples with batch_size ", options.batch_size,
                options.drop_last ? " and drop_last" : "", options.sampler ? " and this sampler" : "");
  pipeline_ = std::make_unique<Pipeline>(options.num_workers,
                                         std::max<int64_t>(1, options.num_workers * options.prefetch_factor),
                                         std::min(options.timeout, kLongest));
}

LoaderCore::~LoaderCore() = default;

int64_t LoaderCore::size() const { return options_.batch_sampler->size(); }

std::shared_ptr<const EpochPlan> LoaderCore::plan(uint64_t epoch) const {
  if (plan_ && plan_->epoch == epoch) return plan_;
  auto plan = std::make_shared<EpochPlan>();
  plan->epoch = epoch;
  plan->examples_seed = epoch_seed(options_.seed, epoch, Use::examples);
  plan->batches = options_.batch_sampler->batches(epoch);
  plan->fingerprint = fingerprint_of(plan->batches);
  uint64_t position = 0;
  for (const auto& batch : plan->batches) {
    TENDRIL_CHECK(!batch.empty(), "DataLoader: batch_sampler: batch ", plan->positions.size(), " of epoch ", epoch,
                  " is empty");
    plan->positions.push_back(position);
    position += batch.size();
  }
  return plan_ = std::move(plan);
}

void LoaderCore::end_loop() {
  ++loop_;
  pipeline_->start({}, 0, 0);
}

std::shared_ptr<void> LoaderCore::begin() {
  if (!resumes_) set_epoch(epoch_ + 1);
  end_loop();
  const auto current = plan(epoch_);
  resumes_ = false;
  last_ = Clock::now();
  pipeline_->start([this, current](int64_t number) { return make_(*current, number); }, batch_,
                   static_cast<int64_t>(current->batches.size()));
  return next(loop_);
}

std::shared_ptr<void> LoaderCore::next(uint64_t loop) {
  TENDRIL_CHECK(loop == loop_, "DataLoader: this loop is over: another one, set_epoch or load_state_dict ended it");
  if (pipeline_->at_end()) {
    set_epoch(epoch_ + 1);
    return nullptr;
  }
  const auto start = Clock::now();
  std::shared_ptr<void> item;
  try {
    item = pipeline_->take();
  } catch (...) {
    end_loop();
    throw;
  }
  const auto now = Clock::now();
  stats_.stalled += now - start;
  stats_.elapsed += now - last_;
  last_ = now;
  ++stats_.batches;
  ++batch_;
  return item;
}

void LoaderCore::set_epoch(uint64_t epoch) {
  end_loop();
  epoch_ = epoch;
  batch_ = 0;
  resumes_ = true;
}

StateDict LoaderCore::state_dict() const {
  StateDict dict;
  dict.insert("epoch", static_cast<int64_t>(epoch_));
  dict.insert("batch", batch_);
  dict.insert("seed", static_cast<int64_t>(options_.seed));
  dict.insert("examples", examples_);
  dict.insert("order", static_cast<int64_t>(plan(epoch_)->fingerprint));
  return dict;
}

LoadReport LoaderCore::load_state_dict(const StateDict& dict, const LoadOptions& options) {
  StateReader reader(dict, "DataLoader::load_state_dict");
  auto epoch = static_cast<int64_t>(epoch_), seed = static_cast<int64_t>(options_.seed);
  int64_t batch = batch_, examples = examples_;
  reader.number("epoch", epoch);
  reader.number("batch", batch);
  reader.number("seed", seed);
  reader.number("examples", examples);
  const auto expect = [&](const char* name, int64_t got, int64_t expected) {
    if (got != expected) reader.refuse(name, "got " + std::to_string(got) + ", expected " + std::to_string(expected));
    return got == expected;
  };
  if (epoch < 0) reader.refuse("epoch", "got " + std::to_string(epoch) + ", expected 0 or more");
  bool alike = expect("seed", seed, static_cast<int64_t>(options_.seed));
  alike = expect("examples", examples, examples_) && alike;
  const auto there = plan(static_cast<uint64_t>(epoch));
  auto order = static_cast<int64_t>(there->fingerprint);
  reader.number("order", order);
  if (alike && order != static_cast<int64_t>(there->fingerprint)) {
    reader.refuse("order", "the epoch's order is another: expected the same sampler, batch size and shard");
  }
  const auto count = static_cast<int64_t>(there->batches.size());
  if (batch < 0 || batch > count) {
    reader.refuse("batch", "got " + std::to_string(batch) + ", expected 0 to " + std::to_string(count));
  }
  LoadReport report = reader.finish(options);
  if (options.check_only) return report;
  set_epoch(static_cast<uint64_t>(epoch));
  batch_ = batch;
  return report;
}

}  // namespace detail
}  // namespace tendril::data
