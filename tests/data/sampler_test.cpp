#include "tendril/data/sampler.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <numeric>

#include "tendril/tensor/error.h"
#include "tests/errors.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(sampler)

using namespace tendril;
using namespace tendril::testing;
using Order = std::vector<int64_t>;

namespace {
Order sorted(Order order) {
  std::ranges::sort(order);
  return order;
}
Order counted(int64_t count) {
  Order order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  return order;
}
}  // namespace

BOOST_AUTO_TEST_CASE(a_random_order_has_every_example_once_and_follows_from_seed_and_epoch) {
  const data::RandomSampler one(50, {.seed = test_seed()}), again(50, {.seed = test_seed()}),
      other(50, {.seed = test_seed(1)});
  BOOST_TEST((sorted(one.order(3)) == counted(50)));
  BOOST_TEST((one.order(3) == again.order(3)));
  BOOST_TEST((one.order(3) != one.order(4)));
  BOOST_TEST((one.order(3) != other.order(3)));
  BOOST_TEST((data::SequentialSampler(4).order(9) == Order{0, 1, 2, 3}));
}

BOOST_AUTO_TEST_CASE(with_replacement_examples_come_several_times) {
  const data::RandomSampler drawn(4, {.seed = test_seed(), .replacement = true, .num_samples = 4000});
  Order counts(4);
  for (const int64_t index : drawn.order(0)) ++counts.at(static_cast<std::size_t>(index));
  for (const int64_t count : counts) BOOST_TEST(std::abs(count - 1000) < 190);  // 7 standard deviations
}

BOOST_AUTO_TEST_CASE(weights_are_probabilities) {
  const data::WeightedRandomSampler drawn({1, 0, 3}, 4000, {.seed = test_seed()});
  Order counts(3);
  for (const int64_t index : drawn.order(0)) ++counts.at(static_cast<std::size_t>(index));
  BOOST_TEST(counts[1] == 0);
  BOOST_TEST(std::abs(counts[0] - 1000) < 190);
}

BOOST_AUTO_TEST_CASE(weights_without_replacement_decide_who_comes_first) {
  const data::WeightedRandomSampler drawn({1, 0, 3, 1}, 3, {.seed = test_seed(), .replacement = false});
  int first = 0;
  for (uint64_t epoch = 0; epoch < 2000; ++epoch) {
    const Order order = drawn.order(epoch);
    BOOST_TEST_REQUIRE((sorted(order) == Order{0, 2, 3}));
    first += order[0] == 2;
  }
  BOOST_TEST(std::abs(first - 1200) < 150);  // 3 of 5, within 7 standard deviations
}

BOOST_AUTO_TEST_CASE(ranks_share_an_epoch) {
  for (const bool drop : {false, true}) {
    Order together;
    for (int64_t rank = 0; rank < 4; ++rank) {
      const data::DistributedSampler share(
          10, {.rank = rank, .world_size = 4, .shuffle = true, .seed = test_seed(), .drop_last = drop});
      BOOST_TEST(share.size() == (drop ? 2 : 3));
      const Order order = share.order(2);
      BOOST_TEST(static_cast<int64_t>(order.size()) == share.size());
      together.insert(together.end(), order.begin(), order.end());
    }
    together = sorted(together);
    const auto repeated = std::ranges::unique(together);
    BOOST_TEST(repeated.size() == (drop ? 0u : 2u));
    together.erase(repeated.begin(), repeated.end());
    BOOST_TEST(together.size() == (drop ? 8u : 10u));
  }
  // PyTorch's DistributedSampler(range(5), 2, 1, shuffle=False), and one of more ranks than examples
  BOOST_TEST((data::DistributedSampler(5, {.rank = 1, .world_size = 2, .shuffle = false}).order(0) == Order{1, 3, 0}));
  BOOST_TEST((data::DistributedSampler(2, {.rank = 4, .world_size = 5, .shuffle = false}).order(0) == Order{0}));
}

BOOST_AUTO_TEST_CASE(an_order_is_cut_into_batches) {
  const auto order = std::make_shared<data::SequentialSampler>(5);
  const data::BatchSampler all(order, 2), whole(order, 2, true);
  BOOST_TEST(all.size() == 3);
  BOOST_TEST((all.batches(0) == std::vector<Order>{{0, 1}, {2, 3}, {4}}));
  BOOST_TEST(whole.size() == 2);
  BOOST_TEST((whole.batches(0) == std::vector<Order>{{0, 1}, {2, 3}}));
  BOOST_TEST(data::BatchSampler(order, INT64_MAX).size() == 1);
  BOOST_TEST((data::BatchSampler(order, INT64_MAX).batches(0) == std::vector<Order>{{0, 1, 2, 3, 4}}));
}

BOOST_AUTO_TEST_CASE(the_order_of_an_empty_dataset_is_empty) {
  const std::shared_ptr<const data::Sampler> samplers[] = {
      std::make_shared<data::SequentialSampler>(0), std::make_shared<data::RandomSampler>(0),
      std::make_shared<data::RandomSampler>(0, data::RandomSamplerOptions{.replacement = true}),
      std::make_shared<data::WeightedRandomSampler>(std::vector<double>{}, 0),
      std::make_shared<data::DistributedSampler>(0, data::DistributedSamplerOptions{.rank = 1, .world_size = 3})};
  for (const auto& sampler : samplers) {
    BOOST_TEST(sampler->size() == 0);
    BOOST_TEST(sampler->order(1).empty());
    const data::BatchSampler batches(sampler, 4);
    BOOST_TEST(batches.size() == 0);
    BOOST_TEST(batches.batches(1).empty());
  }
}

BOOST_AUTO_TEST_CASE(options_that_make_no_sense_are_refused) {
  using data::DistributedSampler, data::RandomSampler, data::WeightedRandomSampler;
  const auto refuses = [](const auto& make, const auto&... parts) {
    BOOST_CHECK_EXCEPTION(make(), Error, says(parts...));
  };
  refuses([] { data::SequentialSampler(-1); }, "count", "got -1");
  refuses([] { RandomSampler(3, {.num_samples = 4}); }, "num_samples", "got 4");
  refuses([] { RandomSampler(0, {.replacement = true, .num_samples = 4}); }, "of 0 examples");
  refuses([] { WeightedRandomSampler({1, -1}, 1); }, "weights", "got -1");
  refuses([] { WeightedRandomSampler({1, NAN}, 1); }, "weights", "got nan");
  refuses([] { WeightedRandomSampler({0, 0}, 1); }, "weights", "none above 0");
  refuses([] { WeightedRandomSampler({1, 0, 1}, 3, {.replacement = false}); }, "at most 2");
  refuses([] { DistributedSampler(9, {.rank = 2, .world_size = 2}); }, "rank", "got 2");
  refuses([] { DistributedSampler(9, {.world_size = 0}); }, "world_size", "got 0");
  refuses([] { data::BatchSampler(nullptr, 1); }, "sampler");
  refuses([] { data::BatchSampler(std::make_shared<data::SequentialSampler>(5), 0); }, "got 0");
}

BOOST_AUTO_TEST_SUITE_END()
