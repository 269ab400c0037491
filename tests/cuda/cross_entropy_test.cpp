// cross_entropy on a device gives what it gives on the CPU, of every floating dtype and length of line.
#include <boost/test/unit_test.hpp>
#include <limits>

#include "tendril/autograd/autocast.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tests/cuda/slots.h"

using namespace tendril;
using namespace tendril::testing;

namespace {

Tensor classes_of(const Dims& sizes, int64_t classes) {
  const Tensor target = raw::empty(sizes, kInt64);
  for (int64_t i = 0; i < target.numel(); ++i)
    target.mutable_data<int64_t>()[i] = i % 5 == 4 ? -100 : (7 * i) % classes;
  return target;
}

struct LossAndGradient {
  Tensor loss, gradient;
};
LossAndGradient learn(const Tensor& scores, const Tensor& target, const CrossEntropyOptions& options, bool mixed) {
  const Tensor x = scores.clone().requires_grad_();
  Tensor loss;
  {
    const autograd::Autocast autocast({.enabled = mixed});
    CrossEntropyOptions there = options;
    if (options.weight.defined()) there.weight = raw::to(options.weight, scores.device());
    loss = cross_entropy(x, target, there);
  }
  loss.sum().backward();
  return {loss.detach(), x.grad()};
}

void check(const Dims& sizes, DType dtype, const CrossEntropyOptions& options, bool mixed) {
  const Tensor scores = random(sizes, dtype, 3);
  Dims lines = sizes;
  lines.erase(1);
  const Tensor target = classes_of(lines, sizes[1]);
  const LossAndGradient here = learn(scores, target, options, mixed),
                        there = learn(raw::to(scores, kGPU), raw::to(target, kGPU), options, mixed);
  BOOST_TEST_CONTEXT(sizes << " of " << dtype << (mixed ? ", mixed" : "")) {
    BOOST_TEST(there.loss.dtype() == (mixed && dtype != kFloat64 ? kFloat32 : dtype));
    BOOST_TEST(there.gradient.dtype() == dtype);
    const double last = size_of(dtype) == 2 ? tolerance(dtype) : 0, exact = dtype == kFloat64 ? 1e-13 : 2e-6;
    check_close(there.loss, here.loss, exact + (mixed ? 0 : last), exact);
    check_close(there.gradient, here.gradient, 5 * exact + last, exact / 10 + (dtype == kFloat16 ? 6e-8 : 0));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cross_entropy)

BOOST_AUTO_TEST_CASE(losses_and_gradients_of_every_dtype_and_length_agree_with_the_cpus) {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    for (const int64_t classes : {1, 2, 7, 8, 24, 100, 1000, 1027, 10000}) check({11, classes}, dtype, {}, false);
    check({3, 16, 5}, dtype, {}, false);  // classes are not what lies side by side
    check({6, 64}, dtype, {.reduction = LossReduction::none}, true);
    check({6, 64}, dtype, {.reduction = LossReduction::sum}, true);
    check({6, 2056}, dtype, {}, true);
    check({6, 64}, dtype, {.label_smoothing = 0.1}, false);
    check({6, 64}, dtype, {.label_smoothing = 0.1}, true);
    const Tensor weights = random({64}, dtype, 8, 2);  // also negative ones
    for (const auto reduction : {LossReduction::mean, LossReduction::sum, LossReduction::none}) {
      check({6, 64}, dtype, {.weight = weights, .reduction = reduction}, false);
      check({6, 64}, dtype, {.weight = raw::cast(weights, computed_in(dtype)), .reduction = reduction}, true);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_sum_of_weights_below_0_or_of_0_is_what_it_is_on_the_cpu) {
  const Tensor scores = random({2, 3}, kFloat32, 5), target = raw::from_data(std::vector<int64_t>{0, 1}, {2});
  for (const std::vector<float>& weights : {std::vector<float>{-1, -2, 1}, {1, -1, 1}, {0, 0, 1}}) {
    const CrossEntropyOptions options{.weight = raw::from_data(weights, {3})};
    const LossAndGradient here = learn(scores, target, options, false),
                          there = learn(raw::to(scores, kGPU), raw::to(target, kGPU), options, false);
    check_close(there.loss, here.loss, 2e-6, 2e-6);
    check_close(there.gradient, here.gradient, 2e-6, 2e-6);
  }
}

BOOST_AUTO_TEST_CASE(what_is_impossible_or_not_a_number_stays_in_its_line) {
  for (const DType dtype : {kFloat32, kBFloat16}) {
    const Tensor wide = random({5, 64}, kFloat32, 9);
    wide.mutable_data<float>()[3] = -std::numeric_limits<float>::infinity();
    wide.mutable_data<float>()[64 + 60] = std::numeric_limits<float>::quiet_NaN();
    wide.mutable_data<float>()[2 * 64] = std::numeric_limits<float>::infinity();
    const Tensor scores = raw::cast(wide, dtype), target = classes_of({5}, 64);
    const CrossEntropyOptions each{.reduction = LossReduction::none};
    const LossAndGradient here = learn(scores, target, each, true),
                          there = learn(raw::to(scores, kGPU), raw::to(target, kGPU), each, true);
    check_close(there.loss, here.loss, 2e-6, 2e-6);
    check_close(there.gradient, here.gradient, 1e-5 + (dtype == kBFloat16 ? tolerance(dtype) : 0), 1e-7);
  }
}

BOOST_AUTO_TEST_SUITE_END()
