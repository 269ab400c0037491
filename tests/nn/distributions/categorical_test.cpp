#include "tendril/nn/distributions/categorical.h"
#include "tendril/tensor/raw.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/errors.h"
#include "tests/golden.h"
#include "tests/make.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(categorical)

using tendril::Dims;
using tendril::DType;
using tendril::DTypeError;
using tendril::Error;
using tendril::Generator;
using tendril::IndexError;
using tendril::ShapeError;
using tendril::Tensor;
using tendril::distributions::Categorical;
using tendril::testing::difference;
using tendril::testing::Golden;
using tendril::testing::says;
using tendril::testing::test_seed;
namespace make = tendril::make;
namespace raw = tendril::raw;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

Categorical named(const std::string& kind, const Tensor& param) {
  return kind == "probs" ? Categorical({.probs = param}) : Categorical({.logits = param});
}

Tensor row(const std::vector<double>& values) { return make::from_data(values, {static_cast<int64_t>(values.size())}); }

/// sum (observed - expected)^2 / expected
double chi_square(const std::vector<double>& observed, const std::vector<double>& probs) {
  double draws = 0, total = 0;
  for (double count : observed) draws += count;
  for (std::size_t k = 0; k < probs.size(); ++k) {
    total += (observed[k] - draws * probs[k]) * (observed[k] - draws * probs[k]) / (draws * probs[k]);
  }
  return total;
}

}  // namespace

BOOST_AUTO_TEST_CASE(log_prob_and_entropy_equal_pytorchs) {
  const Golden golden(TENDRIL_TEST_DATA "/categorical.txt");
  for (const std::string kind : {"probs", "logits"}) {
    auto check = [&](const std::string& name, const Tensor& given, const auto& function) {
      BOOST_TEST_CONTEXT(kind << "." << name) {
        Tensor param = raw::clone(given).requires_grad_();
        const Tensor y = function(named(kind, param));
        BOOST_TEST(difference(y, golden.get(kind + "." + name + ".y"), 1e-12, 1e-14) == "");
        y.backward(golden.get(kind + "." + name + ".g"));
        BOOST_TEST(difference(param.grad(), golden.get(kind + "." + name + ".dparam"), 1e-12, 1e-13) == "");
      }
    };
    const Tensor param = golden.get(kind);
    check("log_prob", param, [&](const Categorical& c) { return c.log_prob(golden.get("value")); });
    check("log_probs", param, [&](const Categorical& c) { return c.log_prob(golden.get("values")); });
    check("entropy", param.clamp(-800.0, std::nullopt), [](const Categorical& c) { return c.entropy(); });
    const Categorical categorical = named(kind, param);
    BOOST_TEST(difference(categorical.probs(), golden.get(kind + ".all_probs"), 1e-12) == "");
    BOOST_TEST(difference(categorical.logits(), golden.get(kind + ".all_logits"), 1e-12, 1e-14) == "");
  }
}

BOOST_AUTO_TEST_CASE(float32_follows_float64) {
  const Golden golden(TENDRIL_TEST_DATA "/categorical.txt");
  const Tensor logits = golden.get("logits", tendril::kFloat32);
  const Categorical categorical({.logits = logits});
  const Tensor log_prob = categorical.log_prob(golden.get("value"));
  BOOST_TEST((log_prob.dtype() == tendril::kFloat32));
  BOOST_TEST(difference(log_prob, golden.get("logits.log_prob.y"), 1e-6, 1e-6) == "");
  BOOST_TEST(difference(categorical.entropy(), golden.get("logits.entropy.y"), 1e-6, 1e-6) == "");
}

BOOST_AUTO_TEST_CASE(the_entropys_gradient_is_finite_where_a_class_is_impossible) {
  Tensor logits = row({0, 1, -kInf}).requires_grad_();
  Tensor possible = row({0, 1}).requires_grad_();
  const Tensor entropy = Categorical({.logits = logits}).entropy();
  entropy.backward();
  Categorical({.logits = possible}).entropy().backward();
  const std::vector<double> with = logits.grad().to_vector<double>(), without = possible.grad().to_vector<double>();
  BOOST_TEST(with[0] == without[0], boost::test_tools::tolerance(1e-14));
  BOOST_TEST(with[1] == without[1], boost::test_tools::tolerance(1e-14));
  BOOST_TEST(with[2] == 0);
}

BOOST_AUTO_TEST_CASE(a_divergence_is_infinite_where_the_second_never_gives_a_class_of_the_first) {
  const auto of = [](std::vector<double> logits) {
    return Categorical({.logits = make::from_data(std::move(logits), {2})});
  };
  const auto divergence = [](const Categorical& p, const Categorical& q) {
    return tendril::distributions::kl_divergence(p, q).item<double>();
  };
  BOOST_TEST(divergence(of({0, 0}), of({0, -20000})) == kInf);  // its probability is 0 in float64, too
  BOOST_TEST(divergence(of({0, 0}), of({0, -kInf})) == kInf);
  BOOST_TEST(divergence(of({0, -20000}), of({0, 0})) == std::log(2.0), boost::test_tools::tolerance(1e-12));
  BOOST_TEST(divergence(of({0, 0}), of({0, -600})) == 300 - std::log(2.0), boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(frequencies_of_samples_are_the_probabilities) {
  const std::vector<std::vector<double>> rows = {
      {0.1, 0.2, 0.3, 0.4}, {0.25, 0.25, 0.25, 0.25}, {0.01, 0.9, 0.04, 0.05}};
  std::vector<double> all;
  for (const auto& probs : rows) all.insert(all.end(), probs.begin(), probs.end());
  const Tensor probs = make::from_data(all, {3, 4});
  Generator generator(test_seed());
  for (const Categorical& categorical :
       {Categorical({.probs = probs.mul(7.0)}), Categorical({.logits = probs.log()})}) {
    const Tensor draws = categorical.sample(generator, {50000});
    BOOST_TEST((draws.sizes() == Dims{50000, 3}));
    const std::vector<int64_t> values = draws.to_vector<int64_t>();
    for (std::size_t r = 0; r < 3; ++r) {
      std::vector<double> observed(4);
      for (std::size_t i = r; i < values.size(); i += 3) ++observed.at(static_cast<std::size_t>(values[i]));
      // With 3 degrees of freedom, chi-square is above 52 with probability 3e-11.
      BOOST_TEST(chi_square(observed, rows[r]) < 52);
    }
  }
}

BOOST_AUTO_TEST_CASE(an_impossible_class_is_never_drawn) {
  Generator generator(test_seed());
  for (const Categorical& categorical :
       {Categorical({.probs = row({0, 0.5, 0, 0.5, 0})}), Categorical({.logits = row({-kInf, 0, -kInf, 0, -kInf})})}) {
    for (int64_t k : categorical.sample(generator, {10000}).to_vector<int64_t>()) BOOST_REQUIRE((k == 1 || k == 3));
  }
  BOOST_TEST(Categorical({.probs = row({0, 0, 2})}).sample(generator).item<int64_t>() == 2);
}

BOOST_AUTO_TEST_CASE(a_generator_decides_the_samples) {
  Generator first(test_seed()), second(test_seed());
  const Categorical categorical({.probs = make::ones({5, 10})});
  const Tensor a = categorical.sample(first);
  BOOST_TEST((a.sizes() == Dims{5}));
  BOOST_TEST((a.dtype() == tendril::kInt64));
  BOOST_TEST(raw::equal(a, categorical.sample(second)));
  BOOST_TEST(!raw::equal(categorical.sample(first, {20}), categorical.sample(second, {20}).mul(0)));
}

BOOST_AUTO_TEST_CASE(samples_are_not_recorded) {
  Tensor probs = make::ones({2}).requires_grad_();
  const Categorical categorical({.probs = probs});
  BOOST_TEST(!categorical.sample().requires_grad());
  BOOST_TEST(categorical.log_prob(categorical.sample()).requires_grad());
  BOOST_TEST(categorical.num_classes() == 2);
  BOOST_TEST((categorical.batch_shape() == Dims{}));
}

BOOST_AUTO_TEST_CASE(a_strided_parameter_is_read_in_order) {
  Generator first(test_seed()), second(test_seed());
  const Tensor matrix = make::from_data(std::vector<double>{1, 0, 0, 0, 0, 1}, {2, 3});
  const Tensor turned = raw::transpose(matrix, 0, 1);  // columns of `matrix`: the second is all zero
  BOOST_CHECK_EXCEPTION(Categorical({.probs = turned}), Error, says("row 1", "sums to 0"));
  const Tensor slopes = raw::transpose(make::from_data(std::vector<double>{0, 3, 1, 1, 3, 0}, {2, 3}), 0, 1);
  BOOST_TEST(raw::equal(Categorical({.probs = slopes}).sample(first, {100}),
                        Categorical({.probs = raw::contiguous(slopes)}).sample(second, {100})));
}

BOOST_AUTO_TEST_CASE(bad_parameters_are_refused) {
  auto probs = [](const std::vector<double>& values) { return Categorical({.probs = row(values)}); };
  auto logits = [](const std::vector<double>& values) { return Categorical({.logits = row(values)}); };
  BOOST_CHECK_EXCEPTION(probs({0.5, -0.5, 1}), Error, says("Categorical", "probs", "class 1 of row 0", "-0.5"));
  BOOST_CHECK_EXCEPTION(probs({0.5, NAN}), Error, says("Categorical", "probs", "nan"));
  BOOST_CHECK_EXCEPTION(probs({0.5, kInf}), Error, says("Categorical", "probs", "inf"));
  BOOST_CHECK_EXCEPTION(probs({0, 0}), Error, says("Categorical", "probs", "row 0 sums to 0", "positive"));
  BOOST_CHECK_EXCEPTION(logits({0, NAN}), Error, says("Categorical", "logits", "nan"));
  BOOST_CHECK_EXCEPTION(logits({0, kInf}), Error, says("Categorical", "logits", "inf"));
  BOOST_CHECK_EXCEPTION(logits({-kInf, -kInf}), Error, says("Categorical", "logits", "all -infinity"));
  BOOST_CHECK_EXCEPTION(Categorical({}), Error, says("Categorical", "neither", "exactly one"));
  BOOST_CHECK_EXCEPTION(Categorical({.probs = row({1}), .logits = row({1})}), Error, says("both", "exactly one"));
  BOOST_CHECK_EXCEPTION(Categorical({.probs = make::ones({})}), ShapeError, says("probs", "[]", "[..., classes]"));
  BOOST_CHECK_EXCEPTION(Categorical({.probs = make::ones({2, 0})}), ShapeError, says("probs", "[2, 0]", "class"));
  BOOST_CHECK_EXCEPTION(Categorical({.logits = make::ones({2}, tendril::kInt64)}), DTypeError, says("logits", "int64"));
}

BOOST_AUTO_TEST_CASE(bad_values_are_refused) {
  const Categorical categorical({.probs = make::ones({2, 3})});
  auto value = [](const std::vector<int64_t>& values) {
    return make::from_data(values, {static_cast<int64_t>(values.size())});
  };
  BOOST_CHECK_EXCEPTION(categorical.log_prob(value({0, 3})), IndexError, says("log_prob", "element 1 is 3", "[0, 3)"));
  BOOST_CHECK_EXCEPTION(categorical.log_prob(value({-1, 0})), IndexError, says("log_prob", "element 0 is -1"));
  BOOST_CHECK_EXCEPTION(categorical.log_prob(value({0, 1, 2})), ShapeError, says("log_prob", "[3]", "[2]"));
  BOOST_CHECK_EXCEPTION(categorical.log_prob(make::zeros({2})), DTypeError, says("log_prob", "float32", "int64"));
  BOOST_CHECK_EXCEPTION(categorical.log_prob(Tensor()), Error, says("log_prob", "undefined"));
}

BOOST_AUTO_TEST_SUITE_END()
