#include "tendril/nn/optim/ema.h"
#include "tendril/nn/linear.h"
#include "tendril/tensor/raw.h"

#include <boost/test/unit_test.hpp>
#include <limits>
#include <vector>

#include "tests/errors.h"
#include "tests/golden.h"
#include "tests/make.h"

BOOST_AUTO_TEST_SUITE(ema)

using tendril::Error;
using tendril::Tensor;
using tendril::optim::ExponentialMovingAverage;
using tendril::testing::difference;
using tendril::testing::says;
namespace make = tendril::make;
namespace raw = tendril::raw;

BOOST_AUTO_TEST_CASE(twenty_updates_equal_pytorchs) {
  const tendril::testing::Golden golden(TENDRIL_TEST_DATA "/ema.txt");
  const Tensor values = golden.get("values"), expected = golden.get("averages");
  const Tensor param = make::zeros({2, 3}, tendril::kFloat64).requires_grad_();
  ExponentialMovingAverage ema({param}, 0.9);
  for (int64_t step = 0; step < values.size(0); ++step) {
    raw::copy_(param, raw::select(values, 0, step));
    ema.update();
    BOOST_TEST(difference(ema.averages()[0], raw::select(expected, 0, step), 1e-14, 1e-15) == "", "step " << step);
  }
  BOOST_TEST(ema.updates() == values.size(0));
  BOOST_TEST(!ema.averages()[0].requires_grad());
}

BOOST_AUTO_TEST_CASE(averages_stand_in_for_the_parameters_while_a_scope_lasts) {
  const Tensor param = make::full({2}, 1).requires_grad_();
  ExponentialMovingAverage ema({param}, 0.5);
  ema.update();
  raw::fill_(param, 3);
  ema.update();
  {
    const auto averaged = ema.apply();
    BOOST_TEST(raw::equal(param, make::full({2}, 2)));
  }
  BOOST_TEST(raw::equal(param, make::full({2}, 3)));
  ema.copy_to_parameters();
  BOOST_TEST(raw::equal(param, make::full({2}, 2)));
}

BOOST_AUTO_TEST_CASE(saved_averages_go_on_where_they_were) {
  const Tensor param = make::full({2}, 1).requires_grad_();
  ExponentialMovingAverage ema({param}, 0.5), other({param}, 0.5);
  ema.update();
  raw::fill_(param, 3);
  ema.update();
  other.load_state_dict(ema.state_dict());
  BOOST_TEST(other.updates() == 2);
  ema.update();
  BOOST_TEST(raw::equal(other.averages()[0], make::full({2}, 2)));  // a copy
  other.update();
  BOOST_TEST(raw::equal(other.averages()[0], ema.averages()[0]));
  tendril::StateDict wrong;
  wrong.insert("updates", int64_t{-1});
  wrong.insert("averages.0", make::zeros({3}));
  wrong.insert("averages.1", make::zeros({2}));
  BOOST_CHECK_EXCEPTION(other.load_state_dict(wrong), Error, says("updates", "-1", "averages.0", "[3]", "averages.1"));
  raw::fill_(wrong.at("updates"), std::numeric_limits<int64_t>::max());
  BOOST_CHECK_EXCEPTION(other.load_state_dict(wrong), Error, says("updates", "2^53"));
  BOOST_TEST(other.updates() == 3);
}

BOOST_AUTO_TEST_CASE(averages_of_halves_are_float32) {
  for (const tendril::DType half : {tendril::kBFloat16, tendril::kFloat16}) {
    const Tensor narrow = make::full({2, 3}, 1, half).requires_grad_(), wide = make::full({2, 3}, 1).requires_grad_();
    ExponentialMovingAverage ema({narrow}, 0.999), expected({wide}, 0.999);
    ema.update();
    expected.update();
    raw::fill_(narrow, 2);
    raw::fill_(wide, 2);
    for (int step = 0; step < 1000; ++step) {
      ema.update();
      expected.update();
    }
    const Tensor average = ema.averages()[0];
    BOOST_TEST((average.dtype() == tendril::kFloat32));
    BOOST_TEST(difference(average, make::full({2, 3}, 1.6323, tendril::kFloat64), 1e-4) == "");  // 2 - 0.999^1000
    BOOST_TEST(raw::equal(average, expected.averages()[0]));
    {
      const auto averaged = ema.apply();
      BOOST_TEST(raw::equal(narrow, raw::cast(average, half)));  // rounded once
    }
    BOOST_TEST(raw::equal(narrow, make::full({2, 3}, 2, half)));
    ExponentialMovingAverage resumed({narrow}, 0.999);
    resumed.load_state_dict(ema.state_dict());
    BOOST_TEST(raw::equal(resumed.averages()[0], average));
    tendril::StateDict old;  // saved when averages were of the parameter's dtype
    old.insert("updates", int64_t{1001});
    old.insert("averages.0", raw::cast(average, half));
    resumed.load_state_dict(old);
    BOOST_TEST((resumed.averages()[0].dtype() == tendril::kFloat32));
    BOOST_TEST(raw::equal(resumed.averages()[0], raw::cast(old.at("averages.0"), tendril::kFloat32)));
  }
}

BOOST_AUTO_TEST_CASE(a_parameter_that_was_cast_is_refused) {
  tendril::nn::Linear linear(2, 1, {.dtype = tendril::kBFloat16});
  ExponentialMovingAverage ema(linear.parameters());
  linear.to(tendril::kFloat32);  // the averages' dtype
  BOOST_CHECK_EXCEPTION(ema.update(), Error, says("parameter 0 is float32", "expected bfloat16"));
  BOOST_CHECK_EXCEPTION(ema.copy_to_parameters(), Error, says("parameter 0 is float32", "expected bfloat16"));
  BOOST_TEST(ema.updates() == 0);
}

BOOST_AUTO_TEST_CASE(what_makes_no_sense_is_refused) {
  const Tensor param = make::ones({2}).requires_grad_();
  BOOST_CHECK_EXCEPTION(ExponentialMovingAverage({param}, 1.5), Error, says("decay", "1.5", "[0, 1]"));
  BOOST_CHECK_EXCEPTION(ExponentialMovingAverage({}), Error, says("params", "empty"));
  BOOST_CHECK_EXCEPTION(ExponentialMovingAverage({Tensor()}), Error, says("params[0]", "undefined"));
  BOOST_CHECK_EXCEPTION(ExponentialMovingAverage({make::ones({2}, tendril::kInt64)}), tendril::DTypeError,
                        says("int64"));
}

BOOST_AUTO_TEST_SUITE_END()
