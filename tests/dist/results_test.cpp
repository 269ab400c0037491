// Gradients through calls must equal local autograd's. Covers the applicable tests of PyTorch's DistAutogradTest.
#include <thread>

#include "tendril/autograd/hooks.h"
#include "tendril/rpc/rref.h"
#include "tendril/rpc/task.h"
#include "tests/dist/group.h"

namespace results {

using namespace dist_test;

Tensor product(const Tensor& x, const Tensor& y) { return x * y; }
Tensor& shared() {
  static Tensor tensor;
  return tensor;
}
Tensor times_shared(const Tensor& x) { return x * shared(); }
Tensor scaled_sum(const Tensor& x, double factor) { return (x * factor).sum(); }
/// Calls itself on the next worker, `hops` times. With two workers, the calls go back and forth.
Tensor around(const Tensor& x, int worker, int workers, int hops) {
  if (hops == 0) return x.sin();
  const int next = (worker + 1) % workers;
  return rpc::rpc_sync<&around>(Cluster::agent(worker), next, x * 2, next, workers, hops - 1) * x;
}
Tensor around_locally(const Tensor& x, int hops) { return hops == 0 ? x.sin() : around_locally(x * 2, hops - 1) * x; }
std::vector<Tensor> halves(const Tensor& x) { return {x * 2, x * 3, x.detach()}; }
rpc::Task<Tensor> by_coroutine(Tensor x) {
  const Tensor y = co_await rpc::rpc_async<&product>(Cluster::agent(1), 2, x, x);
  co_return y + co_await rpc::rpc_async<&product>(Cluster::agent(1), 0, x, y);
}
rpc::Future<Tensor> by_continuation(const Tensor& x) {
  return rpc::rpc_async<&product>(Cluster::agent(1), 2, x, x).then([](rpc::Future<Tensor> y) {
    return rpc::rpc_async<&product>(Cluster::agent(1), 0, y.wait(), y.wait());
  });
}
Tensor parameter() { return shared(); }

struct Model {
  Tensor weight = leaf({2, 3});
  Tensor forward(const Tensor& x) { return (x * weight).sum(); }
  Tensor gradient(ContextId context) { return Container::of(Cluster::agent(1))->gradients(context).at(weight); }
};
struct Fixture {
  Fixture() { shared() = leaf({5, 7}); }
  ~Fixture() { shared() = Tensor(); }
  const Group group{3, {.num_worker_threads = 1}};
  const Tensor x = leaf({1, 2}), y = leaf({3, 5});
};

}  // namespace results

BOOST_FIXTURE_TEST_SUITE(results, Fixture)

BOOST_AUTO_TEST_CASE(one_call_matches_local_autograd) {
  for (const Mode mode : {Mode::smart, Mode::fast}) {
    const Context context(group[0]);
    backward(context, {rpc::rpc_sync<&product>(group[0], 1, x, y).sum()}, {.mode = mode});
    const Gradients gradients = get_gradients(context);
    BOOST_TEST(values(gradients.at(x)) == Values({3, 5}));
    BOOST_TEST(values(gradients.at(y)) == Values({1, 2}));
    BOOST_TEST(!x.grad().defined());
  }
}

BOOST_AUTO_TEST_CASE(self_calls_are_recorded) {
  const Context context(group[0]);
  const Tensor z = rpc::rpc_sync<&product>(group[0], 0, x, y);
  BOOST_TEST(group.counters(0).send_nodes == 2);
  BOOST_TEST(group.counters(0).recv_nodes == 2);
  backward(context, {z.sum()});
  BOOST_TEST(values(get_gradients(context).at(x)) == Values({3, 5}));
}

BOOST_AUTO_TEST_CASE(backward_without_calls_is_local) {
  const Context context(group[0]);
  backward(context, {(x * y).sum()});
  BOOST_TEST(values(get_gradients(context).at(x)) == Values({3, 5}));
}

BOOST_AUTO_TEST_CASE(circular_calls_match_local_autograd) {
  for (const int workers : {1, 2, 3}) {
    const Tensor z = leaf({1, 2});
    around_locally(z, 6).sum().backward();
    for (const Mode mode : {Mode::smart, Mode::fast}) {
      const Context context(group[0]);
      backward(context, {around(x, 0, workers, 6).sum()}, {.mode = mode});
      BOOST_TEST(values(get_gradients(context).at(x)) == values(z.grad()), boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(gradient_is_stored_on_the_parameters_owner) {
  const Context context(group[0]);
  backward(context, {rpc::rpc_sync<&times_shared>(group[0], 1, x).sum()});
  BOOST_TEST(values(Container::of(group[1])->gradients(context.id()).at(shared())) == Values({1, 2}));
}

BOOST_AUTO_TEST_CASE(returned_parameter_gets_its_gradient) {
  const Context context(group[0]);
  backward(context, {rpc::rpc_sync<&parameter>(group[0], 1).sum()});
  BOOST_TEST(values(Container::of(group[1])->gradients(context.id()).at(shared())) == Values({1, 1}));
}

BOOST_AUTO_TEST_CASE(gradients_of_backwards_and_calls_accumulate) {
  const Context context(group[0]);
  const Tensor root = (rpc::rpc_sync<&product>(group[0], 1, x, y) + rpc::rpc_sync<&product>(group[0], 2, x, y)).sum();
  for (int i = 1; i <= 3; ++i) {
    backward(context, {root}, {.retain_graph = i < 3});
    BOOST_TEST(values(get_gradients(context).at(x)) == Values({6. * i, 10. * i}));
  }
}

BOOST_AUTO_TEST_CASE(gradients_are_snapshots) {
  const Context context(group[0]);
  const Tensor root = rpc::rpc_sync<&product>(group[0], 1, x, y).sum();
  backward(context, {root}, {.retain_graph = true});
  const Gradients before = get_gradients(context);
  backward(context, {root});
  BOOST_TEST(values(before.at(x)) == Values({3, 5}));
  BOOST_TEST(values(get_gradients(context).at(x)) == Values({6, 10}));
}

BOOST_AUTO_TEST_CASE(second_backward_needs_retain_graph) {
  const Context context(group[0]);
  const Tensor root = rpc::rpc_sync<&product>(group[0], 1, x, y).sum();
  backward(context, {root});
  BOOST_CHECK_EXCEPTION(backward(context, {root}), rpc::RemoteError, says("error on worker 'w1'", "second time"));
}

BOOST_AUTO_TEST_CASE(several_roots_may_include_a_received_one) {
  const Context context(group[0]);
  const Tensor a = rpc::rpc_sync<&scaled_sum>(group[0], 1, x, 2.0);
  const Tensor b = rpc::rpc_sync<&scaled_sum>(group[0], 2, x, 3.0);
  backward(context, {a, b, a, (x * 1).sum()});
  BOOST_TEST(values(get_gradients(context).at(x)) == Values({2 + 3 + 2 + 1, 8}));
}

BOOST_AUTO_TEST_CASE(unused_results_are_skipped) {
  const Context context(group[0]);
  const std::vector<Tensor> all = rpc::rpc_sync<&halves>(group[0], 1, x);
  BOOST_TEST(!all[2].requires_grad());
  for (const Mode mode : {Mode::smart, Mode::fast})
    backward(context, {all[1].sum()}, {.retain_graph = true, .mode = mode});
  BOOST_TEST(values(get_gradients(context).at(x)) == Values({6, 6}));
}

BOOST_AUTO_TEST_CASE(coroutines_and_continuations_use_callers_context) {
  const Tensor z = leaf({1, 2});
  (z * z + z * (z * z)).sum().backward();
  const Tensor u = leaf({1, 2});
  ((u * u) * (u * u)).sum().backward();
  const Context context(group[0]);
  backward(context, {rpc::rpc_sync<&by_coroutine>(group[0], 1, x).sum()});
  BOOST_TEST(values(get_gradients(context).at(x)) == values(z.grad()), boost::test_tools::per_element());
  backward(context, {rpc::rpc_sync<&by_continuation>(group[0], 1, y).sum()});
  const Tensor v = leaf({3, 5});
  ((v * v) * (v * v)).sum().backward();
  BOOST_TEST(values(get_gradients(context).at(y)) == values(v.grad()), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(remote_objects_and_results_are_differentiable) {
  const auto model = rpc::remote<Model>(group[0], 1);
  const Context context(group[0]);
  const Tensor loss = model.rpc_sync<&Model::forward>(x);
  const Tensor later = model.remote<&Model::forward>(x).to_here();
  backward(context, {loss, later});
  BOOST_TEST(values(model.rpc_sync<&Model::gradient>(context.id())) == Values({2, 4}));
  BOOST_TEST(values(get_gradients(context).at(x)) == Values({4, 6}));
}

BOOST_AUTO_TEST_CASE(hooks_run_once_with_the_whole_gradient) {
  const Context context(group[0]);
  std::vector<Values> seen;
  tendril::autograd::register_hook(x, [&](const Tensor& g) {
    seen.push_back(values(g));
    return g * 10;
  });
  backward(context, {(rpc::rpc_sync<&product>(group[0], 1, x, y) + rpc::rpc_sync<&product>(group[0], 2, x, y)).sum()});
  BOOST_TEST_REQUIRE(seen.size() == 1u);
  BOOST_TEST(seen[0] == Values({6, 10}));
  BOOST_TEST(values(get_gradients(context).at(x)) == Values({60, 100}));
}

BOOST_AUTO_TEST_CASE(thousand_backwards_leave_nothing_behind) {
  for (int i = 0; i < 1000; ++i) {
    const Context context(group[0]);
    backward(context, {rpc::rpc_sync<&times_shared>(group[0], 1, x).sum()});
  }
  BOOST_TEST(Cluster::eventually([&] { return group.counters(1).none(); }));
}

BOOST_AUTO_TEST_CASE(concurrent_contexts_do_not_mix) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 1; t <= 20; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 3; ++i) {
        const Context context(group[0]);
        const Tensor mine = leaf({1. * t, 2. * t});
        backward(context, {rpc::rpc_sync<&times_shared>(group[0], 1 + t % 2, mine * x).sum()});
        const Gradients gradients = get_gradients(context);
        wrong += values(gradients.at(x)) != Values({5. * t, 14. * t});
        wrong += values(gradients.at(mine)) != Values({5, 14});
        const Gradients there = Container::of(group[1 + t % 2])->gradients(context.id());
        wrong += values(there.at(shared())) != Values({1. * t, 4. * t});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_SUITE_END()
