#include "tendril/nn/optim/lbfgs.h"
#include "tendril/nn/linear.h"

#include <boost/test/unit_test.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/optim/lr_scheduler.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/golden.h"
#include "tests/make.h"

BOOST_AUTO_TEST_SUITE(lbfgs)

using namespace tendril;
using optim::LBFGS;
using optim::LBFGSOptions;
using optim::LineSearch;
using tendril::testing::difference;
using tendril::testing::Golden;
using tendril::testing::says;

namespace {

/// golden_more.py's valley and well.
struct Problem {
  explicit Problem(const Golden& golden, DType dtype = kFloat64)
      : p(golden.get("start0", dtype).requires_grad_()), q(golden.get("start1", dtype).requires_grad_()) {}

  std::function<Tensor()> closure(double sign = 1) const {
    return [*this, sign] {
      p.zero_grad();
      q.zero_grad();
      const Tensor next = p.slice(0, 1), here = p.slice(0, 0, 3);
      const Tensor bend = next - here * here, well = (q * q).sum() - 1.0;
      Tensor loss = ((bend * bend * 10.0 + (1.0 - here).pow(2)).sum() + well * well) * sign;
      loss.backward();
      return loss;
    };
  }

  Tensor p, q;
};

}  // namespace

BOOST_AUTO_TEST_CASE(twenty_steps_equal_pytorchs) {
  const Golden golden(TENDRIL_TEST_DATA "/lbfgs.txt");
  const auto wolfe = LineSearch::strong_wolfe;
  const std::vector<std::pair<std::string, LBFGSOptions>> cases = {
      {"fixed", {.lr = 0.05, .max_iter = 3}},
      {"history", {.lr = 0.1, .max_iter = 4, .max_eval = 3, .tolerance_change = 1e-12, .history_size = 2}},
      {"strong_wolfe", {.max_iter = 2, .line_search_fn = wolfe}},
      {"strong_wolfe_history", {.lr = 0.5, .max_iter = 1, .max_eval = 6, .history_size = 3, .line_search_fn = wolfe}},
      {"strong_wolfe_long", {.lr = 30, .max_iter = 4, .line_search_fn = wolfe}},
      {"maximize", {.max_iter = 2, .line_search_fn = wolfe, .maximize = true}},
  };
  for (const auto& [name, options] : cases) {
    const Problem problem(golden);
    LBFGS optimizer({problem.p, problem.q}, options);
    const Tensor losses = golden.get(name + ".losses");
    for (int64_t step = 0; step < 20; ++step) {
      BOOST_TEST_CONTEXT(name << ", step " << step) {
        const Tensor loss = optimizer.step(problem.closure(options.maximize ? -1 : 1));
        // Roundings grow from step to step.
        BOOST_TEST(difference(loss.detach(), losses[step], 1e-7, 1e-11) == "");
        BOOST_TEST(difference(problem.p, golden.get(name + ".params0")[step], 1e-7, 1e-9) == "");
        BOOST_TEST(difference(problem.q, golden.get(name + ".params1")[step], 1e-7, 1e-9) == "");
      }
    }
    const std::vector<int64_t> counts = golden.get(name + ".counts").to_vector<int64_t>();
    BOOST_TEST(optimizer.func_evals() == counts[0], name);
    BOOST_TEST(optimizer.n_iter() == counts[1], name);
    BOOST_TEST(optimizer.state_dict().contains("state.0.ro." + std::to_string(counts[2] - 1)), name);
    BOOST_TEST(!optimizer.state_dict().contains("state.0.ro." + std::to_string(counts[2])), name);
  }
}

BOOST_AUTO_TEST_CASE(a_loaded_state_goes_on_to_the_last_bit) {
  const Golden golden(TENDRIL_TEST_DATA "/lbfgs.txt");
  for (const LineSearch search : {LineSearch::none, LineSearch::strong_wolfe}) {
    const Problem whole(golden), half(golden);
    const LBFGSOptions options{.lr = 0.1, .max_iter = 2, .history_size = 3, .line_search_fn = search};
    LBFGS first({whole.p, whole.q}, options), second({half.p, half.q}, options);
    for (int i = 0; i < 8; ++i) first.step(whole.closure());
    for (int i = 0; i < 4; ++i) second.step(half.closure());
    LBFGS third({half.p, half.q});
    const LoadReport report = third.load_state_dict(second.state_dict().clone());
    BOOST_TEST(report.missing.empty());
    BOOST_TEST(third.options().lr == 0.1);
    BOOST_TEST((third.options().line_search_fn == search));
    for (int i = 0; i < 4; ++i) third.step(half.closure());
    BOOST_TEST(raw::equal(whole.p.detach(), half.p.detach()));
    BOOST_TEST(raw::equal(whole.q.detach(), half.q.detach()));
    BOOST_TEST(first.func_evals() == third.func_evals());
  }
}

BOOST_AUTO_TEST_CASE(a_valley_is_walked_to_its_end_in_float32) {
  const Golden golden(TENDRIL_TEST_DATA "/lbfgs.txt");
  const Problem problem(golden, kFloat32);
  LBFGS optimizer({problem.p, problem.q}, {.max_iter = 100, .line_search_fn = LineSearch::strong_wolfe});
  optimizer.step(problem.closure());
  BOOST_TEST(problem.closure()().item<double>() < 1e-8);
  for (const double value : problem.p.to_vector<double>()) BOOST_TEST(std::abs(value - 1) < 1e-3);
}

BOOST_AUTO_TEST_CASE(a_schedule_sets_its_rate) {
  const Tensor x = make::full({2}, 1, kFloat64).requires_grad_();
  LBFGS optimizer({x}, 0.5);
  optim::lr_scheduler::StepLR schedule(optimizer, {.step_size = 1, .gamma = 0.5});
  schedule.step();
  BOOST_TEST(optimizer.lr() == 0.25);
  BOOST_TEST(!optimizer.momentum());
}

BOOST_AUTO_TEST_CASE(a_module_cast_after_lbfgs_was_built_is_refused) {
  nn::Linear linear(2, 1, {.dtype = kFloat64});
  LBFGS optimizer(linear.parameters());
  bool called = false;
  const auto closure = [&] {
    called = true;
    optimizer.zero_grad();
    Tensor loss = linear(make::ones({1, 2}, linear.weight.dtype())).square().sum();
    loss.backward();
    return loss;
  };
  optimizer.step(closure);
  linear.to(kFloat32);
  called = false;
  BOOST_CHECK_EXCEPTION(optimizer.step(closure), DTypeError, says("LBFGS::step", "float32", "cast the module first"));
  BOOST_TEST(!called);
}

BOOST_AUTO_TEST_CASE(a_closure_that_throws_changes_nothing) {
  const Golden golden(TENDRIL_TEST_DATA "/lbfgs.txt");
  for (const LineSearch search : {LineSearch::none, LineSearch::strong_wolfe}) {
    const Problem problem(golden), same(golden);
    const LBFGSOptions options{.lr = 0.1, .line_search_fn = search};
    LBFGS optimizer({problem.p, problem.q}, options), other({same.p, same.q}, options);
    int calls = 0;
    const auto broken = [&, closure = problem.closure()] {
      if (++calls == 4) throw std::runtime_error("no loss today");
      return closure();
    };
    BOOST_CHECK_EXCEPTION(optimizer.step(broken), std::runtime_error, says("no loss today"));
    BOOST_TEST(raw::equal(problem.p.detach(), golden.get("start0")));
    BOOST_TEST(optimizer.func_evals() == 0);
    optimizer.step(problem.closure());
    other.step(same.closure());
    BOOST_TEST(raw::equal(problem.p.detach(), same.p.detach()));
  }
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused) {
  const Tensor x = make::ones({2}, kFloat64).requires_grad_(), y = make::ones({2}).requires_grad_();
  const auto with = [&](const LBFGSOptions& options) { return [&x, options] { LBFGS optimizer({x}, options); }; };
  BOOST_CHECK_EXCEPTION(with({.lr = -1})(), Error, says("LBFGS", "lr", "-1"));
  BOOST_CHECK_EXCEPTION(with({.max_iter = 0})(), Error, says("LBFGS", "max_iter", "0"));
  BOOST_CHECK_EXCEPTION(with({.max_eval = -1})(), Error, says("LBFGS", "max_eval", "-1"));
  BOOST_CHECK_EXCEPTION(with({.history_size = 0})(), Error, says("LBFGS", "history_size", "0"));
  BOOST_CHECK_EXCEPTION(with({.tolerance_grad = -1})(), Error, says("LBFGS", "tolerance_grad", "-1"));
  BOOST_CHECK_EXCEPTION(LBFGS({x, y}), Error, says("LBFGS", "params[1]", "float32", "float64"));
  LBFGS optimizer({x});
  x.set_grad(make::ones({2}, kFloat64));
  BOOST_CHECK_EXCEPTION(static_cast<optim::Optimizer&>(optimizer).step(), Error, says("LBFGS", "closure"));
  BOOST_CHECK_EXCEPTION(optimizer.step(nullptr), Error, says("LBFGS", "closure"));
  BOOST_CHECK_EXCEPTION(optimizer.step([&] { return x * 2.0; }), ShapeError, says("LBFGS", "2 elements"));
  x.zero_grad();
  StateDict dict = optimizer.state_dict();
  dict.insert("state.0.surprise", 1);
  BOOST_CHECK_EXCEPTION(optimizer.load_state_dict(dict), Error, says("unexpected", "state.0.surprise"));
  StateDict half;
  for (const auto& [name, tensor] : optimizer.state_dict()) {
    if (name != "state.0.n_iter") half.insert(name, tensor);
  }
  half.insert("state.0.n_iter", 3);
  BOOST_CHECK_EXCEPTION(optimizer.load_state_dict(half), Error, says("missing", "state.0.d", "prev_flat_grad"));
}

namespace {

/// x - log(x): NaN below 0, with its minimum at 1.
std::function<Tensor()> barrier(const Tensor& x) {
  return [x] {
    x.zero_grad();
    Tensor loss = (x - x.log()).sum();
    loss.backward();
    return loss;
  };
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_line_search_rejects_points_that_are_not_finite) {
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const double lr : {1., 20., 1e4}) {
      const Tensor x = make::full({3}, 5, dtype).requires_grad_();
      LBFGS optimizer({x}, {.lr = lr, .line_search_fn = LineSearch::strong_wolfe});
      for (int i = 0; i < 20; ++i) optimizer.step(barrier(x));
      for (const double value : x.to_vector<double>()) BOOST_TEST(std::abs(value - 1) < 1e-3, dtype << " " << lr);
    }
  }
}

BOOST_AUTO_TEST_CASE(without_a_line_search_a_step_ends_at_the_last_finite_point) {
  const Tensor x = make::full({3}, 5, kFloat64).requires_grad_();
  LBFGS optimizer({x}, {.lr = 20});
  optimizer.step(barrier(x));
  for (const double value : x.to_vector<double>()) BOOST_TEST(value == 5);
  optimizer.set_lr(0.5);
  for (int i = 0; i < 20; ++i) optimizer.step(barrier(x));
  for (const double value : x.to_vector<double>()) BOOST_TEST(std::abs(value - 1) < 1e-4);
}

BOOST_AUTO_TEST_CASE(no_step_is_made_from_a_start_that_is_not_finite) {
  for (const LineSearch search : {LineSearch::none, LineSearch::strong_wolfe}) {
    const Tensor x = make::full({3}, -1, kFloat64).requires_grad_();
    LBFGS optimizer({x}, {.line_search_fn = search});
    BOOST_TEST(std::isnan(optimizer.step(barrier(x)).item<double>()));
    for (const double value : x.to_vector<double>()) BOOST_TEST(value == -1);
  }
}

BOOST_AUTO_TEST_SUITE_END()
