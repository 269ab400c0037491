// Normal, Uniform and Bernoulli.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>

#include "tendril/autograd/gradcheck.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/distributions/bernoulli.h"
#include "tendril/nn/distributions/normal.h"
#include "tendril/nn/distributions/uniform.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/make.h"
#include "tests/nn/layer_golden.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(elementwise)

using tendril::DType;
using tendril::Error;
using tendril::Generator;
using tendril::Tensor;
using tendril::distributions::Bernoulli;
using tendril::distributions::kl_divergence;
using tendril::distributions::Normal;
using tendril::distributions::Uniform;
using tendril::testing::says;
using tendril::testing::test_seed;
namespace make = tendril::make;
namespace raw = tendril::raw;

namespace {

using In = const std::vector<Tensor>&;

struct Case {
  std::string name;
  std::vector<std::string> inputs;
  std::function<Tensor(In, const tendril::testing::Golden&, DType)> f;
};

const std::vector<Case>& cases() {
  using Golden = const tendril::testing::Golden&;
  static const std::vector<Case> all = {
      {"normal.log_prob",
       {"loc", "scale", "value"},
       [](In in, Golden, DType) { return Normal(in[0], in[1]).log_prob(in[2]); }},
      {"normal.entropy", {"scale"}, [](In in, Golden g, DType d) { return Normal(g.get("loc", d), in[0]).entropy(); }},
      {"normal.cdf", {"loc", "scale", "value"}, [](In in, Golden, DType) { return Normal(in[0], in[1]).cdf(in[2]); }},
      {"uniform.log_prob",
       {"low", "width"},
       [](In in, Golden g, DType d) { return Uniform(in[0], in[0] + in[1]).log_prob(g.get("inside", d)); }},
      {"uniform.entropy",
       {"low", "width"},
       [](In in, Golden, DType) { return Uniform(in[0], in[0] + in[1]).entropy(); }},
      {"bernoulli.log_prob",
       {"probs"},
       [](In in, Golden g, DType d) { return Bernoulli({.probs = in[0]}).log_prob(g.get("bits", d)); }},
      {"bernoulli.entropy", {"probs"}, [](In in, Golden, DType) { return Bernoulli({.probs = in[0]}).entropy(); }},
      {"bernoulli.logits_log_prob",
       {"logits"},
       [](In in, Golden g, DType d) { return Bernoulli({.logits = in[0]}).log_prob(g.get("bits", d)); }},
      {"bernoulli.logits_entropy",
       {"logits"},
       [](In in, Golden, DType) { return Bernoulli({.logits = in[0]}).entropy(); }},
      {"kl.normal",
       {"loc", "scale", "loc2", "scale2"},
       [](In in, Golden, DType) { return kl_divergence(Normal(in[0], in[1]), Normal(in[2], in[3])); }},
      {"kl.bernoulli",
       {"probs", "probs2"},
       [](In in, Golden, DType) { return kl_divergence(Bernoulli({.probs = in[0]}), Bernoulli({.probs = in[1]})); }},
      {"kl.uniform", {"low", "width"}, [](In in, Golden, DType) {
         return kl_divergence(Uniform(in[0], in[0] + in[1]), Uniform(in[0] - 0.5, in[0] + in[1] * 2.0));
       }}};
  return all;
}

double mean_of(const Tensor& x) { return x.to(tendril::kFloat64).mean().item<double>(); }

}  // namespace

BOOST_AUTO_TEST_CASE(values_and_gradients_equal_pytorchs) {
  const tendril::testing::Golden golden(TENDRIL_TEST_DATA "/distributions.txt");
  for (const DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    for (const Case& one : cases()) {
      std::vector<std::pair<std::string, Tensor>> leaves;
      std::vector<Tensor> in;
      for (const std::string& input : one.inputs) {
        in.push_back(golden.get(input, dtype).requires_grad_());
        leaves.emplace_back(input, in.back());
      }
      check_layer(
          golden, one.name, dtype, [&] { return one.f(in, golden, dtype); }, leaves, 5);
    }
  }
}

BOOST_AUTO_TEST_CASE(derivatives_of_both_orders_agree_with_differences) {
  const tendril::testing::Golden golden(TENDRIL_TEST_DATA "/distributions.txt");
  for (const Case& one : cases()) {
    std::vector<Tensor> in;
    for (const std::string& input : one.inputs) in.push_back(golden.get(input).requires_grad_());
    const auto f = [&](In given) { return std::vector<Tensor>{one.f(given, golden, tendril::kFloat64)}; };
    const auto first = tendril::autograd::gradcheck(f, in);
    BOOST_TEST(first.ok, one.name << ": " << first.message);
    const auto second = tendril::autograd::gradgradcheck(f, in);
    BOOST_TEST(second.ok, one.name << ": " << second.message);
  }
}

BOOST_AUTO_TEST_CASE(samples_have_their_distribution) {
  Generator generator(test_seed());
  const auto number = [](double value) { return make::full({1}, value, tendril::kFloat64); };
  const tendril::Dims many = {200'000};
  const Normal normal(number(3), number(2));
  const Tensor x = normal.sample(generator, many);
  BOOST_TEST((x.sizes() == tendril::Dims{200'000, 1}));
  BOOST_TEST(!x.requires_grad());
  BOOST_TEST(std::abs(mean_of(x) - 3) < 6.5 * 2 / std::sqrt(2e5));
  BOOST_TEST(std::abs(mean_of((x - 3.0).square()) - 4) < 0.1);
  BOOST_TEST(std::abs(mean_of(normal.cdf(x)) - 0.5) < 0.005);
  const Tensor u = Uniform(number(-1), number(2)).sample(generator, many);
  BOOST_TEST(u.min().item<double>() >= -1);
  BOOST_TEST(u.max().item<double>() < 2);
  BOOST_TEST(std::abs(mean_of(u) - 0.5) < 0.014);
  const Tensor b = Bernoulli({.probs = number(0.3)}).sample(generator, many);
  BOOST_TEST(std::abs(mean_of(b) - 0.3) < 0.01);
  BOOST_TEST(mean_of(b * (1.0 - b)) == 0);
}

BOOST_AUTO_TEST_CASE(gradients_flow_through_rsample) {
  Generator generator(test_seed());
  const Tensor loc = make::zeros({3}).requires_grad_(), scale = make::ones({3}).requires_grad_();
  const Tensor noise = Normal(loc, scale).rsample(generator);
  noise.sum().backward();
  BOOST_TEST(raw::equal(loc.grad(), make::ones({3})));
  BOOST_TEST(raw::equal(scale.grad(), noise.detach()));
  const Tensor low = make::zeros({3}).requires_grad_(), high = make::ones({3}).requires_grad_();
  const Tensor share = Uniform(low, high).rsample(generator);
  share.sum().backward();
  BOOST_TEST(raw::equal(high.grad(), share.detach()));
}

BOOST_AUTO_TEST_CASE(edges_are_pytorchs) {
  const auto number = [](double value) { return make::full({1}, value); };
  const Uniform unit(number(0), number(1));
  BOOST_TEST(unit.log_prob(number(0)).item<double>() == 0);
  BOOST_TEST(std::isinf(unit.log_prob(number(1)).item<double>()));
  BOOST_TEST(std::isinf(kl_divergence(Uniform(number(0), number(2)), unit).item<double>()));
  const auto divergence = [&](double p, double q) {
    return kl_divergence(Bernoulli({.probs = number(p)}), Bernoulli({.probs = number(q)})).item<double>();
  };
  for (const double never : {0.0, 1.0}) {
    BOOST_TEST(std::isinf(divergence(0.5, never)));
    BOOST_TEST(std::isinf(divergence(1 - never, never)));
    BOOST_TEST(divergence(never, never) == 0);
    BOOST_TEST(std::abs(divergence(never, 0.5) - std::log(2.0)) < 1e-6);
  }
  const Bernoulli certain({.logits = number(HUGE_VAL)}), even({.logits = number(0)}), nearly({.logits = number(30)});
  BOOST_TEST(std::abs(kl_divergence(certain, even).item<double>() - std::log(2.0)) < 1e-6);
  BOOST_TEST(std::isinf(kl_divergence(even, certain).item<double>()));
  BOOST_TEST(std::abs(kl_divergence(even, nearly).item<double>() - (15 - std::log(2.0))) < 1e-5);
  BOOST_TEST(Bernoulli({.probs = number(0)}).variance().item<double>() == 0);
  BOOST_TEST(std::isfinite(Bernoulli({.probs = number(0)}).log_prob(number(1)).item<double>()));
}

BOOST_AUTO_TEST_CASE(what_makes_no_sense_is_refused) {
  const Tensor one = make::ones({2}), zero = make::zeros({2});
  BOOST_CHECK_EXCEPTION(Normal(one, make::ones({3})), tendril::ShapeError, says("Normal", "[2]", "[3]"));
  BOOST_CHECK_EXCEPTION(Normal(one, make::ones({2}, tendril::kFloat64)), tendril::DTypeError,
                        says("Normal", "float64"));
  BOOST_CHECK_EXCEPTION(Normal(Tensor(), one), Error, says("Normal", "loc", "undefined"));
  BOOST_CHECK_EXCEPTION(Bernoulli({}), Error, says("Bernoulli", "neither"));
  BOOST_CHECK_EXCEPTION(Normal(one, one).log_prob(make::ones({3})), tendril::ShapeError, says("log_prob", "[3]"));
  if (!tendril::default_device().is_cpu()) return;
  BOOST_CHECK_EXCEPTION(Normal(one, zero), Error, says("Normal", "scale", "positive"));
  BOOST_CHECK_EXCEPTION(Uniform(one, one), Error, says("Uniform", "high", "above low"));
  BOOST_CHECK_EXCEPTION(Bernoulli({.probs = one * 2.0}), Error, says("Bernoulli", "probs", "[0, 1]"));
}

BOOST_AUTO_TEST_CASE(uniform_samples_are_below_high) {
  Generator generator(test_seed());
  for (const DType dtype : {tendril::kFloat32, tendril::kFloat64}) {
    for (const double at : {1e8, -1e8, 1.0}) {
      const double scale = dtype == tendril::kFloat32 ? 1 : 0x1p29;  // both dtypes have few numbers between the ends
      const Tensor low = tendril::full({1000}, at * scale, {.dtype = dtype, .requires_grad = true});
      const Tensor high = tendril::full({1000}, at * scale + std::abs(at) * scale * 0x1p-20, {.dtype = dtype});
      const Uniform uniform(low, high);
      const Tensor x = uniform.rsample(generator);
      BOOST_TEST(x.lt(high).logical_and(x.ge(low)).all().item<bool>(), dtype << " " << at);
      BOOST_TEST(uniform.log_prob(x).isfinite().all().item<bool>(), dtype << " " << at);
      x.sum().backward();
      BOOST_TEST(low.grad().ge(0).all().item<bool>());
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
