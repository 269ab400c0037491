// MultivariateNormal, and the divergence of categorical distributions.
#include "tendril/nn/distributions/multivariate_normal.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tendril/autograd/gradcheck.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/rearrange.h"
#include "tendril/nn/distributions/categorical.h"
#include "tests/errors.h"
#include "tests/make.h"
#include "tests/nn/layer_golden.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(multivariate_normal)

using namespace tendril;
using distributions::Categorical;
using distributions::kl_divergence;
using distributions::MultivariateNormal;
using tendril::testing::difference;
using tendril::testing::Golden;
using tendril::testing::says;
using tendril::testing::test_seed;

namespace {

using In = const std::vector<Tensor>&;

struct Case {
  std::string name;
  std::vector<std::string> inputs;
  std::function<Tensor(In)> f;
};

MultivariateNormal full(const Tensor& loc, const Tensor& scale) { return {loc, {.scale_tril = tril(scale)}}; }
MultivariateNormal diag(const Tensor& loc, const Tensor& scale) { return {loc, {.scale_diag = scale}}; }

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"log_prob", {"loc", "scale", "value"}, [](In in) { return full(in[0], in[1]).log_prob(in[2]); }},
      {"diag.log_prob", {"loc", "diag", "value"}, [](In in) { return diag(in[0], in[1]).log_prob(in[2]); }},
      {"kl",
       {"loc", "scale", "loc2", "scale2"},
       [](In in) { return kl_divergence(full(in[0], in[1]), full(in[2], in[3])); }},
      {"kl.diag",
       {"loc", "diag", "loc2", "diag2"},
       [](In in) { return kl_divergence(diag(in[0], in[1]), diag(in[2], in[3])); }},
      {"kl.mixed",
       {"loc", "diag", "loc2", "scale2"},
       [](In in) { return kl_divergence(diag(in[0], in[1]), full(in[2], in[3])); }},
      {"kl.categorical",
       {"probs", "logits"},
       [](In in) { return kl_divergence(Categorical({.probs = in[0]}), Categorical({.logits = in[1]})); }},
  };
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(values_and_gradients_equal_pytorchs) {
  const Golden golden(TENDRIL_TEST_DATA "/multivariate_normal.txt");
  for (const DType dtype : {kFloat64, kFloat32}) {
    for (const Case& each : cases()) {
      std::vector<Tensor> in;
      std::vector<std::pair<std::string, Tensor>> leaves;
      for (const std::string& name : each.inputs) {
        in.push_back(golden.get(name, dtype).requires_grad_());
        leaves.emplace_back(name, in.back());
      }
      check_layer(
          golden, each.name, dtype, [&] { return each.f(in); }, leaves, 20);
    }
    const Tensor loc = golden.get("loc", dtype), scale = golden.get("scale", dtype).requires_grad_(),
                 width = golden.get("diag", dtype).requires_grad_();
    check_layer(
        golden, "entropy", dtype, [&] { return full(loc, scale).entropy(); }, {{"scale", scale}}, 5);
    check_layer(
        golden, "diag.entropy", dtype, [&] { return diag(loc, width).entropy(); }, {{"diag", width}}, 5);
  }
}

BOOST_AUTO_TEST_CASE(derivatives_of_both_orders_agree_with_differences) {
  const Golden golden(TENDRIL_TEST_DATA "/multivariate_normal.txt");
  for (const Case& each : cases()) {
    std::vector<Tensor> in;
    for (const std::string& name : each.inputs) in.push_back(golden.get(name).requires_grad_());
    const auto f = [&](In x) { return std::vector<Tensor>{each.f(x)}; };
    const auto first = autograd::gradcheck(f, in), second = autograd::gradgradcheck(f, in);
    BOOST_TEST(first.ok, each.name << ": " << first.message);
    BOOST_TEST(second.ok, each.name << ": " << second.message);
  }
}

BOOST_AUTO_TEST_CASE(samples_have_its_mean_and_covariance) {
  Generator generator(test_seed());
  const Tensor loc = make::from_data(std::vector<double>{1, -2}, {2}),
               scale = make::from_data(std::vector<double>{2, 0, -1, 0.5}, {2, 2});
  for (const MultivariateNormal& normal : {full(loc, scale), diag(loc, make::full({2}, 1.5, kFloat64))}) {
    const Tensor x = normal.sample(generator, {160'000});
    BOOST_TEST((x.sizes() == Dims{160'000, 2}));
    BOOST_TEST(difference(x.mean({0}), loc, 0, 0.05) == "");
    const Tensor off = x - loc, covariance = off.t().mm(off) / 160'000.0;
    BOOST_TEST(difference(covariance, normal.covariance_matrix(), 0, 0.1) == "");
    BOOST_TEST(difference(normal.variance(), tendril::diag(normal.covariance_matrix()), 1e-12) == "");
  }
  const Tensor moved = loc.clone().requires_grad_();
  MultivariateNormal(moved, {.scale_tril = scale}).rsample(generator, {3}).sum().backward();
  BOOST_TEST(moved.grad().to_vector<double>() == (std::vector<double>{3, 3}));
  BOOST_TEST(!MultivariateNormal(moved, {.scale_tril = scale}).sample(generator).requires_grad());
  const MultivariateNormal batch = full(make::zeros({4, 1, 2}, kFloat64), scale.expand({3, 2, 2}));
  BOOST_TEST((batch.batch_shape() == Dims{4, 3}));
  BOOST_TEST((batch.rsample(generator, {5}).sizes() == Dims{5, 4, 3, 2}));
}

BOOST_AUTO_TEST_CASE(a_class_that_cannot_be_makes_the_divergence_infinite_or_adds_nothing) {
  const Tensor p = make::from_data(std::vector<double>{0, 0.5, 0.5}, {3}),
               q = make::from_data(std::vector<double>{0.5, 0, 0.5}, {3});
  BOOST_TEST(kl_divergence(Categorical({.probs = p}), Categorical({.probs = q})).item<double>() == HUGE_VAL);
  const Tensor wide = make::from_data(std::vector<double>{0.5, 0.25, 0.25}, {3});
  BOOST_TEST(std::abs(kl_divergence(Categorical({.probs = p}), Categorical({.probs = wide})).item<double>() -
                      std::log(2)) < 1e-12);
  BOOST_TEST(kl_divergence(Categorical({.logits = p.log()}), Categorical({.logits = q.log()})).item<double>() ==
             HUGE_VAL);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused) {
  const Tensor loc = make::zeros({2}, kFloat64), eye = make::eye(2, 2, kFloat64);
  const auto make_one = [&](const distributions::MultivariateNormalParams& params) {
    return [&loc, params] { MultivariateNormal normal(loc, params); };
  };
  BOOST_CHECK_EXCEPTION(make_one({})(), Error, says("MultivariateNormal", "neither"));
  BOOST_CHECK_EXCEPTION(make_one({.scale_tril = eye, .scale_diag = loc})(), Error, says("both"));
  BOOST_CHECK_EXCEPTION(make_one({.scale_tril = make::ones({3, 3}, kFloat64)})(), ShapeError,
                        says("scale_tril", "[3, 3]", "2"));
  BOOST_CHECK_EXCEPTION(make_one({.scale_diag = make::ones({2})})(), DTypeError, says("float64", "float32"));
  if (default_device().is_cpu()) {
    BOOST_CHECK_EXCEPTION(make_one({.scale_diag = loc})(), Error, says("scale_diag", "positive"));
    BOOST_CHECK_EXCEPTION(make_one({.scale_tril = make::ones({2, 2}, kFloat64)})(), Error, says("lower triangular"));
  }
  const MultivariateNormal normal(loc, {.scale_tril = eye});
  BOOST_CHECK_EXCEPTION(normal.log_prob(make::ones({3}, kFloat64)), ShapeError, says("value", "[3]"));
  BOOST_CHECK_EXCEPTION(normal.log_prob({}), Error, says("value is an undefined"));
  const MultivariateNormal other(make::zeros({1}, kFloat64), {.scale_diag = make::ones({1}, kFloat64)});
  BOOST_CHECK_EXCEPTION(kl_divergence(normal, other), ShapeError, says("kl_divergence", "2", "1"));
}

BOOST_AUTO_TEST_SUITE_END()
