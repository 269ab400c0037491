// Number of messages that a backward sends, and where FAST waits.
#include "tests/dist/group.h"

namespace messages {

using namespace dist_test;

Tensor& table() {
  static Tensor tensor;
  return tensor;
}
Tensor& decoder() {
  static Tensor tensor;
  return tensor;
}
Tensor embed(const Tensor& x) { return x * table(); }
Tensor decode(const Tensor& h) { return (h * decoder()).sum(); }
Tensor metrics(const Tensor& h) { return h * 3; }
/// Requests sent by both workers.
uint64_t requests(const Group& group) {
  uint64_t sent = 0;
  for (int rank = 0; rank < group.size(); ++rank) sent += group[rank].metrics().requests_sent;
  return sent;
}

struct Fixture {
  Fixture() {
    table() = leaf({1, 2});
    decoder() = leaf({3, 5});
  }
  ~Fixture() { table() = decoder() = Tensor(); }
  const Group group{2};
  const Tensor inner = leaf({7, 11});

  Tensor loss(bool with_unused) const {
    const Tensor h = rpc::rpc_sync<&embed>(group[0], 1, constant({1, 1}));
    if (with_unused) rpc::rpc_sync<&metrics>(group[0], 1, h);
    return rpc::rpc_sync<&decode>(group[0], 1, h * inner);
  }
};

}  // namespace messages

BOOST_FIXTURE_TEST_SUITE(messages, Fixture)

BOOST_AUTO_TEST_CASE(each_recorded_message_costs_one_request) {
  for (const Mode mode : {Mode::smart, Mode::fast}) {
    const Context context(group[0]);
    const Tensor root = loss(false);
    const uint64_t before = requests(group);
    backward(context, {root}, {.mode = mode});
    BOOST_TEST(requests(group) - before == 3);
    BOOST_TEST(values(get_gradients(context).at(inner)) == Values({3, 10}));
    BOOST_TEST(values(Container::of(group[1])->gradients(context.id()).at(table())) == Values({21, 55}));
  }
}

BOOST_AUTO_TEST_CASE(unused_output_costs_marking_and_a_resolve) {
  const Context context(group[0]);
  const Tensor root = loss(true);
  const uint64_t before = requests(group);
  backward(context, {root}, {.retain_graph = true});
  BOOST_TEST(requests(group) - before == 3 + 3 + 1);
  BOOST_TEST(values(Container::of(group[1])->gradients(context.id()).at(table())) == Values({21, 55}));
  // From now on, each backward marks the context first, so no final resolve is needed.
  const uint64_t again = requests(group);
  backward(context, {root});
  BOOST_TEST(requests(group) - again == 3 + 3);
  BOOST_TEST(values(Container::of(group[1])->gradients(context.id()).at(table())) == Values({42, 110}));
}

BOOST_AUTO_TEST_CASE(fast_times_out_on_an_unused_output) {
  const Context context(group[0]);
  const Tensor root = loss(true);
  BOOST_CHECK_EXCEPTION(backward(context, {root}, {.retain_graph = true, .mode = Mode::fast, .timeout = 100ms}),
                        rpc::TimeoutError, says("backward: timed out", "the roots do not depend on"));
  // The context and the graph are still usable. The context keeps the gradients that FAST computed before it failed.
  backward(context, {root}, {.timeout = 60s});
  BOOST_TEST(group.counters(0).passes == 0);
  BOOST_TEST(group.counters(1).passes == 0);
}

BOOST_AUTO_TEST_CASE(unused_branches_do_not_delay_smart) {
  const Context context(group[0]);
  const Tensor h = rpc::rpc_sync<&embed>(group[0], 1, constant({1, 1}));
  const Tensor other = rpc::rpc_sync<&embed>(group[0], 1, inner);
  const Tensor root = rpc::rpc_sync<&decode>(group[0], 1, h.sum().item<double>() > 0 ? h * inner : other);
  backward(context, {root}, {.timeout = 60s});
  BOOST_TEST(values(get_gradients(context).at(inner)) == Values({3, 10}));
  BOOST_TEST(values(Container::of(group[1])->gradients(context.id()).at(table())) == Values({21, 55}));
}

BOOST_AUTO_TEST_CASE(unvisited_graph_survives_without_retain_graph) {
  const Context context(group[0]);
  const Tensor x = leaf({2, 3});
  const Tensor first = rpc::rpc_sync<&embed>(group[0], 1, x).sin().sum();
  const Tensor second = rpc::rpc_sync<&embed>(group[0], 1, x * x).sum();
  backward(context, {first}, {.timeout = 60s});
  backward(context, {second}, {.timeout = 60s});
  const Tensor y = leaf({2, 3}), e = leaf({1, 2});
  ((y * e).sin().sum() + (y * y * e).sum()).backward();
  const Tensor there = Container::of(group[1])->gradients(context.id()).at(table());
  for (std::size_t i = 0; i < 2; ++i) {
    BOOST_TEST(values(get_gradients(context).at(x))[i] == values(y.grad())[i], boost::test_tools::tolerance(1e-12));
    BOOST_TEST(values(there)[i] == values(e.grad())[i], boost::test_tools::tolerance(1e-12));
  }
}

BOOST_AUTO_TEST_SUITE_END()
