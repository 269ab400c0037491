#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// In which order examples are read. An order follows from the sampler's options and the epoch alone: so a run that is
/// started again goes on in the order that it was in, and the processes of a group agree without talking.
///
/// Thread-safety: any thread. Constructors throw Error for options that make no sense; sizes of 0 are allowed.
namespace tendril::data {

/// An order of examples, for each epoch: a function of the epoch alone.
class Sampler {
 public:
  virtual ~Sampler() = default;
  virtual int64_t size() const = 0;                              ///< of an order
  virtual std::vector<int64_t> order(uint64_t epoch) const = 0;  ///< numbers of examples; the same for the same epoch
};

/// 0, 1, 2, ...
class SequentialSampler final : public Sampler {
 public:
  explicit SequentialSampler(int64_t count);
  int64_t size() const override { return count_; }
  std::vector<int64_t> order(uint64_t epoch) const override;

 private:
  int64_t count_;
};

struct RandomSamplerOptions {
  uint64_t seed = 0;         ///< of the order
  bool replacement = false;  ///< draw each of the others', too, anew
  int64_t num_samples = -1;  ///< in an epoch; -1: as many as there are. More than that only with replacement
};

/// All examples, each once, in another order each epoch; or drawn with replacement.
class RandomSampler final : public Sampler {
 public:
  explicit RandomSampler(int64_t count, const RandomSamplerOptions& options = {});
  int64_t size() const override { return options_.num_samples; }
  std::vector<int64_t> order(uint64_t epoch) const override;

 private:
  int64_t count_;
  RandomSamplerOptions options_;
};

struct WeightedRandomSamplerOptions {
  uint64_t seed = 0;        ///< of the order
  bool replacement = true;  ///< an example may come again
};

/// `num_samples` examples, drawn with probabilities in proportion to `weights`: rare classes as often as frequent ones.
/// Without replacement they are drawn one after the other from those that are left (Efraimidis and Spirakis, "Weighted
/// random sampling with a reservoir", 2006); no more than have a weight above 0.
class WeightedRandomSampler final : public Sampler {
 public:
  WeightedRandomSampler(std::vector<double> weights, int64_t num_samples,
                        const WeightedRandomSamplerOptions& options = {});
  int64_t size() const override { return num_samples_; }
  std::vector<int64_t> order(uint64_t epoch) const override;

 private:
  std::vector<double> weights_, sums_;
  int64_t num_samples_;
  WeightedRandomSamplerOptions options_;
};

struct DistributedSamplerOptions {
  int64_t rank = 0;        ///< of this worker
  int64_t world_size = 1;  ///< how many workers share the examples
  bool shuffle = true;     ///< another order each epoch
  uint64_t seed = 0;       ///< the same on every rank
  bool drop_last = false;  ///< leave out what does not divide; else some examples are read twice, so that all ranks
                           ///< have as many
};

/// A rank's share of the examples: every world_size-th of one order, as PyTorch's.
class DistributedSampler final : public Sampler {
 public:
  DistributedSampler(int64_t count, const DistributedSamplerOptions& options);
  int64_t size() const override;
  std::vector<int64_t> order(uint64_t epoch) const override;

 private:
  int64_t count_;
  DistributedSamplerOptions options_;
};

/// Which examples are together. This class cuts a sampler's order into pieces of one size; one of your own may put
/// texts of like lengths together.
class BatchSampler {
 public:
  /// Without `drop_last` the last batch may be smaller. Throws Error for no sampler and for a size below 1.
  BatchSampler(std::shared_ptr<const Sampler> sampler, int64_t batch_size, bool drop_last = false);
  virtual ~BatchSampler() = default;
  virtual int64_t size() const;  ///< batches of an epoch
  /// The batches of an epoch, as indices of examples; none is empty.
  virtual std::vector<std::vector<int64_t>> batches(uint64_t epoch) const;

 protected:
  BatchSampler() = default;

 private:
  std::shared_ptr<const Sampler> sampler_;
  int64_t batch_size_ = 1;
  bool drop_last_ = false;
};

}  // namespace tendril::data

TENDRIL_API_END
