#include "tendril/tensor/state_dict.h"

#include <boost/test/unit_test.hpp>
#include <limits>

#include "tendril/tensor/random.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"

BOOST_AUTO_TEST_SUITE(state_dict)

using namespace tendril;
using tendril::testing::says;

namespace {

std::string names(const StateDict& dict) {
  std::string all;
  for (const auto& [name, tensor] : dict) all += name + " ";
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(entries_keep_their_order_and_are_found_by_name) {
  const Tensor weight = raw::ones({2, 3});
  StateDict dict{{"weight", weight}, {"bias", raw::zeros({2})}};
  dict.insert("a", 3);
  BOOST_TEST(names(dict) == "weight bias a ");
  BOOST_TEST(dict.size() == 3u);
  BOOST_TEST(dict.at("weight").is_same(weight));
  BOOST_TEST(dict.contains("bias"));
  BOOST_TEST(!dict.contains("b"));
  BOOST_CHECK_EXCEPTION(dict.at("b"), Error, says("StateDict::at", "'b'", "3 entries"));
}

BOOST_AUTO_TEST_CASE(names_are_used_once_and_tensors_are_defined) {
  StateDict dict{{"x", raw::ones({1})}};
  BOOST_CHECK_EXCEPTION(dict.insert("x", raw::ones({1})), Error, says("insert", "'x'", "there already"));
  BOOST_CHECK_EXCEPTION(dict.insert("", raw::ones({1})), Error, says("insert", "empty"));
  BOOST_CHECK_EXCEPTION(dict.insert("y", Tensor()), Error, says("insert", "'y'", "undefined"));
  BOOST_TEST(names(dict) == "x ");
}

BOOST_AUTO_TEST_CASE(numbers_are_tensors_without_dimensions_of_three_dtypes) {
  StateDict dict;
  dict.insert("integer", INT64_MIN);
  dict.insert("floating", 0.1);
  dict.insert("truth", true);
  BOOST_TEST((dict.at("integer").dtype() == kInt64 && dict.at("integer").item<int64_t>() == INT64_MIN));
  BOOST_TEST((dict.at("floating").dtype() == kFloat64 && dict.at("floating").item<double>() == 0.1));
  BOOST_TEST((dict.at("truth").dtype() == kBool && dict.at("truth").item<bool>()));
  BOOST_TEST(dict.at("truth").dim() == 0);
}

BOOST_AUTO_TEST_CASE(a_dict_within_a_dict_is_a_section_of_names) {
  StateDict outer;
  outer.insert("model", StateDict{{"weight", raw::ones({1})}, {"a.b", raw::zeros({1})}});
  outer.insert("modelling", 1);
  BOOST_TEST(names(outer) == "model.weight model.a.b modelling ");
  BOOST_TEST(names(outer.section("model")) == "weight a.b ");
  BOOST_TEST(outer.section("nothing").empty());
}

BOOST_AUTO_TEST_CASE(a_clone_does_not_see_later_changes) {
  const Tensor x = raw::ones({2});
  const StateDict dict{{"x", x}}, snapshot = dict.clone();
  raw::fill_(x, 5);
  BOOST_TEST(raw::equal(dict.at("x"), raw::full({2}, 5)));
  BOOST_TEST(raw::equal(snapshot.at("x"), raw::ones({2})));
}

BOOST_AUTO_TEST_CASE(a_reader_says_all_that_is_wrong_in_one_error) {
  StateDict dict{{"shape", raw::ones({2, 3})}, {"dtype", raw::ones({2})}, {"vector", raw::ones({2})}};
  dict.insert("half", 0.5);
  dict.insert("truth", 1);
  dict.insert("large", 300);
  dict.insert("negative", -1);
  dict.insert("huge", 1e300);
  dict.insert("more", 1);
  StateReader reader(dict, "Thing::load_state_dict");
  BOOST_TEST(!reader.tensor("shape", {3, 2}, kFloat32));
  BOOST_TEST(!reader.tensor("dtype", {2}, kInt64));
  BOOST_TEST(!reader.tensor("absent", {2}, kFloat32));
  int64_t integer = 7;
  reader.number("half", integer);
  reader.number("vector", integer);
  bool truth = false;
  reader.number("truth", truth);
  uint8_t small = 9;
  reader.number("large", small);
  BOOST_TEST(integer == 7);
  BOOST_TEST(int{small} == 9);
  uint64_t natural = 9;
  reader.number("negative", natural);
  BOOST_TEST(natural == 9U);
  float narrow = 9;
  reader.number("huge", narrow);
  BOOST_TEST(narrow == 9);
  const auto all = says("Thing::load_state_dict", "nothing was loaded", "missing: absent", "unexpected: more",
                        "shape: got shape [2, 3], expected [3, 2]", "dtype: got dtype float32, expected int64",
                        "half: got 0.5, expected an integer", "vector: got shape [2], expected one number",
                        "truth: got a number, expected true or false", "large: got 300, which is out of range",
                        "negative: got -1, which is out of range", "huge: got a number that is out of range");
  BOOST_CHECK_EXCEPTION(reader.finish({}), Error, all);
  BOOST_CHECK_EXCEPTION(reader.finish({.strict = false}), Error, [&](const Error& error) {
    return std::string(error.what()).find("absent") == std::string::npos && says("shape: got")(error);
  });
}

BOOST_AUTO_TEST_CASE(what_converts_without_surprise_is_taken) {
  StateDict dict{{"half", raw::ones({2}, kFloat16)}, {"count", raw::ones({2}, kInt64)}};
  dict.insert("step", 5.0);  // as PyTorch's Adam counts
  dict.insert("lr", 1);
  StateReader reader(dict, "Thing");
  BOOST_TEST(reader.tensor("half", {2}, kFloat64));
  BOOST_TEST(reader.tensor("count", {2}, kFloat32));
  int step = 0;
  double lr = 0;
  reader.number("step", step);
  reader.number("lr", lr);
  BOOST_TEST(step == 5);
  BOOST_TEST(lr == 1);
  const LoadReport report = reader.finish({});
  BOOST_TEST(report.missing.empty());
  BOOST_TEST(report.unexpected.empty());
}

BOOST_AUTO_TEST_CASE(a_generator_goes_on_where_the_saved_one_was) {
  Generator first(0xfedcba9876543210), second(1);
  first.bits();
  const StateDict saved = first.state_dict();
  BOOST_TEST(names(saved) == "seed offset ");
  second.load_state_dict(saved);
  BOOST_TEST((second.state() == first.state()));
  BOOST_TEST(second.bits() == first.bits());
  Generator third(3);
  const StateDict wrong{{"seed", raw::ones({2})}};
  BOOST_CHECK_EXCEPTION(third.load_state_dict(wrong), Error,
                        says("Generator", "missing: offset", "seed: got shape [2]"));
  third.load_state_dict(saved, {.check_only = true});
  BOOST_TEST((third.state() == Generator::State{3, 0}));
}

BOOST_AUTO_TEST_SUITE_END()
