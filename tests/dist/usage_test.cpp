// Bad input fails at once with a clear error and leaves nothing behind.
#include <map>

#include "tendril/autograd/grad_mode.h"
#include "tests/dist/group.h"

namespace usage {

using namespace dist_test;

Tensor pass_on(const Tensor& x) { return x * 1; }
void make_context() { const dist::autograd::Context context(Cluster::agent(1)); }
Tensor broken(const Tensor& x) {
  if (x.numel() > 0) throw std::invalid_argument("this function is broken");
  return x;
}
std::map<rpc::WorkerInfo, int> counted(const std::map<rpc::WorkerInfo, int>& counts, const rpc::WorkerInfo& of) {
  auto more = counts;
  ++more[of];
  return more;
}
rpc::WorkerInfo owner_as_seen(const rpc::RRef<Tensor>& x) { return x.owner(); }
struct Fixture {
  const Group group{2};
  const Tensor x = leaf({1, 2});
};

}  // namespace usage

BOOST_FIXTURE_TEST_SUITE(usage, Fixture)

BOOST_AUTO_TEST_CASE(roots_must_be_scalars_with_history) {
  const Context context(group[0]);
  const Tensor y = rpc::rpc_sync<&pass_on>(group[0], 1, x);
  BOOST_CHECK_EXCEPTION(backward(context, {}), AutogradError, says("there are no roots"));
  BOOST_CHECK_EXCEPTION(backward(context, {Tensor()}), AutogradError, says("root 0 is undefined"));
  BOOST_CHECK_EXCEPTION(backward(context, {y.sum(), y}), AutogradError, says("root 1 is not a scalar", "[2]"));
  BOOST_CHECK_EXCEPTION(backward(context, {constant({1})}), AutogradError, says("root 0 has no history"));
  BOOST_CHECK_EXCEPTION(backward(context, {y.sum()}, {.timeout = -1ms}), AutogradError, says("timeout", "-1 ms"));
  BOOST_TEST(group.counters(0).passes == 0);
  backward(context, {y.sum()});
  BOOST_TEST(values(get_gradients(context).at(x)) == Values({1, 1}));
}

BOOST_AUTO_TEST_CASE(worker_info_is_value_and_map_key) {
  const rpc::WorkerInfo w0 = group[0].self(), w1 = group[0].worker("w1");
  BOOST_TEST((w1 == group[1].self()));
  BOOST_TEST((w0 != w1));
  const auto counts = rpc::rpc_sync<&counted>(group[0], 1, std::map<rpc::WorkerInfo, int>{{w0, 4}, {w1, 2}}, w1);
  BOOST_TEST(counts.size() == 2U);
  BOOST_TEST(counts.at(w0) == 4);
  BOOST_TEST(counts.at(group[1].self()) == 3);
  // All workers report the same owner of an object.
  const rpc::RRef<Tensor> here(group[0], x.detach());
  BOOST_TEST((here.owner() == w0));
  BOOST_TEST((rpc::rpc_sync<&owner_as_seen>(group[0], 1, here) == w0));
}

BOOST_AUTO_TEST_CASE(unknown_and_released_contexts_are_rejected) {
  ContextId id = 0;
  Tensor y;
  {
    const Context context(group[0]);
    id = context.id();
    y = rpc::rpc_sync<&pass_on>(group[0], 1, x).sum();
  }
  const auto container = Container::of(group[0]);
  for (const ContextId bad : {id, id + 7, ContextId{12345} << 48 | 1}) {
    BOOST_CHECK_EXCEPTION(container->backward(bad, {y}, {}), AutogradError, says("is unknown on worker 'w0'"));
    BOOST_CHECK_EXCEPTION((void)container->gradients(bad), AutogradError, says("get_gradients", "is unknown"));
  }
}

BOOST_AUTO_TEST_CASE(graph_of_another_context_is_rejected) {
  Tensor y;
  {
    const Context context(group[0]);
    y = rpc::rpc_sync<&pass_on>(group[0], 1, x).sum();
  }
  const Context context(group[0]);
  BOOST_CHECK_EXCEPTION(backward(context, {y}), AutogradError, says("received in another context, 0."));
  BOOST_CHECK_EXCEPTION(y.backward(), AutogradError, says("the graph continues on rank 1", "dist::autograd::backward"));
}

BOOST_AUTO_TEST_CASE(callee_cannot_nest_a_context) {
  const Context context(group[0]);
  BOOST_CHECK_EXCEPTION(rpc::rpc_sync<&make_context>(group[0], 1), rpc::RemoteError, says("do not nest"));
}

BOOST_AUTO_TEST_CASE(callee_error_leaves_the_context_usable) {
  const Context context(group[0]);
  BOOST_CHECK_EXCEPTION(rpc::rpc_sync<&broken>(group[0], 1, x), rpc::RemoteError, says("this function is broken"));
  backward(context, {rpc::rpc_sync<&pass_on>(group[0], 1, x).sum()}, {.timeout = 60s});
  BOOST_TEST(values(get_gradients(context).at(x)) == Values({1, 1}));
}

BOOST_AUTO_TEST_CASE(gradients_are_keyed_by_leaf) {
  const Context context(group[0]);
  const Tensor y = rpc::rpc_sync<&pass_on>(group[0], 1, x);
  backward(context, {y.sum()});
  const Gradients gradients = get_gradients(context);
  BOOST_TEST(gradients.size() == 1);
  BOOST_TEST(gradients.contains(x));
  BOOST_TEST(!gradients.contains(leaf({1})));
  BOOST_CHECK_EXCEPTION(gradients.at(leaf({1})), AutogradError, says("no backward of this context has reached"));
  BOOST_CHECK_EXCEPTION(gradients.find(y), AutogradError, says("is not a leaf"));
  BOOST_CHECK_EXCEPTION(gradients.find(constant({1})), AutogradError, says("does not require a gradient"));
}

BOOST_AUTO_TEST_CASE(calls_under_no_grad_are_not_recorded) {
  const Context context(group[0]);
  {
    const NoGrad no_grad;
    BOOST_TEST(!rpc::rpc_sync<&pass_on>(group[0], 1, x).requires_grad());
  }
  BOOST_TEST(group.counters(0).send_nodes == 0);
  BOOST_TEST(group.counters(1).contexts == 0);
}

BOOST_AUTO_TEST_CASE(callee_without_distributed_autograd_fails_the_call) {
  const Cluster cluster(2, {}, rpc::served_functions(), [](Agent& agent) {
    if (agent.self().id == 0) Container::attach(agent);
  });
  {
    const Context context(cluster[0]);
    BOOST_CHECK_EXCEPTION(rpc::rpc_sync<&pass_on>(cluster[0], 1, x), AutogradError,
                          says("worker 'w1' does not take part in distributed autograd", "dist::autograd::enable()"));
  }
  BOOST_CHECK_EXCEPTION(const Context context(cluster[1]), rpc::UsageError, says("worker 'w1' does not take part"));
  rpc::rpc_sync<&pass_on>(cluster[0], 1, x);
  BOOST_TEST(Cluster::eventually([&] { return Container::of(cluster[0])->counters().none(); }));
}

BOOST_AUTO_TEST_SUITE_END()
