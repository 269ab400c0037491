// A failed backward names the worker, stops the other workers, and leaves the context usable and nothing behind.
#include <atomic>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <set>

#include "tendril/autograd/hooks.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/group.h"
#include "tests/dist/group.h"
#include "tests/rpc/reserved_port.h"

namespace failure {

using namespace dist_test;

std::function<void()>& in_backward() {
  static std::function<void()> f;
  return f;
}

/// Returns x * 2. Calls `in_backward` when the gradient of the result arrives.
Tensor watched(const Tensor& x) {
  Tensor y = x * 2;
  tendril::autograd::register_hook(y, [](const Tensor&) -> Tensor {
    if (in_backward()) in_backward()();
    return {};
  });
  return y;
}
Tensor by_way_of_1(const Tensor& x) { return rpc::rpc_sync<&watched>(Cluster::agent(1), 2, x * 3); }
Tensor twice(const Tensor& x) { return x * 2; }
Tensor branches(const Tensor& x) {
  return rpc::rpc_sync<&watched>(Cluster::agent(1), 2, x) + rpc::rpc_sync<&twice>(Cluster::agent(1), 3, x);
}

struct Fixture {
  ~Fixture() { in_backward() = nullptr; }
  const Group group{4};
  const Tensor x = leaf({1, 2});

  void nobody_is_in_a_pass() const {
    for (int rank = 0; rank < group.size(); ++rank) BOOST_TEST(group.counters(rank).passes == 0);
  }
};

}  // namespace failure

BOOST_FIXTURE_TEST_SUITE(failure, Fixture)

BOOST_AUTO_TEST_CASE(failed_backwards_leave_the_context_usable) {
  const Context context(group[0]);
  const Tensor root = rpc::rpc_sync<&watched>(group[0], 1, x).sum();
  in_backward() = [] { throw std::domain_error("this node is broken"); };
  for (int i = 0; i < 50; ++i) {
    BOOST_CHECK_EXCEPTION(backward(context, {root}, {.retain_graph = true}), rpc::RemoteError,
                          says("error on worker 'w1'", "std::domain_error", "this node is broken"));
    nobody_is_in_a_pass();
  }
  in_backward() = nullptr;
  for (int i = 0; i < 50; ++i) backward(context, {root}, {.retain_graph = true});
  BOOST_TEST(values(get_gradients(context).at(x)) == Values({100, 100}));
}

BOOST_AUTO_TEST_CASE(distant_error_is_named_and_ends_siblings) {
  const Context context(group[0]);
  const Tensor root = rpc::rpc_sync<&branches>(group[0], 1, x).sum();
  in_backward() = [] { throw std::domain_error("broken"); };
  for (const Mode mode : {Mode::smart, Mode::fast}) {
    BOOST_CHECK_EXCEPTION(backward(context, {root}, {.retain_graph = true, .mode = mode}), rpc::RemoteError,
                          says("error on worker 'w2'", "broken"));
    nobody_is_in_a_pass();
  }
  in_backward() = nullptr;
  const auto before = get_gradients(context).find(x);
  BOOST_TEST(!before.defined());
  backward(context, {root});
  BOOST_TEST(values(get_gradients(context).at(x)) == Values({4, 4}));
}

BOOST_AUTO_TEST_CASE(backward_times_out_while_worker_is_busy) {
  const Context context(group[0]);
  const Tensor root = rpc::rpc_sync<&watched>(group[0], 1, x).sum();
  std::promise<void> release;
  std::latch finished(1);
  in_backward() = [&finished, released = release.get_future().share()] {
    released.wait();
    finished.count_down();
  };
  BOOST_CHECK_EXCEPTION(backward(context, {root}, {.retain_graph = true, .timeout = 200ms}), rpc::TimeoutError,
                        says("backward: timed out"));
  release.set_value();
  finished.wait();
  BOOST_TEST(Cluster::eventually([&] { return group.counters(1).passes == 0; }));
  in_backward() = nullptr;
  backward(context, {root}, {.timeout = 60s});
  BOOST_TEST(get_gradients(context).contains(x));
}

BOOST_AUTO_TEST_CASE(local_error_is_rethrown_unchanged) {
  const Context context(group[0]);
  const Tensor root = watched(rpc::rpc_sync<&twice>(group[0], 1, x)).sum();
  in_backward() = [] { throw std::domain_error("broken here"); };
  BOOST_CHECK_EXCEPTION(backward(context, {root}, {.retain_graph = true}), std::domain_error, says("broken here"));
  in_backward() = nullptr;
  backward(context, {root});
  BOOST_TEST(values(get_gradients(context).at(x)) == Values({4, 4}));
}

BOOST_AUTO_TEST_CASE(broken_connection_fails_only_that_backward) {
  {
    const Context context(group[0]);
    const Tensor root = (rpc::rpc_sync<&by_way_of_1>(group[0], 1, x) + rpc::rpc_sync<&twice>(group[0], 3, x)).sum();
    in_backward() = [&] { group.cut(1, 2); };
    const auto names_backward_alone = [](const rpc::PeerLostError& error) {
      return says("backward on 'w1'", "worker 'w2'")(error) &&
             std::string(error.what()).find("call of ") == std::string::npos;
    };
    BOOST_CHECK_EXCEPTION(backward(context, {root}, {.retain_graph = true, .timeout = 60s}), rpc::PeerLostError,
                          names_backward_alone);
    nobody_is_in_a_pass();
    in_backward() = nullptr;
    backward(context, {rpc::rpc_sync<&twice>(group[0], 3, x).sum()}, {.timeout = 60s});
  }
  // w2 learns of the release even though w1, which called it, can no longer reach it.
  BOOST_TEST(Cluster::eventually([&] { return group.counters(2).contexts == 0; }));
}

BOOST_AUTO_TEST_CASE(recording_during_a_backward_is_rejected) {
  const Context context(group[0]);
  const Tensor y = watched(rpc::rpc_sync<&twice>(group[0], 1, x));
  bool was_called = false;
  in_backward() = [&] {
    was_called = true;
    const auto elsewhere = [&](const std::function<void()>& f) {
      std::async(std::launch::async, [&] {
        const rpc::CallContextScope scope({.autograd_context = context.id()});
        f();
      }).get();
    };
    BOOST_CHECK_EXCEPTION(elsewhere([&] { rpc::rpc_sync<&twice>(group[0], 1, x); }), AutogradError,
                          says("while a backward", "context 0."));
    BOOST_CHECK_EXCEPTION(elsewhere([&] { backward(context, {x.sum()}); }), AutogradError,
                          says("another backward of context 0."));
    elsewhere([&] { rpc::rpc_sync<&twice>(group[0], 1, x.detach()); });
  };
  backward(context, {y.sum()});
  BOOST_TEST(was_called);
  BOOST_TEST(values(get_gradients(context).at(x)) == Values({4, 4}));
}

BOOST_AUTO_TEST_CASE(releasing_a_context_ends_its_backward) {
  std::atomic<bool> released{false};
  ContextId id = 0;
  {
    const Context context(group[0]);
    id = context.id();
    const Tensor root = rpc::rpc_sync<&by_way_of_1>(group[0], 1, x).sum();
    in_backward() = [&] {
      if (!released.exchange(true)) Container::of(group[0])->release(id);
    };
    BOOST_CHECK_EXCEPTION(backward(context, {root}, {.timeout = 60s}), AutogradError, says("released"));
  }
  BOOST_TEST(!Container::of(group[0])->contains(id));
}

/// Two workers in this process, of which the second can be restarted.
struct TwoWorkers {
  TwoWorkers() {
    std::jthread other([&] { zero = start(0); });
    one = start(1);
  }
  ~TwoWorkers() {
    std::jthread other([&] { zero->shutdown(); });
    one->shutdown();
  }
  std::unique_ptr<rpc::Group> start(int rank) const {
    rpc::InitOptions options{.rank = rank, .world_size = 2, .master_port = port.number()};
    options.status_signal = false;
    return std::make_unique<rpc::Group>(rank == 0 ? "w0" : "w1", options);
  }
  void restart_one() {
    const uint64_t before = zero->epoch();
    one->agent()->shutdown();  // as if it had died, with its contexts
    zero->wait_for_change(before, 60s);
    one = start(1);
  }

  const test::ReservedPort port;
  std::unique_ptr<rpc::Group> zero, one;
};

BOOST_AUTO_TEST_CASE(restarted_worker_uses_new_context_ids) {
  TwoWorkers two;
  const auto& one = two.one;
  constexpr int kRounds = 3;
  std::set<uint64_t> series;
  for (int round = 1; round <= kRounds; ++round) {
    for (int i = 0; i < 10 * (kRounds - round); ++i) {  // later incarnations make fewer contexts
      const Context earlier(*one->agent());
      rpc::rpc_sync<&twice>(*one->agent(), 0, leaf({1}));
    }
    const Context context(*one->agent());
    BOOST_TEST(series.insert(dist::autograd::series_of(context.id())).second);  // distinct from all earlier series
    const Tensor input = leaf({1, 2});
    backward(context, {rpc::rpc_sync<&twice>(*one->agent(), 0, input).sum()});
    BOOST_TEST(values(get_gradients(context).at(input)) == Values({2, 2}));
    if (round == kRounds) break;
    two.restart_one();
  }
}

BOOST_AUTO_TEST_CASE(restarted_worker_refuses_earlier_contexts) {
  TwoWorkers two;
  rpc::Agent& zero = *two.zero->agent();
  const Tensor input = leaf({1, 2});
  {
    const Context context(zero);
    const Tensor first = rpc::rpc_sync<&twice>(zero, 1, input);
    two.restart_one();
    BOOST_CHECK_EXCEPTION(rpc::rpc_sync<&twice>(zero, 1, input), rpc::RemoteError,
                          says("worker 'w1' joined after the autograd context"));
    BOOST_TEST(rpc::rpc_sync<&twice>(zero, 1, ones({2})).sum().item<float>() == 4);  // nothing to record
    BOOST_TEST(!Container::of(*two.one->agent())->contains(context.id()));
  }
  const Context context(zero);
  backward(context, {rpc::rpc_sync<&twice>(zero, 1, input).sum()});
  BOOST_TEST(values(get_gradients(context).at(input)) == Values({2, 2}));
}

BOOST_AUTO_TEST_SUITE_END()
