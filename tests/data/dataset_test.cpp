#include "tendril/data/dataset.h"
#include "tendril/tensor/raw.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>

#include "tests/errors.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(dataset)

using namespace tendril;
using namespace tendril::testing;

namespace {

/// The squares; refuses to make some.
struct Squares {
  int64_t count;
  int64_t size() const { return count; }
  int64_t get(int64_t index) const { return index * index; }
};

/// A number that is drawn.
struct Dice {
  int64_t size() const { return 4; }
  uint64_t get(int64_t index, Generator& random) const { return 10 * static_cast<uint64_t>(index) + random.below(6); }
};

template <class Example>
std::vector<Example> all(const data::Dataset<Example>& dataset) {
  std::vector<Example> examples;
  for (int64_t i = 0; i < dataset.size(); ++i) examples.push_back(dataset.get(i));
  return examples;
}

}  // namespace

BOOST_AUTO_TEST_CASE(rows_of_several_tensors_are_an_example) {
  const Tensor x = raw::arange(0, 6), y = raw::arange(0, 3);
  const data::TensorDataset rows(raw::view(x, {3, 2}), y);
  BOOST_TEST(rows.size() == 3);
  const auto [two, one] = rows.get(1);
  BOOST_TEST(two.to_vector<int64_t>() == (std::vector<int64_t>{2, 3}));
  BOOST_TEST(one.item<int64_t>() == 1);
  const data::Dataset erased = rows;
  static_assert(std::is_same_v<decltype(erased), const data::Dataset<std::array<Tensor, 2>>>);
  BOOST_TEST(std::get<1>(erased.get(2)).item<int64_t>() == 2);
}

BOOST_AUTO_TEST_CASE(tensors_of_different_lengths_are_refused) {
  const Tensor three = raw::zeros({3, 2}), four = raw::zeros({4});
  BOOST_CHECK_EXCEPTION(data::TensorDataset(three, four), ShapeError, says("tensor 1", "[4]", "[3, 2]"));
  BOOST_CHECK_EXCEPTION(data::TensorDataset{raw::zeros({})}, ShapeError, says("tensor 0", "[]"));
  BOOST_CHECK_EXCEPTION(data::TensorDataset{Tensor()}, Error, says("TensorDataset", "undefined"));
}

BOOST_AUTO_TEST_CASE(map_changes_examples_when_they_are_asked_for) {
  int asked = 0;
  const auto texts = data::Dataset(Squares{3}).map([&asked](int64_t square) {
    ++asked;
    return std::to_string(square);
  });
  BOOST_TEST(asked == 0);
  BOOST_TEST(all(texts) == (std::vector<std::string>{"0", "1", "4"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_is_random_follows_from_the_generator) {
  const data::Dataset dice = Dice{};
  const auto noisy = dice.map([](uint64_t value, Generator& random) { return 100 * random.below(9) + value; });
  Generator one(test_seed()), same(test_seed()), expected(test_seed());
  const uint64_t drawn = noisy.get(2, one);
  BOOST_TEST(drawn == noisy.get(2, same));
  const uint64_t first = 20 + expected.below(6);
  BOOST_TEST(drawn == 100 * expected.below(9) + first);  // one stream, in the order of the maps
  manual_seed(test_seed(1));
  const uint64_t by_default = dice.get(1);
  Generator default_stream(test_seed(1));
  BOOST_TEST(by_default == 10 + default_stream.below(6));
}

BOOST_AUTO_TEST_CASE(parts_and_joins_of_datasets) {
  const data::Dataset squares = Squares{5};
  BOOST_TEST(all(squares.subset({4, 0, 4})) == (std::vector<int64_t>{16, 0, 16}), boost::test_tools::per_element());
  BOOST_TEST(all(data::concat(squares.subset({3}), data::Dataset(Squares{0}), squares)) ==
                 (std::vector<int64_t>{9, 0, 1, 4, 9, 16}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_index_out_of_range_is_an_error) {
  const data::Dataset squares = Squares{5};
  BOOST_CHECK_EXCEPTION(squares.get(5), IndexError, says("got 5", "below 5"));
  BOOST_CHECK_EXCEPTION(squares.get(-1), IndexError, says("got -1"));
  BOOST_CHECK_EXCEPTION(squares.subset({0, 7}), IndexError, says("subset", "got 7"));
}

BOOST_AUTO_TEST_CASE(a_random_split_deals_out_every_example_once) {
  const auto check = [](const std::vector<double>& parts, std::vector<int64_t> sizes) {
    const auto split = data::random_split(Squares{10}, parts, test_seed());
    std::vector<int64_t> found, got;
    for (const auto& part : split) {
      got.push_back(part.size());
      for (const int64_t square : all(part)) found.push_back(square);
    }
    BOOST_TEST(got == sizes, boost::test_tools::per_element());
    std::ranges::sort(found);
    BOOST_TEST(found == all(data::Dataset(Squares{10})), boost::test_tools::per_element());
  };
  check({7, 3}, {7, 3});
  check({0.7, 0.3}, {7, 3});
  check({0.45, 0.45, 0.1}, {5, 4, 1});  // what is left over goes to the first
  check({10, 0}, {10, 0});
  check({1, 0}, {10, 0});
  check({1}, {10});
  const auto of = [](uint64_t seed) { return all(data::random_split(Squares{10}, {5, 5}, seed)[0]); };
  BOOST_TEST((of(test_seed()) == of(test_seed())));
  const auto first = of(test_seed());
  bool differs = false;  // two seeds may give the same split of ten
  for (uint64_t salt = 1; salt <= 5; ++salt) differs = differs || of(test_seed(salt)) != first;
  BOOST_TEST(differs);
}

BOOST_AUTO_TEST_CASE(parts_that_do_not_add_up_are_refused) {
  for (const std::vector<double>& parts :
       {std::vector<double>{7, 4}, {7, 2}, {-1, 11}, {0.5, 0.6}, {2.5, 7.5}, {NAN, 10}, {1e300}, {}}) {
    BOOST_CHECK_EXCEPTION(data::random_split(Squares{10}, parts, 1), Error, says("random_split", "add up to 10"));
  }
}

BOOST_AUTO_TEST_SUITE_END()
