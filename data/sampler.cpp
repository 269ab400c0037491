#include "tendril/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "tendril/data/dataset.h"
#include "tendril/data/detail/streams.h"
#include "tendril/tensor/error.h"
#include "tendril/tensor/philox.h"
#include "tendril/tensor/raw.h"

namespace tendril::data {

namespace detail {

uint64_t epoch_seed(uint64_t seed, uint64_t epoch, Use use) noexcept {
  const philox::Block words =
      philox::encrypt({static_cast<uint32_t>(epoch), static_cast<uint32_t>(epoch >> 32), static_cast<uint32_t>(use), 1},
                      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return uint64_t{words[1]} << 32 | words[0];
}

Generator::State example_stream(uint64_t epoch_seed, uint64_t position) noexcept {
  return {epoch_seed, position << 32};
}

std::vector<std::vector<int64_t>> split_indices(int64_t size, const std::vector<double>& parts, uint64_t seed) {
  const double sum = std::accumulate(parts.begin(), parts.end(), 0.0);
  const bool sane = std::ranges::all_of(parts, [](double part) { return part >= 0 && std::isfinite(part); });
  const bool shares = std::abs(sum - 1) < 1e-9;
  std::vector<int64_t> lengths;
  for (const double part : parts) {
    const double length = shares ? std::floor(part * static_cast<double>(size)) : part;
    TENDRIL_CHECK(sane && length == std::floor(length) && length <= static_cast<double>(size),
                  "random_split: parts: got ", part, ", expected sizes that add up to ", size,
                  " or shares that add up to 1");
    lengths.push_back(static_cast<int64_t>(length));
  }
  int64_t left = size - std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  TENDRIL_CHECK(!parts.empty() && (shares || left == 0), "random_split: parts: got ", parts.size(), " that add up to ",
                sum, ", expected sizes that add up to ", size, " or shares that add up to 1");
  for (std::size_t i = 0; left > 0; i = (i + 1) % lengths.size(), --left) ++lengths[i];

  Generator random(epoch_seed(seed, 0, Use::split));
  const std::vector<int64_t> order = raw::randperm(size, random).to_vector<int64_t>();
  std::vector<std::vector<int64_t>> split;
  auto from = order.begin();
  for (const int64_t length : lengths) {
    split.emplace_back(from, from + length);
    from += length;
  }
  return split;
}

}  // namespace detail

namespace {

std::vector<int64_t> counted(int64_t count) {
  std::vector<int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

Generator generator_of(uint64_t seed, uint64_t epoch) {
  return Generator(detail::epoch_seed(seed, epoch, detail::Use::order));
}

void check_count(const char* op, int64_t count) {
  TENDRIL_CHECK(count >= 0, op, ": count: got ", count, ", expected 0 or more");
}

}  // namespace

SequentialSampler::SequentialSampler(int64_t count) : count_(count) { check_count("SequentialSampler", count); }

std::vector<int64_t> SequentialSampler::order(uint64_t) const { return counted(count_); }

RandomSampler::RandomSampler(int64_t count, const RandomSamplerOptions& options) : count_(count), options_(options) {
  check_count("RandomSampler", count);
  if (options_.num_samples == -1) options_.num_samples = count;
  TENDRIL_CHECK(options_.num_samples >= 0 && (options_.replacement || options_.num_samples <= count) &&
                    (count > 0 || options_.num_samples == 0),
                "RandomSampler: num_samples: got ", options_.num_samples, " of ", count, " examples ",
                options_.replacement ? "with" : "without", " replacement");
}

std::vector<int64_t> RandomSampler::order(uint64_t epoch) const {
  Generator random = generator_of(options_.seed, epoch);
  if (!options_.replacement) {
    std::vector<int64_t> order = raw::randperm(count_, random).to_vector<int64_t>();
    order.resize(static_cast<std::size_t>(options_.num_samples));
    return order;
  }
  std::vector<int64_t> order(static_cast<std::size_t>(options_.num_samples));
  for (int64_t& index : order) index = static_cast<int64_t>(random.below(static_cast<uint64_t>(count_)));
  return order;
}

WeightedRandomSampler::WeightedRandomSampler(std::vector<double> weights, int64_t num_samples,
                                             const WeightedRandomSamplerOptions& options)
    : weights_(std::move(weights)), num_samples_(num_samples), options_(options) {
  const char* const op = "WeightedRandomSampler";
  check_count(op, num_samples);
  int64_t possible = 0;
  double sum = 0;
  for (const double weight : weights_) {
    TENDRIL_CHECK(weight >= 0 && std::isfinite(weight), op, ": weights: got ", weight, ", expected 0 or more");
    possible += weight > 0;
    sums_.push_back(sum += weight);
  }
  TENDRIL_CHECK(std::isfinite(sum), op, ": weights: their sum is ", sum);
  TENDRIL_CHECK(num_samples == 0 || possible > 0, op, ": weights: got none above 0");
  TENDRIL_CHECK(options.replacement || num_samples <= possible, op, ": num_samples: got ", num_samples,
                " without replacement, expected at most ", possible, ", which have a weight above 0");
}

std::vector<int64_t> WeightedRandomSampler::order(uint64_t epoch) const {
  Generator random = generator_of(options_.seed, epoch);
  std::vector<int64_t> order(static_cast<std::size_t>(num_samples_));
  if (options_.replacement) {
    for (int64_t& index : order) {
      const double drawn = random.uniform() * sums_.back();
      // Rounding may reach the sum itself: then it is the last one that has a weight.
      auto found = std::ranges::upper_bound(sums_, drawn);
      if (found == sums_.end()) found = std::ranges::lower_bound(sums_, sums_.back());
      index = found - sums_.begin();
    }
    return order;
  }
  std::vector<std::pair<double, int64_t>> keys;  // exponential numbers with the weights as rates: the least come first
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const double waited = -std::log1p(-std::max(random.uniform(), 0x1p-54));  // positive
    if (weights_[i] > 0) keys.emplace_back(waited / weights_[i], static_cast<int64_t>(i));
  }
  std::partial_sort(keys.begin(), keys.begin() + num_samples_, keys.end());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = keys[i].second;
  return order;
}

DistributedSampler::DistributedSampler(int64_t count, const DistributedSamplerOptions& options)
    : count_(count), options_(options) {
  const char* const op = "DistributedSampler";
  check_count(op, count);
  TENDRIL_CHECK(options.world_size >= 1, op, ": world_size: got ", options.world_size, ", expected 1 or more");
  TENDRIL_CHECK(options.rank >= 0 && options.rank < options.world_size, op, ": rank: got ", options.rank,
                ", expected one from 0 to below ", options.world_size);
}

int64_t DistributedSampler::size() const {
  const int64_t whole = count_ / options_.world_size;
  return whole + (!options_.drop_last && count_ % options_.world_size != 0);
}

std::vector<int64_t> DistributedSampler::order(uint64_t epoch) const {
  const std::vector<int64_t> all =
      options_.shuffle ? RandomSampler(count_, {.seed = options_.seed}).order(epoch) : counted(count_);
  std::vector<int64_t> share;
  for (int64_t i = 0; i < size(); ++i) {
    share.push_back(all[static_cast<std::size_t>((i * options_.world_size + options_.rank) % count_)]);
  }
  return share;
}

BatchSampler::BatchSampler(std::shared_ptr<const Sampler> sampler, int64_t batch_size, bool drop_last)
    : sampler_(std::move(sampler)), batch_size_(batch_size), drop_last_(drop_last) {
  TENDRIL_CHECK(sampler_, "BatchSampler: sampler: got none");
  TENDRIL_CHECK(batch_size >= 1, "BatchSampler: batch_size: got ", batch_size, ", expected 1 or more");
}

int64_t BatchSampler::size() const {
  const int64_t count = sampler_->size();
  return count / batch_size_ + (!drop_last_ && count % batch_size_ != 0);
}

std::vector<std::vector<int64_t>> BatchSampler::batches(uint64_t epoch) const {
  const std::vector<int64_t> order = sampler_->order(epoch);
  const auto count = static_cast<int64_t>(order.size());
  std::vector<std::vector<int64_t>> batches;
  for (int64_t start = 0; start < count; start += std::min(batch_size_, count - start)) {
    const int64_t length = std::min(batch_size_, count - start);
    if (length < batch_size_ && drop_last_) break;
    batches.emplace_back(order.begin() + start, order.begin() + start + length);
  }
  return batches;
}

}  // namespace tendril::data
