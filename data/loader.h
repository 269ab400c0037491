#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "tendril/data/collate.h"
#include "tendril/data/dataset.h"
#include "tendril/data/detail/streams.h"
#include "tendril/data/sampler.h"
#include "tendril/tensor/error.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/state_dict.h"

TENDRIL_API_BEGIN

namespace tendril::data {

struct DataLoaderOptions {
  int64_t batch_size = 1;       ///< examples; positive
  bool shuffle = false;         ///< another order in each epoch, which follows from seed and epoch
  uint64_t seed = 0;            ///< of the order, and of the random numbers that examples draw
  bool drop_last = false;       ///< leave out the last batch if it is not full
  int num_workers = 0;          ///< threads that make batches ahead of the loop; 0: the loop's own thread makes them
  int64_t prefetch_factor = 2;  ///< batches ahead, for each worker
  bool pin_memory = false;      ///< batches in page-locked memory (collate.h); nothing without a CUDA device
  std::chrono::milliseconds timeout = std::chrono::minutes(10);  ///< for one batch of a worker; then the loop throws
  std::shared_ptr<const Sampler> sampler = nullptr;              ///< in place of `shuffle`
  std::shared_ptr<const BatchSampler> batch_sampler = nullptr;   ///< in place of `sampler`, `batch_size`, `drop_last`
};

/// What making a batch threw, with the example's number in its dataset. The exception itself is nested in it
/// (std::rethrow_if_nested).
class DataLoaderError : public Error {
 public:
  DataLoaderError(const std::string& text, int64_t sample, int64_t batch, uint64_t epoch)
      : Error(text), sample_(sample), batch_(batch), epoch_(epoch) {}
  int64_t sample() const noexcept { return sample_; }  ///< -1: the examples do not make a batch together
  /// Which batch of the epoch.
  int64_t batch() const noexcept { return batch_; }
  /// In which epoch.
  uint64_t epoch() const noexcept { return epoch_; }

 private:
  int64_t sample_, batch_;
  uint64_t epoch_;
};

/// How much of the time of its loops a program has waited for a loader.
struct LoaderStats {
  using Seconds = std::chrono::duration<double>;  ///< with fractions
  int64_t batches = 0;                            ///< handed to the loop
  Seconds stalled{};                              ///< the loop waited for batches; without workers: made them
  Seconds elapsed{};                              ///< from each loop's start to its last batch
};
/// "stalled 0.12 s of 3.40 s (3.5 %), 938 batches"
std::ostream& operator<<(std::ostream& out, const LoaderStats& stats);

namespace detail {

class Pipeline;

/// The batches of an epoch.
struct EpochPlan {
  uint64_t epoch = 0;
  uint64_t examples_seed = 0;
  std::vector<std::vector<int64_t>> batches;
  std::vector<uint64_t> positions;  ///< of each batch's first example, in the epoch
  uint64_t fingerprint = 0;         ///< of all their numbers
};

/// What a DataLoader is apart from its types.
class LoaderCore {
 public:
  using Make = std::function<std::shared_ptr<void>(const EpochPlan& plan, int64_t batch)>;

  LoaderCore(int64_t examples, const DataLoaderOptions& options, Make make);
  ~LoaderCore();

  std::shared_ptr<void> begin();              ///< the first batch of a loop
  std::shared_ptr<void> next(uint64_t loop);  ///< null at the end of the epoch, which is then over
  uint64_t loop() const noexcept { return loop_; }

  int64_t size() const;
  uint64_t epoch() const noexcept { return epoch_; }
  int64_t batch() const noexcept { return batch_; }
  void set_epoch(uint64_t epoch);
  /// How long it was waited for so far.
  const LoaderStats& stats() const noexcept { return stats_; }
  StateDict state_dict() const;
  LoadReport load_state_dict(const StateDict& dict, const LoadOptions& options);

 private:
  std::shared_ptr<const EpochPlan> plan(uint64_t epoch) const;
  void end_loop();

  int64_t examples_;
  DataLoaderOptions options_;
  Make make_;
  uint64_t epoch_ = 0;
  int64_t batch_ = 0;                              // handed out in this epoch
  bool resumes_ = true;                            // the next loop goes on here; otherwise it begins the next epoch
  uint64_t loop_ = 0;                              // counts begin(), and what ends loops
  mutable std::shared_ptr<const EpochPlan> plan_;  // the last one that was asked for
  LoaderStats stats_;
  std::chrono::steady_clock::time_point last_;
  std::unique_ptr<Pipeline> pipeline_;
};

/// As it is being handled, with the number of the example that it was thrown for; -1: for all of the batch.
[[noreturn]] void rethrow_for(const EpochPlan& plan, int64_t batch, int64_t sample);

template <class T>
using CollatedOf = decltype(data::collate(std::declval<std::vector<T>>()));

}  // namespace detail

/// Batches of a dataset's examples:
///
///     data::DataLoader loader(dataset, {.batch_size = 64, .shuffle = true, .num_workers = 2});
///     while (loader.epoch() < 10) {
///       for (auto& [images, labels] : loader) { ... }
///       ...                                                   // the epoch is over
///     }
///
/// A loop is an epoch. One that is left early (break, an exception) is over too: the next one begins the next epoch, as
/// in PyTorch. A loop must not outlive its loader. Batches, their order and the random numbers in them follow from
/// dataset, options and epoch; they are the same with any number of workers.
///
/// Where it stands is in `state_dict()`: saved in a loop's body, or after a break, and loaded into a loader of the same
/// dataset and options (the number of workers may differ), the next loop goes on with the very next batch, bit by bit.
///
/// What an example throws comes out of the loop in its turn, as a DataLoaderError; that batch does not count as handed
/// out. Destructors wait for the examples under way.
///
/// Thread-safety: one thread at a time. The dataset's `get` and the function that collates are called on all workers at
/// a time, where operations use one thread each.
template <class Example, class Batch = detail::CollatedOf<Example>>
class DataLoader {
 public:
  /// Throws Error for an empty dataset, options that make no sense, and such that leave no batch.
  explicit DataLoader(Dataset<Example> dataset, const DataLoaderOptions& options = {})
      : DataLoader(std::move(dataset), options,
                   [](std::vector<Example> examples) { return data::collate(std::move(examples)); }) {}
  /// `collate` makes a batch of a std::vector<Example>.
  template <class F>
  requires std::is_invocable_r_v<Batch, const F&, std::vector<Example>> DataLoader(Dataset<Example> dataset,
                                                                                   const DataLoaderOptions& options,
                                                                                   F collate)
      : core_(dataset.size(), options,
              [dataset, pinned = options.pin_memory, collate](const detail::EpochPlan& plan, int64_t number) {
                return make(dataset, collate, pinned, plan, number);
              }) {}
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  /// Goes through the batches that are left of this epoch.
  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::input_iterator_tag;
    /// The batch, while the iterator stays where it is.
    Batch& operator*() const& { return *static_cast<Batch*>(batch_.get()); }
    Batch operator*() && { return std::move(*static_cast<Batch*>(batch_.get())); }  ///< `auto batch = *loader.begin();`
    /// The batch's members.
    Batch* operator->() const { return static_cast<Batch*>(batch_.get()); }
    /// Throws Error if another loop or a loaded state has ended this one.
    Iterator& operator++() {
      batch_.reset();
      batch_ = core_->next(loop_);
      return *this;
    }
    void operator++(int) { ++*this; }  ///< the next batch
    friend bool operator==(const Iterator& at, std::default_sentinel_t) { return !at.batch_; }

   private:
    friend DataLoader;
    Iterator(detail::LoaderCore& core) : core_(&core), batch_(core.begin()), loop_(core.loop()) {}
    detail::LoaderCore* core_;
    std::shared_ptr<void> batch_;
    uint64_t loop_;
  };
  /// Starts a loop, and waits for its first batch.
  Iterator begin() { return Iterator(core_); }
  std::default_sentinel_t end() const noexcept { return {}; }  ///< behind the last batch of the epoch

  int64_t size() const { return core_.size(); }  ///< batches of an epoch
  /// The one that is under way, or comes next; after a loop that was left early, which is over, still that one.
  uint64_t epoch() const noexcept { return core_.epoch(); }
  int64_t batch() const noexcept { return core_.batch(); }    ///< how many of its batches have been handed out
  void set_epoch(uint64_t epoch) { core_.set_epoch(epoch); }  ///< the next loop begins this one
  /// How long it was waited for so far.
  const LoaderStats& stats() const noexcept { return core_.stats(); }

  /// "epoch", "batch", and what the place is worth something for only: "seed", "examples" and "order", a fingerprint of
  /// the epoch's order.
  StateDict state_dict() const { return core_.state_dict(); }
  /// Throws Error that lists what does not fit: another seed, size or order. Nothing has changed then. Ends a loop that
  /// is under way.
  LoadReport load_state_dict(const StateDict& dict, const LoadOptions& options = {}) {
    return core_.load_state_dict(dict, options);
  }

 private:
  template <class F>
  static std::shared_ptr<void> make(const Dataset<Example>& dataset, const F& collate, bool pinned,
                                    const detail::EpochPlan& plan, int64_t number);

  detail::LoaderCore core_;
};
template <RandomAccess D>
explicit DataLoader(D, DataLoaderOptions = {}) -> DataLoader<ExampleOf<D>>;
template <RandomAccess D, class F>
DataLoader(D, DataLoaderOptions, F) -> DataLoader<ExampleOf<D>, std::invoke_result_t<F, std::vector<ExampleOf<D>>>>;

template <class Example, class Batch>
template <class F>
std::shared_ptr<void> DataLoader<Example, Batch>::make(const Dataset<Example>& dataset, const F& collate, bool pinned,
                                                       const detail::EpochPlan& plan, int64_t number) {
  int64_t sample = -1;
  try {
    std::vector<Example> examples;
    uint64_t position = plan.positions[static_cast<std::size_t>(number)];
    Generator random(0);
    for (const int64_t index : plan.batches[static_cast<std::size_t>(number)]) {
      sample = index;
      random.set_state(detail::example_stream(plan.examples_seed, position++));
      examples.push_back(dataset.get(index, random));
    }
    sample = -1;
    auto batch = std::make_shared<Batch>(collate(std::move(examples)));
    if (pinned) pin(*batch);
    return batch;
  } catch (...) {
    detail::rethrow_for(plan, number, sample);
  }
}

}  // namespace tendril::data

TENDRIL_API_END
