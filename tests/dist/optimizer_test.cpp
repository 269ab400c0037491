// A distributed optimizer for parameters on three workers, driven by one of them.
#include "tendril/dist/optimizer.h"

#include <atomic>
#include <cmath>
#include <latch>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "tendril/dist/optim/rates.h"
#include "tendril/nn/optim/adam.h"
#include "tendril/nn/optim/lr_scheduler.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/nn/utils/clip_grad.h"
#include "tendril/rpc/call.h"
#include "tendril/tensor/raw.h"
#include "tests/dist/group.h"
#include "tests/dist/three_layers.h"

BOOST_AUTO_TEST_SUITE(optimizer)

using namespace three_layers;
using namespace dist_test;
using dist::DistributedOptimizer;
using dist::OptimizerError;
using rpc::RRef;

namespace dist_optimizer {

struct ProbeOptions {
  double lr = 1;
  double refuse = 0;  ///< reject parameters whose first element is this

  void validate(const char*) const {}
  template <class Self, class Visit>
  static void for_each_field(Self& self, const Visit& visit) {
    visit("lr", self.lr);
    visit("refuse", self.refuse);
  }
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    for_each_field(*this, [&](const char*, auto& field) { archive& field; });
  }
};
struct ProbeState {
  int64_t updates = 0;

  template <class Self, class Visit>
  static void for_each_field(Self& self, const Visit& visit) {
    visit("updates", self.updates);
  }
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    for_each_field(*this, [&](const char*, auto& field) { archive& field; });
  }
};

/// Adds the learning rate to a parameter and counts overlapping updates. Tests can hold an update or make it fail.
class Probe final : public optim::OptimizerOf<ProbeOptions, ProbeState> {
 public:
  explicit Probe(const std::vector<Tensor>& params, const ProbeOptions& options = {})
      : OptimizerOf("Probe", {Group{params, options}}) {
    for (const Tensor& param : params) {
      if (values(param)[0] == options.refuse) throw std::invalid_argument("this parameter is rejected");
    }
  }
  static inline std::atomic<int> inside{0}, overlaps{0};
  static inline std::atomic<double> fail_at{1e300};         ///< updates of a parameter with this first element throw
  static inline std::atomic<std::latch*> entered{nullptr};  ///< counted down by an update
  static inline std::atomic<std::latch*> go_on{nullptr};    ///< the same update then waits for this latch
  static inline std::atomic<int> together{0};               ///< if nonzero, this many updates wait for each other
  static inline std::atomic<int> begun{0}, not_together{0};

 protected:
  void update(std::span<const Ready> ready) override {
    for (const auto& [index, param, grad] : ready) update_one(index, param);
  }

 private:
  void update_one(std::size_t index, const Tensor& param) {
    if (inside.fetch_add(1) > 0) ++overlaps;
    if (std::latch* latch = entered.exchange(nullptr)) {
      latch->count_down();
      go_on.load()->wait();
    }
    if (const int all = together) {
      ++begun;
      if (!Cluster::eventually([&] { return begun >= all; })) ++not_together;
    }
    const bool fails = values(param)[0] == fail_at;
    if (!fails) raw::binary_(Binary::add, param, Scalar(options_of(index).lr));
    ++state_of(index).updates;
    inside.fetch_sub(1);
    if (fails) throw std::runtime_error("this parameter does not step");
  }
};

/// Checks that six steps on three workers and six local steps give the same bits.
template <class O>
void check_equals_local(const typename O::Options& options) {
  const Group group(3);
  const Model model(group[0]);
  DistributedOptimizer<O> distributed(group[0], model.params, options);
  std::vector<std::unique_ptr<Layer>> layers;
  std::vector<Tensor> params;
  for (int rank = 0; rank < 3; ++rank) {
    layers.push_back(std::make_unique<Layer>(rank, kStart[rank]));
    params.push_back(layers.back()->weight());
  }
  O local(params, options);
  for (int step = 0; step < 6; ++step) {
    if (step == 4) {
      distributed.set_lr(0.01);
      local.set_lr(0.01);
    }
    const std::size_t depth = step == 2 ? 2 : 3;  // the third parameter has no gradient in one step
    {
      const Context context(group[0]);
      backward(context, {model.loss(input(step), depth)});
      distributed.step(context);
    }
    local.zero_grad();
    Tensor y = input(step);
    for (std::size_t i = 0; i < depth; ++i) y = layers[i]->forward_here(y);
    y.square().sum().backward();
    local.step();
    for (std::size_t i = 0; i < 3; ++i) {
      BOOST_TEST(model.values(i) == values(params[i]), boost::test_tools::per_element());
      BOOST_TEST(!model.layers[i].rpc_sync<&Layer::has_grad>());
    }
  }
  BOOST_TEST(distributed.lr() == 0.01);
}

}  // namespace dist_optimizer
using namespace dist_optimizer;

BOOST_AUTO_TEST_CASE(steps_match_the_local_optimizer) {
  check_equals_local<optim::SGD>({.lr = 0.1});
  check_equals_local<optim::SGD>({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true});
  check_equals_local<optim::Adam>({.lr = 0.05});
  check_equals_local<optim::Adam>({.lr = 0.05, .weight_decay = 0.1, .amsgrad = true});
}

BOOST_AUTO_TEST_CASE(one_thread_per_owner_suffices) {
  const Group group(3, {.num_worker_threads = 1});
  const Model model(group[0]);
  DistributedOptimizer<optim::SGD> opt(group[0], model.params, {.lr = 0.1});
  const Context context(group[0]);
  backward(context, {model.loss(input(1))});
  opt.step(context);
  for (std::size_t i = 0; i < 3; ++i) BOOST_TEST(model.values(i) != kStart[i], boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(parameter_without_gradient_is_unchanged) {
  const Group group(3);
  const Model model(group[0]);
  DistributedOptimizer<optim::SGD> opt(group[0], model.params, {.lr = 0.1, .momentum = 0.9});
  {
    const Context context(group[0]);
    backward(context, {model.loss(input(1))});
    opt.step(context);
  }
  const Values first = model.values(0), last = model.values(2);
  const Context context(group[0]);
  backward(context, {model.loss(input(2), 2)});
  opt.step(context);
  BOOST_TEST((model.values(0) != first));
  BOOST_TEST(model.values(2) == last, boost::test_tools::per_element());  // neither a stale gradient nor momentum
}

BOOST_AUTO_TEST_CASE(frozen_parameter_is_unchanged) {
  const Group group(2);
  const Tensor frozen = leaf({1}), trained = leaf({2});
  DistributedOptimizer<optim::SGD> opt(
      group[0], {rpc::make_rref<Tensor>(group[0], frozen), rpc::make_rref<Tensor>(group[0], trained)}, {.lr = 0.5});
  frozen.requires_grad_(false);
  const Context context(group[0]);
  backward(context, {(frozen * trained).sum()});
  opt.clip_grad_norm_(context, 10);
  opt.step(context);
  BOOST_TEST(values(frozen) == Values({1}), boost::test_tools::per_element());
  BOOST_TEST(values(trained) == Values({1.5}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(step_uses_only_its_contexts_gradients) {
  const Group group(3);
  const Model model(group[0]);
  DistributedOptimizer<optim::SGD> opt(group[0], model.params, {.lr = 0.1});
  const Context context(group[0]);
  backward(context, {model.loss(input(1))});
  std::thread([&] {
    const Context other(group[0]);
    backward(other, {model.loss(input(2), 1)});
    opt.step(other);
  }).join();
  BOOST_TEST((model.values(0) != kStart[0]));
  BOOST_TEST(model.values(1) == kStart[1], boost::test_tools::per_element());
  BOOST_TEST(model.values(2) == kStart[2], boost::test_tools::per_element());
  opt.step(context);
  BOOST_TEST((model.values(2) != kStart[2]));
}

BOOST_AUTO_TEST_CASE(step_without_backward_changes_nothing) {
  const Group group(3);
  const Model model(group[0]);
  DistributedOptimizer<Probe> opt(group[0], model.params);
  const Context context(group[0]);
  opt.step(context);
  for (std::size_t i = 0; i < 3; ++i) BOOST_TEST(model.values(i) == kStart[i], boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(unknown_or_released_context_is_rejected) {
  const Group group(3);
  const Model model(group[0]);
  DistributedOptimizer<optim::SGD> opt(group[0], model.params);
  ContextId id = 0;
  {
    const Context context(group[0]);
    id = context.id();
  }
  BOOST_CHECK_EXCEPTION(opt.step(id), AutogradError,
                        says("DistributedOptimizer<tendril::optim::SGD>::step", "context 0.", "unknown", "'w0'"));
}

BOOST_AUTO_TEST_CASE(failed_constructor_names_its_owner) {
  const Group group(3);
  const Model model(group[0]);
  const auto is_of_w1 = [](const OptimizerError& error) {
    BOOST_REQUIRE(error.failures().size() == 1u);
    BOOST_TEST(error.failures()[0].worker.name == "w1");
    return says("DistributedOptimizer<", "Probe", "1 of 3 owners failed", "worker 'w1'", "is rejected")(error);
  };
  BOOST_CHECK_EXCEPTION(DistributedOptimizer<Probe>(group[0], model.params, {.refuse = kStart[1][0]}), OptimizerError,
                        is_of_w1);
  BOOST_CHECK_EXCEPTION(DistributedOptimizer<Probe>(group[0], model.params, {.refuse = kStart[0][0]}), OptimizerError,
                        says("1 of 3 owners failed", "worker 'w0'", "is rejected"));
  BOOST_CHECK_EXCEPTION(DistributedOptimizer<optim::SGD>(group[0], model.params, {.lr = -1}), OptimizerError,
                        says("3 of 3 owners failed", "'w0'", "'w1'", "'w2'", "lr", "-1"));
}

BOOST_AUTO_TEST_CASE(empty_parameters_and_references_are_rejected) {
  const Group group(1);
  BOOST_CHECK_EXCEPTION(DistributedOptimizer<optim::SGD>(group[0], {}), Error, says("SGD", "params", "empty"));
  BOOST_CHECK_EXCEPTION(DistributedOptimizer<optim::SGD>(group[0], {RRef<Tensor>()}), Error,
                        says("SGD", "params[0]", "nothing"));
}

BOOST_AUTO_TEST_CASE(failure_on_one_owner_is_reported) {
  const Group group(3);
  const Model model(group[0]);
  DistributedOptimizer<Probe> opt(group[0], model.params);
  const Context context(group[0]);
  backward(context, {model.loss(input(1))});
  Probe::fail_at = kStart[1][0];
  BOOST_CHECK_EXCEPTION(opt.step(context), OptimizerError,
                        says("Probe>::step: 1 of 3 owners failed", "worker 'w1'", "does not step"));
  Probe::fail_at = 1e300;
  BOOST_TEST(model.values(0)[0] == kStart[0][0] + 1);
  BOOST_TEST(model.values(1)[0] == kStart[1][0]);
  BOOST_TEST(model.values(2)[0] == kStart[2][0] + 1);
  opt.step(context);  // a later step succeeds
  BOOST_TEST(model.values(1)[0] == kStart[1][0] + 1);
}

BOOST_AUTO_TEST_CASE(concurrent_steps_are_serialised_per_owner) {
  const Group group(3);
  const Model model(group[0]);
  const std::vector remote = {model.params[1]};
  DistributedOptimizer<Probe> first(group[0], remote), second(group[0], remote);
  constexpr int kThreads = 4, kSteps = 3;
  Probe::overlaps = 0;
  std::latch entered(1), go_on(1);
  Probe::go_on = &go_on;
  Probe::entered = &entered;
  std::latch ready(kThreads);  // a step must not change what another thread's forward reads
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const Context context(group[0]);
      backward(context, {model.loss(input(t))});
      ready.arrive_and_wait();
      for (int step = 0; step < kSteps; ++step) (t % 2 == 0 ? first : second).step(context);
    });
  }
  entered.wait();  // one update is held until its owner has received the steps of all threads
  BOOST_TEST(Cluster::eventually([&] { return group[1].metrics().unanswered_calls == kThreads; }));
  BOOST_TEST(Probe::inside == 1);
  DistributedOptimizer<Probe> elsewhere(group[0], {model.params[2]});
  elsewhere.set_lr(3);  // owners have separate locks
  go_on.count_down();
  threads.clear();
  BOOST_TEST(Probe::overlaps == 0);
  BOOST_TEST(model.values(1)[0] == kStart[1][0] + kThreads * kSteps);
  BOOST_TEST(first.state(model.params[1]).updates + second.state(model.params[1]).updates == kThreads * kSteps);
}

BOOST_AUTO_TEST_CASE(owners_update_in_parallel) {
  const Group group(3);
  const Model model(group[2]);  // the last of the owners
  DistributedOptimizer<Probe> opt(group[2], model.params);
  const Context context(group[2]);
  backward(context, {model.loss(input(1))});
  Probe::begun = 0;
  Probe::together = 3;
  opt.step(context);
  Probe::together = 0;
  BOOST_TEST(Probe::not_together == 0);
  Probe::overlaps = 0;  // meaningless here, because the updates ran on three workers
}

BOOST_AUTO_TEST_CASE(learning_rates_and_state_are_accessible) {
  const Group group(3);
  const Model model(group[0]);
  DistributedOptimizer<optim::SGD> opt(group[0], model.params, {.lr = 0.1, .momentum = 0.5});
  BOOST_TEST(opt.lr() == 0.1);
  BOOST_TEST(opt.owners().size() == 3u);
  opt.set_lr(0);
  BOOST_TEST(opt.lr() == 0);
  BOOST_TEST(!opt.state(model.params[2]).momentum_buffer.defined());
  const Context context(group[0]);
  backward(context, {model.loss(input(1))});
  opt.step(context);
  for (std::size_t i = 0; i < 3; ++i) {
    BOOST_TEST(model.values(i) == kStart[i], boost::test_tools::per_element());
    const Tensor momentum = opt.state(model.params[i]).momentum_buffer;
    BOOST_REQUIRE(momentum.numel() == 3);
    BOOST_TEST((values(momentum) != Values{0, 0, 0}));
    raw::fill_(momentum, 0);  // a copy, even for this worker's own parameter
    BOOST_TEST((values(opt.state(model.params[i]).momentum_buffer) != Values{0, 0, 0}));
  }
  BOOST_CHECK_EXCEPTION(opt.set_lr(-1), OptimizerError, says("set_lr", "3 of 3 owners failed", "-1"));
  BOOST_TEST(opt.lr() == 0);
  DistributedOptimizer<optim::SGD> one(group[0], {model.params[1]});
  BOOST_CHECK_EXCEPTION(one.state(model.params[2]), Error, says("state", "'w2'", "holds none"));
}

BOOST_AUTO_TEST_CASE(owner_lost_during_a_step_is_reported) {
  const Group group(3);
  {
    const Model model(group[0]);
    DistributedOptimizer<Probe> opt(group[0], {model.params[1]});
    const Context context(group[0]);
    backward(context, {model.loss(input(1))});
    std::latch entered(1), go_on(1);
    Probe::go_on = &go_on;
    Probe::entered = &entered;
    std::thread cutter([&] {
      entered.wait();
      group.cut(0, 1);
    });
    BOOST_CHECK_EXCEPTION(opt.step(context), OptimizerError,
                          says("1 of 1 owner failed", "worker 'w1'", "connection lost"));
    cutter.join();
    go_on.count_down();
    BOOST_TEST(Cluster::eventually([] { return Probe::inside == 0; }));
    BOOST_CHECK_EXCEPTION(opt.step(context), OptimizerError, says("1 of 1 owner failed", "worker 'w1'"));
  }
}

BOOST_AUTO_TEST_CASE(unreachable_owner_is_reported) {
  const Group group(3);
  const Model model(group[0]);
  group.cut(0, 1);
  BOOST_TEST(Cluster::eventually([&] { return !group[0].is_connected(1); }));
  BOOST_CHECK_EXCEPTION((DistributedOptimizer<optim::SGD>(group[0], model.params)), OptimizerError,
                        says("1 of 3 owners failed", "worker 'w1'"));
}

BOOST_AUTO_TEST_CASE(step_may_have_a_deadline) {
  const Group group(3);
  const Model model(group[0]);
  DistributedOptimizer<Probe> opt(group[0], {model.params[1]});
  const Context context(group[0]);
  backward(context, {model.loss(input(1))});
  std::latch entered(1), go_on(1);
  Probe::go_on = &go_on;
  Probe::entered = &entered;
  BOOST_CHECK_EXCEPTION(opt.step(context, {.timeout = 50ms}), OptimizerError, says("worker 'w1'", "timed out"));
  go_on.count_down();
  Probe::entered = nullptr;  // in case the update never began
  BOOST_TEST(Cluster::eventually([] { return Probe::inside == 0; }));
}

BOOST_AUTO_TEST_CASE(groups_have_separate_options_and_schedules) {
  const Group group(3);
  const Model model(group[0]);
  using Opt = DistributedOptimizer<optim::SGD>;
  Opt opt(group[0], std::vector<Opt::Group>{{{model.params[2], model.params[0]}, {.lr = 0.1, .momentum = 0.5}},
                                            {{model.params[1]}, {.lr = 0.2}}});
  std::vector<Tensor> params;
  for (const auto& start : kStart) params.push_back(from_vector(start, {3}).requires_grad_());
  optim::SGD local({{.params = {params[2], params[0]}, .options = {.lr = 0.1, .momentum = 0.5}},
                    {.params = {params[1]}, .options = {.lr = 0.2}}});
  dist::Rates rates(opt);
  optim::lr_scheduler::ExponentialLR schedule(rates, 0.5), expected(local, 0.5);
  for (int step = 0; step < 4; ++step) {
    {
      const Context context(group[0]);
      backward(context, {model.loss(input(step))});
      opt.step(context);
    }
    local.zero_grad();
    Tensor y = input(step);
    for (const Tensor& param : params) y = (y * param).tanh();
    y.square().sum().backward();
    local.step();
    if (step == 1) {
      opt.set_lr(1, 0.05);
      local.set_lr(1, 0.05);
    } else {
      schedule.step();
      expected.step();
    }
    for (std::size_t i = 0; i < 3; ++i) {
      BOOST_TEST(model.values(i) == values(params[i]), boost::test_tools::per_element());
    }
  }
  for (const std::size_t i : {0u, 1u}) BOOST_TEST(opt.lr(i) == local.lr(i));
  BOOST_CHECK_EXCEPTION(opt.lr(2), IndexError, says("group 2 of 2"));
  BOOST_CHECK_EXCEPTION(opt.set_lr(2, 1), IndexError, says("group 2 of 2"));
  BOOST_CHECK_EXCEPTION(opt.set_lr(1, -1), OptimizerError, says("set_lr", "1 of 3 owners failed", "'w1'", "-1"));

  // The gathered state equals that of an equivalent local optimizer, and either can load it.
  const StateDict gathered = opt.state_dict(), one = local.state_dict();
  BOOST_TEST(gathered.size() == one.size());
  for (const auto& [name, tensor] : one) {
    BOOST_REQUIRE(gathered.contains(name));
    BOOST_TEST(values(gathered.at(name)) == values(tensor), name);
  }
  local.load_state_dict(gathered);
  Opt other(group[0], std::vector<Opt::Group>{{{model.params[2], model.params[0]}, {}}, {{model.params[1]}, {}}});
  other.load_state_dict(one);
  BOOST_TEST(other.lr(1) == local.lr(1));
  BOOST_TEST(values(other.state(model.params[2]).momentum_buffer) == values(local.state(params[2]).momentum_buffer),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(mismatched_state_changes_no_owner) {
  const Group group(3);
  const Model model(group[0]);
  DistributedOptimizer<optim::SGD> opt(group[0], model.params, {.lr = 0.1, .momentum = 0.5});
  {
    const Context context(group[0]);
    backward(context, {model.loss(input(1))});
    opt.step(context);
  }
  const auto changed = [&](const std::string& name, const Tensor& tensor) {
    StateDict dict;
    for (const auto& [entry, value] : opt.state_dict()) dict.insert(entry, entry == name ? tensor : value);
    return dict;
  };
  StateDict bad = changed("param_groups.0.lr", tensor(0.75, {.dtype = kFloat64}));
  StateDict worse;
  for (const auto& [entry, value] : bad) worse.insert(entry, entry == "state.1.momentum_buffer" ? ones({4}) : value);
  BOOST_CHECK_EXCEPTION(opt.load_state_dict(worse), OptimizerError, says("load_state_dict", "'w1'", "momentum_buffer"));
  BOOST_TEST(opt.lr() == 0.1);
  BOOST_TEST(values(opt.state_dict().at("param_groups.0.lr"))[0] == 0.1);
  bad.insert("state.7.momentum_buffer", ones({3}));
  bad.insert("what", ones({3}));
  BOOST_CHECK_EXCEPTION(opt.load_state_dict(bad), Error,
                        says("state.7.momentum_buffer", "3 parameters", "unexpected what"));
  BOOST_CHECK_EXCEPTION(opt.load_state_dict({}), Error, says("missing param_groups.0.params"));
}

BOOST_AUTO_TEST_CASE(gradient_norm_is_clipped_across_owners) {
  const Group group(3);
  const Model model(group[0]);
  DistributedOptimizer<optim::SGD> opt(group[0], model.params, {.lr = 1});
  for (const double p : {2., 1., std::numeric_limits<double>::infinity()}) {
    std::vector<Tensor> params;
    for (std::size_t i = 0; i < 3; ++i) params.push_back(from_vector(model.values(i), {3}).requires_grad_());
    Tensor y = input(1);
    for (const Tensor& param : params) y = (y * param).tanh();
    y.square().sum().backward();
    const double expected = nn::utils::clip_grad_norm_(params, 0.01, {.norm_type = p}).item<double>();
    if (default_device().is_cpu()) {  // squares overflow; only the CPU recomputes such norms
      const Context large(group[0]);
      backward(large, {model.loss(input(1)) * 1e200});
      BOOST_TEST(opt.clip_grad_norm_(large, 0.01, p) == expected * 1e200, boost::test_tools::tolerance(1e-12));
      BOOST_TEST(opt.clip_grad_norm_(large, 1, p) == 0.01, boost::test_tools::tolerance(1e-12));
    }
    const Context context(group[0]);
    backward(context, {model.loss(input(1))});
    BOOST_TEST(opt.clip_grad_norm_(context, 1e9, p) == expected, boost::test_tools::tolerance(1e-12));
    BOOST_TEST(opt.clip_grad_norm_(context, 0.01, p) == expected, boost::test_tools::tolerance(1e-12));
    BOOST_TEST(opt.clip_grad_norm_(context, 1, p) <= 0.01);
    opt.step(context);
    for (std::size_t i = 0; i < 3; ++i) {
      const Values now = model.values(i), was = values(params[i]), grad = values(params[i].grad());
      for (std::size_t j = 0; j < 3; ++j) BOOST_TEST(std::abs(now[j] - (was[j] - grad[j])) < 1e-12);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
