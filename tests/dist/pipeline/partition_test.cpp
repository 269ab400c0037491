// Partition of a model into stages of similar cost.
#include "tendril/dist/pipeline/partition.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <limits>
#include <numeric>
#include <random>

#include "tendril/nn/activation.h"
#include "tendril/nn/batch_norm.h"
#include "tendril/nn/linear.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(partition)

using namespace tendril;
namespace pp = dist::pipeline;
using tendril::testing::test_seed;
using testing::says;

namespace {

using Cut = std::vector<std::size_t>;

double dearest(const std::vector<double>& costs, const Cut& cut) {
  double most = 0;
  for (std::size_t p = 0; p + 1 < cut.size(); ++p) {
    const auto at = [&](std::size_t i) { return costs.begin() + static_cast<std::ptrdiff_t>(cut[i]); };
    most = std::max(most, std::accumulate(at(p), at(p + 1), 0.0));
  }
  return most;
}

/// Cost of the best cut, found by exhaustive search.
double least(const std::vector<double>& costs, std::size_t parts, Cut cut = {0}) {
  if (cut.size() == parts) {
    cut.push_back(costs.size());
    return dearest(costs, cut);
  }
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t next = cut.back() + 1; next + (parts - cut.size()) <= costs.size(); ++next) {
    Cut longer = cut;
    longer.push_back(next);
    best = std::min(best, least(costs, parts, longer));
  }
  return best;
}

}  // namespace

BOOST_AUTO_TEST_CASE(most_expensive_part_is_minimal) {
  std::mt19937 random(test_seed());
  for (int i = 0; i < 300; ++i) {
    std::vector<double> costs(1 + random() % 9);
    for (double& cost : costs) cost = static_cast<double>(random() % 20);
    const std::size_t parts = 1 + random() % costs.size();
    const Cut cut = pp::partition(costs, static_cast<int>(parts));
    BOOST_REQUIRE(cut.size() == parts + 1);
    BOOST_TEST(cut.front() == 0u);
    BOOST_TEST(cut.back() == costs.size());
    BOOST_TEST((std::adjacent_find(cut.begin(), cut.end(), std::greater_equal<>()) == cut.end()));
    BOOST_TEST(dearest(costs, cut) == least(costs, parts));
  }
  BOOST_TEST(pp::partition({1, 1, 1, 3}, 2) == (Cut{0, 3, 4}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(invalid_partitions_are_rejected) {
  BOOST_CHECK_EXCEPTION(pp::partition({1, 2}, 3), Error, says("partition", "2 costs into 3 parts"));
  BOOST_CHECK_EXCEPTION(pp::partition({}, 1), Error, says("0 costs"));
  BOOST_CHECK_EXCEPTION(pp::partition({1, 2}, 0), Error, says("parts: got 0"));
  BOOST_CHECK_EXCEPTION(pp::partition({1, -2}, 1), Error, says("costs[1]: got -2"));
  BOOST_CHECK_EXCEPTION(pp::partition({std::numeric_limits<double>::quiet_NaN()}, 1), Error, says("costs[0]"));
  BOOST_CHECK_EXCEPTION(pp::partition({1e308, 1e308, 1e308}, 3), Error, says("their sum is inf"));
}

BOOST_AUTO_TEST_CASE(measuring_layers_does_not_change_the_model) {
  Generator generator(test_seed());
  nn::Sequential model(nn::Linear(8, 600, {.generator = generator}), nn::BatchNorm1d(600),
                       nn::Linear(600, 2, {.generator = generator}), nn::ReLU());
  const StateDict before = model.state_dict().clone();
  const Tensor x = randn({64, 8}, generator);
  const auto costs = pp::measure_layers(model, x, 1);
  BOOST_REQUIRE(costs.size() == 4u);
  for (const auto& cost : costs) {
    BOOST_TEST(cost.forward > 0);
    BOOST_TEST(cost.backward > 0);
    BOOST_TEST(cost.both() == cost.forward + cost.backward);
  }
  const StateDict after = model.state_dict();
  for (const auto& [name, tensor] : before) BOOST_TEST(raw::equal(tensor, after.at(name)), name);
  for (const Tensor& param : model.parameters()) BOOST_TEST(!param.grad().defined());
  BOOST_CHECK_EXCEPTION(pp::measure_layers(model, x, 0), Error, says("repeats: got 0"));
  BOOST_CHECK_THROW(pp::measure_layers(model, ones({64, 7}), 1), Error);
}

BOOST_AUTO_TEST_SUITE_END()
