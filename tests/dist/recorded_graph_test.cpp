// Collects the graph that a context has recorded on all workers, and draws it.
#include "tendril/dist/autograd/graph.h"

#include <future>

#include "examples/apps/graphs/graph_picture.h"
#include "examples/apps/graphs/pass_simulation.h"
#include "tests/contains.h"
#include "tests/dist/group.h"

BOOST_AUTO_TEST_SUITE(recorded_graph)

using namespace dist_test;
using dist::autograd::make_id;
using dist::autograd::RecordedGraph;
using dist::autograd::RecordedNode;
using dist::autograd::RecordedPart;
using examples::dot;
using examples::dot_steps;
using examples::SimulatedGraph;

namespace {

Tensor& weight(int which) {
  static Tensor all[] = {leaf({2, 3}), leaf({5, 7})};
  return all[which];
}
const RecordedPart& part_of(const RecordedGraph& graph, int rank) {
  for (const RecordedPart& part : graph.parts) {
    if (part.rank == rank) return part;
  }
  throw std::out_of_range("no part of rank " + std::to_string(rank));
}
int64_t count_of(const RecordedPart& part, RecordedNode::Kind kind) {
  return std::count_if(part.nodes.begin(), part.nodes.end(), [&](const RecordedNode& one) { return one.kind == kind; });
}
int64_t occurrences(const std::string& text, const std::string& part) {
  int64_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}
using tendril::test::contains;

}  // namespace

Tensor embed(const Tensor& x) { return x * weight(0); }
Tensor metrics(const Tensor& h) { return h.sum(); }
Tensor decode(const Tensor& h) { return (h * weight(1)).sum(); }
Tensor twice(const Tensor& x) { return x * 2; }
std::shared_future<void> opened;
void wait_until_opened() { opened.wait(); }
Tensor by_way_of_2(const Tensor& x) { return rpc::rpc_sync<&twice>(Cluster::agent(1), 2, x) + 1; }

/// The worked example of docs/distributed_autograd.md.
Tensor worked_example(const Agent& agent, const Tensor& l) {
  auto& self = const_cast<Agent&>(agent);
  const Tensor h = rpc::rpc_sync<&embed>(self, 1, constant({1, 2}));
  rpc::rpc_sync<&metrics>(self, 1, h);
  return rpc::rpc_sync<&decode>(self, 1, (h * l).tanh());
}

BOOST_AUTO_TEST_CASE(worked_example_includes_its_unused_result) {
  const Group group(2);
  const Tensor l = leaf({0.5, 0.25});
  const Context context(group[0]);
  const Tensor loss = worked_example(group[0], l);
  const RecordedGraph graph = dist::autograd::graph(context, {loss});
  BOOST_TEST(graph.parts.size() == 2U);
  BOOST_TEST(graph.root == 0);

  const SimulatedGraph messages = examples::messages_of(graph);
  BOOST_TEST(messages.size() == 5U);
  const auto check = [&](int sender, unsigned number, int receiver, std::vector<dist::autograd::MessageId> users,
                         bool by_root) {
    const auto found = messages.find(make_id(sender, number));
    BOOST_REQUIRE((found != messages.end()));
    BOOST_TEST(found->second.sender == sender);
    BOOST_TEST(found->second.receiver == receiver);
    BOOST_TEST(found->second.users == users);
    BOOST_TEST(found->second.used_by_root == by_root);
  };
  check(1, 1, 0, {make_id(0, 1), make_id(0, 2)}, false);
  check(0, 1, 1, {make_id(1, 2)}, false);
  check(1, 2, 0, {}, false);
  check(0, 2, 1, {make_id(1, 3)}, false);
  check(1, 3, 0, {}, true);

  BOOST_TEST(count_of(part_of(graph, 0), RecordedNode::Kind::send) == 2);
  BOOST_TEST(count_of(part_of(graph, 0), RecordedNode::Kind::recv) == 2);  // the result of metrics is unused
  BOOST_TEST(count_of(part_of(graph, 0), RecordedNode::Kind::leaf) == 1);
  BOOST_TEST(count_of(part_of(graph, 1), RecordedNode::Kind::send) == 3);
  BOOST_TEST(count_of(part_of(graph, 1), RecordedNode::Kind::recv) == 2);
  BOOST_TEST(count_of(part_of(graph, 1), RecordedNode::Kind::leaf) == 2);

  const std::string picture = dot(graph);
  BOOST_TEST(contains(picture, "subgraph cluster_0 {\n  label=\"rank 0: w0\""));
  BOOST_TEST(contains(picture, "subgraph cluster_1 {\n  label=\"rank 1: w1\""));
  for (const std::string crossing : {"1_1", "0_1", "1_2", "0_2", "1_3"})
    BOOST_TEST(contains(picture, "s" + crossing + " -> r" + crossing + " [style=dashed]"));
  BOOST_TEST(occurrences(picture, "not used") == 1);
  BOOST_TEST(contains(picture, "  r1_2 [label=\"receive 1.2\\nnot used\" style=dashed]"));
  BOOST_TEST(contains(picture, "  r1_3 -> root_r1_3\n"));

  backward(context, {loss});  // the graph is unchanged
  BOOST_TEST(get_gradients(context).contains(l));
}

BOOST_AUTO_TEST_CASE(graph_includes_indirectly_called_workers) {
  const Group group(3);
  const Context context(group[0]);
  const Tensor loss = rpc::rpc_sync<&by_way_of_2>(group[0], 1, leaf({1, 2})).sum();
  const RecordedGraph graph = dist::autograd::graph(context, {loss});
  BOOST_TEST(graph.parts.size() == 3U);
  BOOST_TEST(examples::messages_of(graph).size() == 4U);
  const std::string steps = dot_steps(graph, Mode::smart);
  BOOST_TEST(contains(steps, "rank 2: w2"));
  BOOST_TEST(contains(steps, "backward returns"));
}

BOOST_AUTO_TEST_CASE(steps_show_smart_ending_and_fast_stalling) {
  const Group group(2);
  const Context context(group[0]);
  const Tensor loss = worked_example(group[0], leaf({0.5, 0.25}));
  const RecordedGraph graph = dist::autograd::graph(context, {loss});
  const std::string smart = dot_steps(graph, Mode::smart), fast = dot_steps(graph, Mode::fast);
  // As in the document, the send nodes of the unused result and of its argument are dropped.
  const std::string last = smart.substr(smart.rfind("digraph {"));
  for (const std::string fed : {"1.1", "0.2", "1.3"})
    BOOST_TEST(contains(last, "[label=\"send " + fed + "\" fillcolor=palegreen]"), fed);
  for (const std::string dropped : {"0.1", "1.2"})
    BOOST_TEST(contains(last, "[label=\"send " + dropped + "\" style=dashed]"), dropped);
  BOOST_TEST(contains(last, "backward returns\\l"));
  BOOST_TEST(contains(smart, "fillcolor=gold"));
  BOOST_TEST(contains(smart, "send mark to rank 1: 1.3"));
  BOOST_TEST(contains(smart, "label=\"step 0\\lrank 0 starts\\l"));
  BOOST_TEST(!contains(fast, "fillcolor=gold"));
  BOOST_TEST(!contains(fast, "backward returns"));
  BOOST_TEST(occurrences(fast, "nothing happens any more: FAST waits for ever") == 1);
  BOOST_TEST(occurrences(fast, "digraph {") < occurrences(smart, "digraph {"));
}

BOOST_AUTO_TEST_CASE(root_may_be_on_any_rank) {
  const Group group(2);
  const Context context(group[1]);
  const Tensor loss = rpc::rpc_sync<&twice>(group[1], 0, leaf({1, 2})).sum();
  const RecordedGraph graph = dist::autograd::graph(context, {loss});
  BOOST_TEST(graph.root == 1);
  BOOST_TEST(contains(dot_steps(graph, Mode::fast), "rank 1 starts\\l"));
  BOOST_TEST(contains(dot_steps(graph, Mode::fast), "backward returns"));
}

BOOST_AUTO_TEST_CASE(local_and_empty_graphs_can_be_drawn) {
  const Group group(1);
  const Context context(group[0]);
  const RecordedGraph empty = dist::autograd::graph(context);
  BOOST_TEST(empty.parts.size() == 1U);
  BOOST_TEST(contains(dot(empty), "cluster_0"));
  const RecordedGraph one = dist::autograd::graph(context, {leaf({1, 2}).sum(), leaf({1})});
  BOOST_TEST(occurrences(dot(one), "fillcolor=darkolivegreen1") == 2);
  BOOST_TEST(contains(dot_steps(one, Mode::smart), "backward returns"));
}

BOOST_AUTO_TEST_CASE(invalid_requests_are_reported) {
  const Group group(2, {.num_worker_threads = 1});
  {
    const Context context(group[0]);
    rpc::rpc_sync<&twice>(group[0], 1, leaf({1}));
    BOOST_CHECK_EXCEPTION(dist::autograd::graph(context, {leaf({1}), Tensor()}), AutogradError,
                          says("graph: root 1 is undefined"));
    BOOST_CHECK_EXCEPTION(dist::autograd::graph(context, {}, -1ms), AutogradError,
                          says("graph: timeout must not be negative, got -1 ms"));
    std::promise<void> busy;
    opened = busy.get_future().share();
    const auto hold = rpc::rpc_async<&wait_until_opened>(group[0], 1);
    BOOST_TEST(Cluster::eventually([&] { return group[1].handlers_running().size() == 1; }));
    BOOST_CHECK_THROW(dist::autograd::graph(context, {}, 50ms), rpc::TimeoutError);
    busy.set_value();
    hold.wait();
    Container::of(group[0])->release(context.id());
    BOOST_CHECK_EXCEPTION(dist::autograd::graph(context), AutogradError,
                          says("graph: autograd context 0.", "unknown on worker 'w0', or it was released"));
  }
}

BOOST_AUTO_TEST_SUITE_END()
