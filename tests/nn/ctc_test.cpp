#include "tendril/autograd/ops/ctc_loss.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/gradcheck.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/loss.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/raw.h"
#include "tendril/tensor/threads.h"
#include "tests/errors.h"
#include "tests/make.h"
#include "tests/nn/layer_golden.h"
#include "tests/own_new.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(ctc)

using namespace tendril;
using tendril::testing::allocated;
using tendril::testing::Golden;
using tendril::testing::kHasOwnNew;
using tendril::testing::says;
using tendril::testing::test_seed;
using Integers = std::vector<int64_t>;

namespace {

Tensor log_probs_of(const Dims& sizes) {
  Generator generator(test_seed());
  Tensor x = make::empty(sizes, kFloat64);
  raw::uniform_(x, -2, 2, generator);
  return raw::cast(x.log_softmax(-1), kFloat64);
}

Tensor as_tensor(const Integers& values) { return make::from_data(values, {static_cast<int64_t>(values.size())}); }

/// The definition: the sum over all paths of one sequence.
double by_paths(const Tensor& log_probs, const Integers& target, int64_t blank) {
  const int64_t steps = log_probs.size(0), classes = log_probs.size(1);
  const std::vector<double> lp = log_probs.to_vector<double>();
  int64_t paths = 1;
  for (int64_t t = 0; t < steps; ++t) paths *= classes;
  double sum = 0;
  for (int64_t path = 0; path < paths; ++path) {
    Integers said;
    int64_t rest = path, before = -1;
    double log_p = 0;
    for (int64_t t = 0; t < steps; ++t, rest /= classes) {
      const int64_t k = rest % classes;
      log_p += lp[static_cast<std::size_t>(t * classes + k)];
      if (k != blank && k != before) said.push_back(k);
      before = k;
    }
    if (said == target) sum += std::exp(log_p);
  }
  return -std::log(sum);
}

}  // namespace

BOOST_AUTO_TEST_CASE(values_and_gradients_equal_pytorchs) {
  const Golden golden(TENDRIL_TEST_DATA "/ctc.txt");
  const Tensor targets = golden.get("targets"), flat = golden.get("flat"), inputs = golden.get("input_lengths"),
               lengths = golden.get("target_lengths");
  const Tensor shifted = where(targets.eq(0), 4, targets - 1);
  for (const DType dtype : {kFloat64, kFloat32}) {
    const auto check = [&](const std::string& name, auto call) {
      const Tensor x = golden.get("logits", dtype).requires_grad_();
      check_layer(
          golden, name, dtype, [&] { return call(x); }, {{"logits", x}}, 5);
    };
    for (const auto& [name, reduction] :
         {std::pair{"none", LossReduction::none}, {"mean", LossReduction::mean}, {"sum", LossReduction::sum}}) {
      for (const Tensor& given : {flat, targets}) {  // only what the lengths say is read
        check(name, [&, how = reduction](const Tensor& x) {
          return ctc_loss(x.log_softmax(2), given, inputs, lengths, {.reduction = how, .zero_infinity = true});
        });
      }
    }
    check("blank_last", [&](const Tensor& x) {
      return nn::CTCLoss({.blank = 4, .zero_infinity = true})(x.log_softmax(2), shifted, inputs, lengths);
    });
    const Tensor x = golden.get("logits", dtype).select(1, 0).clone().requires_grad_();
    check_layer(
        golden, "unbatched", dtype, [&] { return ctc_loss(x.log_softmax(1), targets[0], Integers{7}, Integers{4}); },
        {{"logits", x}}, 5);
  }
  const Tensor x = golden.get("logits").requires_grad_();
  const Tensor losses = ctc_loss(x.log_softmax(2), targets, inputs, lengths, {.reduction = LossReduction::none});
  BOOST_TEST(raw::equal(losses.detach().eq(HUGE_VAL).to(kInt64), golden.get("impossible")));
  losses.narrow(0, 0, 3).sum().backward();
  for (const double each : x.grad().to_vector<double>()) BOOST_TEST(std::isfinite(each));
}

BOOST_AUTO_TEST_CASE(it_is_the_sum_over_all_paths) {
  const Tensor x = log_probs_of({5, 1, 3});
  for (const Integers& target : {Integers{}, {1}, {1, 1}, {2, 1}, {1, 2, 1}, {2, 2, 2}}) {
    for (const int64_t blank : {0}) {
      const double loss = ctc_loss(x, as_tensor(target), Integers{5}, Integers{static_cast<int64_t>(target.size())},
                                   {.blank = blank, .reduction = LossReduction::sum})
                              .item<double>();
      BOOST_TEST(std::abs(loss - by_paths(x.select(1, 0), target, blank)) < 1e-12);
    }
  }
}

BOOST_AUTO_TEST_CASE(lengths_in_braces_are_numbers) {
  const Tensor x = log_probs_of({1, 1, 3});
  const Tensor nothing = ctc_loss(x, as_tensor({}), {0}, {0});
  BOOST_TEST(nothing.item<double>() == 0);  // no steps
  BOOST_TEST(equal(ctc_loss(x, as_tensor({1}), {1}, {1}), ctc_loss(x, as_tensor({1}), Integers{1}, Integers{1})));
}

BOOST_AUTO_TEST_CASE(its_derivatives_of_both_orders_agree_with_differences) {
  const Tensor targets = as_tensor({1, 1, 2, 1});
  const auto f = [&](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{
        ctc_loss(in[0], targets, Integers{4, 3, 2}, Integers{2, 2, 0}, {.reduction = LossReduction::none})};
  };
  const std::vector<Tensor> in = {log_probs_of({4, 3, 3}).requires_grad_()};
  const auto first = autograd::gradcheck(f, in), second = autograd::gradgradcheck(f, in);
  BOOST_TEST(first.ok, first.message);
  BOOST_TEST(second.ok, second.message);
}

BOOST_AUTO_TEST_CASE(its_passes_agree_with_the_operations_that_are_differentiated_twice) {
  const Tensor targets = make::from_data(Integers{1, 1, 2, 1, 3, 2, 4, 4, 2, 3, 1, 2}, {3, 4});
  const Tensor weight = make::from_data(std::vector<double>{0.5, -1.5, 2}, {3});
  for (const DType dtype : {kFloat64, kFloat32}) {
    const Tensor x = raw::cast(log_probs_of({9, 3, 5}), dtype).transpose(0, 1).clone().transpose(0, 1).requires_grad_();
    const auto gradient = [&](bool twice) {
      const Tensor losses =
          ctc_loss(x, targets, Integers{9, 7, 5}, Integers{4, 3, 1}, {.reduction = LossReduction::none});
      return autograd::grad({(losses * weight.to(dtype)).sum()}, {x}, {}, {.create_graph = twice})[0].detach();
    };
    const double close = dtype == kFloat64 ? 1e-13 : 1e-5;
    BOOST_TEST(testing::difference(gradient(false), gradient(true), close, close) == "");
  }
}

BOOST_AUTO_TEST_CASE(it_does_not_depend_on_the_number_of_threads) {
  const int64_t batch = 24, length = 20;
  const Tensor x = log_probs_of({60, batch, 12});
  const Tensor targets =
      raw::cast(make::arange(0, batch * length, 1, kInt64).remainder(11) + 1, kInt64).view({batch, length});
  const Integers steps(24, 60), lengths(24, length);
  const int before = thread_budget();
  std::vector<Tensor> results[2];
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    const Tensor given = x.clone().requires_grad_();
    const Tensor loss = ctc_loss(given, targets, steps, lengths);
    loss.backward();
    results[threads / 2] = {loss.detach(), given.grad()};
  }
  set_num_threads(before);
  // On a device outside the deterministic mode gradients are added up in any order.
  const double close = !x.device().is_cpu() && !cuda::deterministic() ? 1e-5 : 0;
  for (std::size_t i = 0; i < 2; ++i) BOOST_TEST(testing::difference(results[0][i], results[1][i], close, close) == "");
}

BOOST_AUTO_TEST_CASE(backward_allocates_no_more_for_more_sequences) {
  const int before = thread_budget();
  set_num_threads(1);
  const auto allocations = [](int64_t batch) {
    const Tensor x = raw::cast(raw::to(log_probs_of({5, batch, 4}), kCPU), kFloat32).requires_grad_();
    const Integers labels(static_cast<std::size_t>(batch), 1), steps(static_cast<std::size_t>(batch), 5);
    const Tensor targets = raw::from_data(labels, {batch});
    uint64_t counted = 0;
    for (int i = 0; i < 2; ++i) {  // the second finds room that the first gave back
      const Tensor loss = ctc_loss(x, targets, steps, labels, {.reduction = LossReduction::sum});
      const uint64_t start = allocated.load();
      loss.backward();
      counted = allocated.load() - start;
    }
    return counted;
  };
  const uint64_t few = allocations(2), many = allocations(32);
  set_num_threads(before);
  BOOST_TEST(few == many);
  if (kHasOwnNew) BOOST_TEST(allocated.load() > 0);
}

BOOST_AUTO_TEST_CASE(no_steps_and_impossible_classes_have_their_losses) {
  const Tensor x = log_probs_of({3, 2, 3});
  const CtcLossOptions each{.reduction = LossReduction::none};
  BOOST_TEST(ctc_loss(x, as_tensor({1}), Integers{0, 0}, Integers{0, 1}, each).to_vector<double>() ==
             (std::vector<double>{0, HUGE_VAL}));
  Tensor never = x.clone();
  never.select(2, 1).fill_(-HUGE_VAL);
  never.requires_grad_();
  const Tensor losses = ctc_loss(never, as_tensor({1, 2}), Integers{3, 3}, Integers{1, 1}, each);
  BOOST_TEST(losses[0].item<double>() == HUGE_VAL);
  BOOST_TEST(std::isfinite(losses[1].item<double>()));
  losses.sum().backward();
  for (const double g : never.grad().to_vector<double>()) BOOST_TEST(std::isfinite(g));
  BOOST_TEST((ctc_loss(x.to(kBFloat16), as_tensor({1, 2}), Integers{3, 3}, Integers{1, 1}).dtype() == kBFloat16));
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused) {
  const Tensor x = log_probs_of({3, 2, 3}), targets = as_tensor({1, 2});
  const Integers three = {3, 3}, one = {1, 1};
  BOOST_CHECK_EXCEPTION(ctc_loss(x, targets, three, one, {.blank = 3}), IndexError, says("ctc_loss", "blank", "3"));
  BOOST_CHECK_EXCEPTION(ctc_loss(x, as_tensor({1, 3}), three, one), IndexError, says("target 1", "3"));
  BOOST_CHECK_EXCEPTION(ctc_loss(x, as_tensor({1, 0}), three, one), IndexError, says("target 1", "blank"));
  BOOST_CHECK_EXCEPTION(ctc_loss(x, targets, Integers{3, 4}, one), Error, says("input_lengths[1]", "4", "3"));
  BOOST_CHECK_EXCEPTION(ctc_loss(x, targets, three, Integers{1, -1}), Error, says("target_lengths[1]", "-1"));
  BOOST_CHECK_EXCEPTION(ctc_loss(x, targets, three, Integers{1, 2}), ShapeError, says("targets", "[2]", "[3]"));
  BOOST_CHECK_EXCEPTION(ctc_loss(x, targets, Integers{3}, one), ShapeError, says("1 input_lengths", "2"));
  BOOST_CHECK_EXCEPTION(ctc_loss(x, targets.to(kFloat32), three, one), DTypeError, says("targets", "float32"));
  BOOST_CHECK_EXCEPTION(ctc_loss(x.select(0, 0).select(0, 0), targets, three, one), ShapeError,
                        says("log_probs", "[3]"));
  BOOST_CHECK_EXCEPTION(ctc_loss({}, targets, three, one), Error, says("ctc_loss", "log_probs"));
  BOOST_TEST(nn::CTCLoss().to_string() == "CTCLoss(blank=0, reduction=mean, zero_infinity=false)");
}

BOOST_AUTO_TEST_SUITE_END()
