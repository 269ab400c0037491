#include "tendril/tensor/creation.h"

#include <boost/test/unit_test.hpp>

#include "tendril/tensor/raw.h"
#include "tests/errors.h"
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

BOOST_AUTO_TEST_CASE(options_are_the_last_argument) {
  Generator generator(test_seed());
  const TensorOptions options{.dtype = kFloat64, .requires_grad = true};
  const std::vector<int64_t> values{1, 2};
  for (const Tensor& made : {arange(4, options), arange(1, 4, options), arange(1, 4, 2, options), eye(2, options),
                             eye(2, 3, options), linspace(0, 1, 3, options), randint(9, {3}, options),
                             randint(2, 9, {3}, options), randint(2, 9, {3}, generator, options), randperm(5, options),
                             randperm(5, generator, options), rand({2}, generator, options),
                             randn({2}, generator, options), full({2}, 7, options), tensor(values, options)}) {
    BOOST_TEST(made.dtype() == kFloat64);
    BOOST_TEST(made.requires_grad());
    BOOST_TEST(made.is_leaf());
  }
  BOOST_TEST(arange(3, {.dtype = kInt64}).to_vector<int64_t>() == (std::vector<int64_t>{0, 1, 2}));
  BOOST_TEST(arange(1, 3, {.dtype = kFloat64}).to_vector<double>() == (std::vector<double>{1, 2}));
  BOOST_TEST(randint(7, 8, {2}, {.dtype = kUInt8}).to_vector<uint8_t>() == (std::vector<uint8_t>{7, 7}));
  Generator same(test_seed()), again(test_seed());
  BOOST_TEST(raw::equal(randperm(9, same, {.dtype = kInt32}), raw::cast(randperm(9, again), kInt32)));
  BOOST_TEST(raw::equal(randint(9, {5}, same), randint(0, 9, {5}, again)));
}

BOOST_AUTO_TEST_CASE(a_dtype_stands_for_options) {
  Generator generator(test_seed());
  const std::vector<int64_t> values{1, 2};
  for (const Tensor& made : {empty({2}, kFloat64),
                             zeros({2}, kFloat64),
                             ones({2}, kFloat64),
                             full({2}, 7, kFloat64),
                             eye(2, kFloat64),
                             eye(2, 3, kFloat64),
                             arange(4, kFloat64),
                             arange(1, 4, kFloat64),
                             arange(1, 4, 2, kFloat64),
                             linspace(0, 1, 3, kFloat64),
                             from_vector(values, {2}, kFloat64),
                             tensor(5, kFloat64),
                             tensor({5}, kFloat64),
                             tensor({{1, 2}, {3, 4}}, kFloat64),
                             tensor({{{1, 2}}}, kFloat64),
                             tensor(values, kFloat64),
                             rand({2}, kFloat64),
                             randn({2}, kFloat64),
                             rand({2}, generator, kFloat64),
                             randn({2}, generator, kFloat64),
                             randint(2, 9, {3}, kFloat64)}) {
    BOOST_TEST(made.dtype() == kFloat64);
  }
}

BOOST_AUTO_TEST_CASE(integers_that_a_dtype_does_not_hold_are_refused) {
  const auto refuses = [](const auto& call, const auto&... parts) {
    BOOST_CHECK_EXCEPTION(call(), DTypeError, testing::says(parts...));
  };
  refuses([] { randint(0, 257, {3}, {.dtype = kUInt8}); }, "randint: the value 256 does not convert to uint8");
  refuses([] { randint(-1, 2, {3}, {.dtype = kUInt8}); }, "randint: the value -1");
  refuses([] { randint(0, int64_t{1} << 32, {3}, {.dtype = kInt32}); }, "randint", "int32");
  refuses([] { randint(0, 5000, {3}, {.dtype = kFloat16}); }, "randint", "4999", "float16");
  refuses([] { randint(0, 2, {3}, {.dtype = kBool}); }, "randint: not for bool");
  refuses([] { randperm(257, {.dtype = kUInt8}).sizes(); }, "randperm: the value 256");
  BOOST_TEST(randperm(256, {.dtype = kUInt8}).numel() == 256);
  BOOST_TEST(randperm(0, {.dtype = kUInt8}).numel() == 0);
  BOOST_CHECK_EXCEPTION(randint(3, 3, {2}), Error, testing::says("randint: the range [3, 3) is empty"));
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
