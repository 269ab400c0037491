// Norms, statistics and normalisations of numbers whose squares overflow or vanish, beside the same functions of
// ordinary numbers.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/gradcheck.h"
#include "tendril/autograd/ops/combined.h"
#include "tendril/autograd/ops/functions.h"
#include "tendril/autograd/ops/layer_norm.h"
#include "tendril/autograd/ops/loss_pairs.h"
#include "tendril/autograd/ops/norm.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"

BOOST_AUTO_TEST_SUITE(large_and_small)

using namespace tendril;

namespace {

/// Its result for s x is s^degree times that for x, if epsilon is s^2 times as large.
struct Homogeneous {
  std::string name;
  std::function<Tensor(const Tensor& x, double epsilon)> f;
  int degree;
};

const std::vector<Homogeneous>& functions() {
  static const auto weight = [](const Tensor& x) { return tensor({0.5, 2., -1., 1.}, {.dtype = x.dtype()}); };
  static const auto bias = [](const Tensor& x) { return weight(x) * 0.1; };
  static const std::vector<Homogeneous> all = {
      {"norm", [](const Tensor& x, double) { return x.norm(); }, 1},
      {"norm of lines", [](const Tensor& x, double) { return x.norm(2, {1}, true); }, 1},
      {"norm of power 3",
       [](const Tensor& x, double) {
         return x.norm(3, {0, 2});
       },
       1},
      {"norm of power 1.5", [](const Tensor& x, double) { return x.norm(1.5); }, 1},
      {"norm of power 0.5", [](const Tensor& x, double) { return x.norm(0.5, {2}); }, 1},
      {"norm of power -1", [](const Tensor& x, double) { return x.norm(-1, {2}); }, 1},
      {"mean",
       [](const Tensor& x, double) {
         return x.mean({0, 2});
       },
       1},
      {"std",
       [](const Tensor& x, double) {
         return x.std({0, 2});
       },
       1},
      {"std of all", [](const Tensor& x, double) { return x.std({}, false); }, 1},
      {"normalize", [](const Tensor& x, double) { return normalize(x, 2, 1, 1e-300); }, 0},
      {"cosine_similarity", [](const Tensor& x, double) { return cosine_similarity(x, x.flip({0}) * 2.0, 1, 1e-300); },
       0},
      {"layer_norm",
       [](const Tensor& x, double epsilon) { return layer_norm(x.transpose(1, 2), {4}, weight(x), bias(x), epsilon); },
       0},
      {"rms_norm", [](const Tensor& x, double epsilon) { return rms_norm(x.transpose(1, 2), {4}, weight(x), epsilon); },
       0},
      {"group_norm", [](const Tensor& x, double epsilon) { return group_norm(x, 2, weight(x), bias(x), epsilon); }, 0},
      {"batch_norm",
       [](const Tensor& x, double epsilon) { return batch_norm(x, {}, {}, weight(x), bias(x), true, 0.1, epsilon); },
       0},
      {"batch_norm of channels_last",
       [](const Tensor& x, double epsilon) {
         const Tensor images = x.unsqueeze(3).contiguous(MemoryFormat::channels_last);
         return batch_norm(images, {}, {}, weight(x), {}, true, 0.1, epsilon).squeeze(3);
       },
       0},
      {"batch_norm_relu",
       [](const Tensor& x, double epsilon) {
         return batch_norm_relu(x, {}, {}, weight(x), bias(x),
                                {.residual = zeros_like(x), .training = true, .eps = epsilon});
       },
       0},
  };
  return all;
}

/// The largest difference, relative to the largest number.
double difference(const Tensor& x, const Tensor& y) {
  const Tensor wide = x.to(kFloat64);
  return (wide - y).abs().max().item<double>() / (1 + y.abs().max().item<double>());
}

const Tensor& ordinary() {
  static const Tensor x = (arange(60).to(kFloat64) * 1.7).sin().reshape({3, 4, 5}) + 0.3;
  return x;
}

constexpr double kTinyEpsilon = std::numeric_limits<double>::denorm_min();

/// Results and gradients at scale * x, in `dtype`, are those at x in float64, scaled.
void check_scaled(double scale, double epsilon, DType dtype, double tolerance) {
  for (const auto& [name, f, degree] : functions()) {
    const Tensor plain = ordinary().clone().requires_grad_();
    const Tensor expected = f(plain, kTinyEpsilon);
    const Tensor g = (arange(expected.numel()).to(kFloat64).reshape(expected.sizes()) * 0.7).sin();
    expected.backward(g);
    const Tensor scaled = (ordinary() * scale).to(dtype).requires_grad_();
    const Tensor y = f(scaled, epsilon);
    y.backward(g.to(dtype));
    const double of_result = degree == 1 ? scale : 1, of_gradient = degree == 1 ? 1 : 1 / scale;
    BOOST_TEST_CONTEXT(name << " at " << scale << " in " << dtype) {
      BOOST_TEST(difference(y.to(kFloat64) / of_result, expected) < tolerance);
      BOOST_TEST(difference(scaled.grad().to(kFloat64) / of_gradient, plain.grad()) < tolerance);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(large_numbers_give_the_results_of_ordinary_ones) {
  check_scaled(1e20, 1e-5, kFloat32, 1e-5);
  check_scaled(1e30, 1e-5, kFloat32, 1e-5);
  check_scaled(1e160, 1e-5, kFloat64, 1e-13);
  check_scaled(1e250, 1e-5, kFloat64, 1e-13);
}

BOOST_AUTO_TEST_CASE(small_numbers_give_the_results_of_ordinary_ones) {
  check_scaled(1e-25, kTinyEpsilon, kFloat32, 1e-5);
  check_scaled(1e-155, kTinyEpsilon, kFloat64, 1e-6);  // beside which epsilon is small, but not 0
}

BOOST_AUTO_TEST_CASE(large_and_ordinary_lines_are_independent) {
  const Tensor x = tensor({{1e20f, 1.f}, {3.f, 4.f}, {0.f, 0.f}, {3e-25f, 4e-25f}}).requires_grad_();
  const Tensor norms = x.norm(2, {1});
  BOOST_TEST(norms[0].item<double>() == 1e20f);
  BOOST_TEST(norms[1].item<double>() == 5);
  BOOST_TEST(norms[2].item<double>() == 0);
  BOOST_TEST(std::abs(norms[3].item<double>() / 5e-25 - 1) < 1e-6);
  norms.sum().backward();
  const Tensor expected = tensor({{1., 1e-20}, {0.6, 0.8}, {0., 0.}, {0.6, 0.8}});
  BOOST_TEST(allclose(x.grad(), expected, 1e-6, 0), x.grad());
}

BOOST_AUTO_TEST_CASE(infinity_and_nan_stay) {
  const Tensor x = tensor({{HUGE_VALF, 1.f}, {NAN, 1e20f}, {1e20f, 1e20f}});
  const Tensor norms = x.norm(2, {1});
  BOOST_TEST(norms[0].item<double>() == HUGE_VAL);
  BOOST_TEST(std::isnan(norms[1].item<double>()));
  BOOST_TEST(std::abs(norms[2].item<double>() / 1e20 - std::sqrt(2.)) < 1e-6);
  BOOST_TEST(std::isnan(layer_norm(x, {2})[1][1].item<double>()));
  BOOST_TEST(layer_norm(x * tensor({1.f, 2.f}), {2})[2][1].item<double>() == 1);
}

BOOST_AUTO_TEST_CASE(variance_of_one_large_number_among_many) {
  Tensor x = zeros({1 << 14});
  x[7] = 1e20f;
  BOOST_TEST(std::abs(x.var().item<double>() / 6.103515625e35 - 1) < 1e-3);
}

BOOST_AUTO_TEST_CASE(gradients_at_large_numbers_pass_gradcheck) {
  // Of 2^600 x, whose squares overflow; a power of two, so that the differences are those at x.
  const double scale = std::ldexp(1., 600);
  for (const auto& [name, f, degree] : functions()) {
    const auto scaled = [&, f = f, degree = degree](const std::vector<Tensor>& x) {
      return std::vector<Tensor>{f(x[0] * scale, 1e-5) * (degree == 1 ? 1 / scale : 1.)};
    };
    BOOST_TEST_CONTEXT(name) {
      const std::vector<Tensor> x = {ordinary().clone().requires_grad_()};
      const auto first = autograd::gradcheck(scaled, x), second = autograd::gradgradcheck(scaled, x);
      BOOST_TEST(first.ok, first.message);
      BOOST_TEST(second.ok, second.message);
    }
  }
}

BOOST_AUTO_TEST_CASE(running_statistics_stay_finite) {
  for (const bool fused : {false, true}) {
    const Tensor mean = zeros({2}), var = ones({2});
    const Tensor x = tensor({{1e20f, 1.f}, {-1e20f, 3.f}, {1e20f, 5.f}, {-1e20f, 7.f}});
    const Tensor y = fused ? batch_norm_relu(x, mean, var, {}, {}, {.training = true})
                           : batch_norm(x, mean, var, {}, {}, true, 0.1, 1e-5);
    BOOST_TEST(y[0][0].item<double>() == 1);
    BOOST_TEST(mean[0].item<double>() == 0);
    BOOST_TEST(var[0].item<double>() == std::numeric_limits<float>::max());
    BOOST_TEST(std::abs(mean[1].item<double>() - 0.4) < 1e-6);
    BOOST_TEST(std::abs(var[1].item<double>() - (0.9 + 0.1 * 20 / 3)) < 1e-6);
  }
  // 1e20 once among 2^14 numbers: a variance of 6e35, which float32 holds.
  Tensor x = zeros({1 << 14, 1});
  x[7] = 1e20f;
  const Tensor mean = zeros({1}), var = ones({1});
  batch_norm(x, mean, var, {}, {}, true, 0.5, 1e-5);
  BOOST_TEST(std::abs(var.item<double>() / (0.5 * 6.103515625e35) - 1) < 1e-3);
}

BOOST_AUTO_TEST_CASE(linspace_over_the_whole_range) {
  const Tensor x = linspace(-1.7e308, 1.7e308, 5, {.dtype = kFloat64});
  BOOST_TEST(x.to_vector<double>() == (std::vector{-1.7e308, -0.85e308, 0., 0.85e308, 1.7e308}), x);
}

BOOST_AUTO_TEST_SUITE_END()
