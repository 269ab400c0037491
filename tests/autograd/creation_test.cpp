#include "tendril/tensor/creation.h"

#include <boost/test/unit_test.hpp>

#include "tendril/tensor/raw.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(creation)

using namespace tendril;
using tendril::testing::test_seed;

namespace {

/// What each function that makes a tensor makes of the same wishes.
std::vector<std::pair<const char*, Tensor>> made_without_a_device() {
  Generator generator(test_seed());
  const std::vector<float> values = {1, 2, 3, 4};
  const Tensor like = ones({2});
  return {{"empty", empty({2, 3})},
          {"zeros", zeros({2, 3})},
          {"ones", ones({2, 3})},
          {"full", full({2}, 7)},
          {"eye", eye(3)},
          {"eye of a rectangle", eye(2, 3)},
          {"arange to an end", arange(5)},
          {"arange with a start", arange(1.5, 4)},
          {"arange with options", arange(0, 4, 2, {.dtype = kFloat64})},
          {"linspace", linspace(0, 1, 5)},
          {"empty_like", empty_like(like)},
          {"zeros_like", zeros_like(like)},
          {"full_like", full_like(like, 3)},
          {"from_vector", from_vector(values, {2, 2})},
          {"from_vector with options", from_vector(values, {4}, {.dtype = kInt64})},
          {"a number", tensor(2.5)},
          {"a list", tensor({1, 2, 3})},
          {"rows with options", tensor({{1., 2.}, {3., 4.}}, {.dtype = kFloat64})},
          {"rand", rand({3})},
          {"rand of a generator", rand({3}, generator)},
          {"randn", randn({3})},
          {"randn of a generator", randn({3}, generator)},
          {"randint", randint(0, 9, {4})},
          {"randint of a generator", randint(0, 9, {4}, generator)},
          {"randperm", randperm(6)},
          {"randperm of a generator", randperm(6, generator)}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_names_no_device_is_made_on_the_default_one) {
  for (const auto& [name, made] : made_without_a_device()) {
    BOOST_TEST_CONTEXT(name) {
      BOOST_TEST((made.device() == default_device()));
      BOOST_TEST(made.is_leaf());
      BOOST_TEST(!made.requires_grad());
    }
  }
}

BOOST_AUTO_TEST_CASE(options_name_another_device) {
  const TensorOptions there{.dtype = kFloat64, .device = kCPU, .requires_grad = true};
  for (const Tensor& made :
       {zeros({2}, there), arange(0, 3, 1, there), eye(2, there), linspace(0, 1, 3, there), tensor({1, 2}, there),
        from_vector(std::vector<int64_t>{1, 2}, {2}, there), rand({2}, there), randn({2}, there)}) {
    BOOST_TEST(made.device().is_cpu());
    BOOST_TEST(made.dtype() == kFloat64);
    BOOST_TEST(made.requires_grad());
    BOOST_TEST(made.is_leaf());
  }
}

BOOST_AUTO_TEST_CASE(a_device_holds_what_was_asked_for) {
  BOOST_TEST(arange(5).to_vector<int64_t>() == (std::vector<int64_t>{0, 1, 2, 3, 4}));
  BOOST_TEST(arange(1.0, 2.5, 0.5).to_vector<double>() == (std::vector<double>{1, 1.5, 2}));
  BOOST_TEST(eye(2, 3).to_vector<float>() == (std::vector<float>{1, 0, 0, 0, 1, 0}));
  BOOST_TEST(linspace(0, 1, 5).to_vector<double>() == (std::vector<double>{0, 0.25, 0.5, 0.75, 1}));
  BOOST_TEST(full({2}, 7, {.dtype = kInt32}).to_vector<int32_t>() == (std::vector<int32_t>{7, 7}));
  BOOST_TEST(tensor({{1, 2}, {3, 4}}).to_vector<int64_t>() == (std::vector<int64_t>{1, 2, 3, 4}));
  BOOST_TEST(tensor({true, false}).to_vector<bool>() == (std::vector<bool>{true, false}));
  BOOST_TEST(from_vector(std::vector<double>{0.5, -1}, {2}, {.dtype = kFloat32}).to_vector<float>() ==
             (std::vector<float>{0.5, -1}));
}

BOOST_AUTO_TEST_CASE(what_a_generator_draws_is_the_same_on_every_device) {
  Generator here(test_seed()), there(test_seed());
  for (const DType dtype : {kFloat32, kFloat64}) {
    const Tensor drawn = rand({37}, there, {.dtype = dtype});
    BOOST_TEST(raw::equal(drawn.to(kCPU), rand({37}, here, {.dtype = dtype, .device = kCPU})));
  }
  BOOST_TEST(randperm(9, there).to_vector<int64_t>() == raw::randperm(9, here).to_vector<int64_t>());
  BOOST_TEST((there.state() == here.state()));
}

BOOST_AUTO_TEST_CASE(memory_that_is_not_ours_is_the_cpus) {
  float values[] = {1, 2, 3};
  BOOST_TEST(from_blob(values, {3}).device().is_cpu());
  BOOST_TEST(from_blob(values, {2}, {2}, {.dtype = kFloat32}).data<float>() == values);
}

BOOST_AUTO_TEST_SUITE_END()
