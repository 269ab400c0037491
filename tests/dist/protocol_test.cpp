// The protocol of a backward, without graphs, sockets or clocks. In any order of messages, every marked send node gets
// exactly one gradient message, no other node gets one, and no worker is left waiting.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "examples/apps/graphs/pass_simulation.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(protocol)

using namespace tendril;
using namespace dist::autograd;
using examples::PassSimulation;
using examples::SimulatedGraph;
using examples::SimulatedMessage;
using rpc::WorkerId;
using tendril::testing::seeds;
using tendril::testing::test_seed;

namespace {

using Graph = SimulatedGraph;
using Event = PassSimulation::Event;

std::set<MessageId> marked(const Graph& graph) {
  std::set<MessageId> found;
  for (auto at = graph.rbegin(); at != graph.rend(); ++at) {  // users are newer
    const SimulatedMessage& one = at->second;
    const bool used = std::any_of(one.users.begin(), one.users.end(), [&](MessageId m) { return found.contains(m); });
    if (used || one.used_by_root) found.insert(at->first);
  }
  return found;
}

/// Runs events in random order until none is left. `fail_at`: the event before which worker `failing` fails.
void run(PassSimulation& simulation, uint64_t seed, std::optional<int> fail_at = {}, WorkerId failing = 0) {
  std::mt19937_64 random(seed);
  simulation.start();
  for (int event = 0; !simulation.events().empty(); ++event) {
    BOOST_REQUIRE(event < 100000);
    if (event == fail_at) simulation.fail(failing);
    if (!simulation.events().empty()) simulation.happen(random() % simulation.events().size());
  }
}

Graph random_graph(uint64_t seed, int workers, double waste) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const auto chance = [&](double p) { return std::uniform_real_distribution<double>(0, 1)(random) < p; };
  Graph graph;
  const std::size_t count = 1 + below(14);
  for (MessageId m = 1; m <= count; ++m) {
    SimulatedMessage& one = graph[m];
    one.sender = static_cast<WorkerId>(below(static_cast<std::size_t>(workers)));
    one.receiver = static_cast<WorkerId>(below(static_cast<std::size_t>(workers)));
  }
  graph[count].receiver = 0;
  for (auto& [m, one] : graph) {
    if (chance(waste)) continue;
    for (auto later = graph.upper_bound(m); later != graph.end(); ++later) {
      if (later->second.sender == one.receiver && chance(0.5)) one.users.push_back(later->first);
    }
    one.used_by_root = one.receiver == 0 && chance(0.5);
  }
  return graph;
}

std::multiset<MessageId> once_each(const std::set<MessageId>& messages) { return {messages.begin(), messages.end()}; }

}  // namespace

BOOST_AUTO_TEST_CASE(each_marked_message_gets_one_gradient) {
  int stuck = 0, straight = 0;
  for (const uint64_t seed : seeds({}, 3000)) {
    const int workers = 1 + static_cast<int>(seed % 4);
    const Graph graph = random_graph(seed, workers, seed % 2 ? 0.3 : 0.0);
    PassSimulation simulation(graph, {.workers = workers, .mark_first = seed % 5 == 0});
    run(simulation, seed);
    BOOST_REQUIRE_MESSAGE(simulation.finished(), "seed " << seed << " does not end");
    BOOST_TEST(!simulation.failed(), "seed " << seed);
    BOOST_TEST(simulation.gradients() == once_each(marked(graph)), "seed " << seed);
    BOOST_TEST(!simulation.any_worker_takes_part(), "seed " << seed);
    (simulation.sent(Event::mark) > 0 ? stuck : straight) += 1;
  }
  BOOST_TEST(stuck > 500);
  BOOST_TEST(straight > 500);
}

BOOST_AUTO_TEST_CASE(used_messages_cost_one_request_and_answer) {
  for (const uint64_t seed : seeds({}, 500)) {
    Graph graph = random_graph(seed, 3, 0);
    const auto all = marked(graph);
    std::erase_if(graph, [&](const auto& one) { return !all.contains(one.first); });
    for (auto& [id, one] : graph) std::erase_if(one.users, [&](MessageId m) { return !all.contains(m); });
    for (const bool fast : {false, true}) {
      PassSimulation simulation(graph, {.workers = 3, .fast = fast});
      run(simulation, seed);
      BOOST_REQUIRE(simulation.finished());
      BOOST_TEST(simulation.gradients() == once_each(all));
      BOOST_TEST(simulation.sent(Event::gradient) == static_cast<int>(graph.size()));
      BOOST_TEST(simulation.sent(Event::answer) == static_cast<int>(graph.size()));
      BOOST_TEST(simulation.sent(Event::mark) + simulation.sent(Event::resolve) == 0);
      BOOST_TEST(!simulation.any_worker_takes_part());
    }
  }
}

BOOST_AUTO_TEST_CASE(fast_stalls_on_an_unused_message) {
  Graph graph;
  graph[1] = {.sender = 1, .receiver = 0, .users = {}, .used_by_root = true};
  graph[2] = {.sender = 1, .receiver = 0, .users = {}, .used_by_root = false};
  PassSimulation fast(graph, {.fast = true});
  run(fast, test_seed());
  BOOST_TEST(!fast.finished());
  BOOST_TEST(fast.stuck());
  BOOST_TEST(fast.any_worker_takes_part());
  PassSimulation smart(graph, {});
  run(smart, test_seed());
  BOOST_TEST(smart.finished());
  BOOST_TEST(smart.stuck());
  BOOST_TEST(!smart.any_worker_takes_part());
}

BOOST_AUTO_TEST_CASE(failure_at_any_point_ends_the_pass) {
  int failures = 0;
  for (const uint64_t seed : seeds({}, 300)) {
    const int workers = 2 + static_cast<int>(seed % 3);
    const Graph graph = random_graph(seed, workers, seed % 2 ? 0.3 : 0.0);
    for (int event = 0; event < 60; ++event) {
      PassSimulation simulation(graph, {.workers = workers, .mark_first = seed % 5 == 0});
      const auto failing =
          static_cast<WorkerId>((seed + static_cast<uint64_t>(event)) % static_cast<uint64_t>(workers));
      run(simulation, seed, event, failing);
      BOOST_REQUIRE_MESSAGE(simulation.finished(), "seed " << seed << ", event " << event << ": no end");
      if (!simulation.failed()) continue;
      ++failures;
      BOOST_TEST(!simulation.any_worker_takes_part(), "seed " << seed << ", event " << event);
    }
  }
  BOOST_TEST(failures > 1000);
}

BOOST_AUTO_TEST_CASE(worked_example_matches_its_page) {
  const auto id = [](WorkerId worker, uint64_t number) { return make_id(worker, number); };
  Graph graph;
  graph[id(1, 1)] = {.sender = 1, .receiver = 0, .users = {id(0, 1), id(0, 2)}};
  graph[id(0, 1)] = {.sender = 0, .receiver = 1, .users = {id(1, 2)}};
  graph[id(1, 2)] = {.sender = 1, .receiver = 0};
  graph[id(0, 2)] = {.sender = 0, .receiver = 1, .users = {id(1, 3)}};
  graph[id(1, 3)] = {.sender = 1, .receiver = 0, .used_by_root = true};
  PassSimulation simulation(graph, {});
  simulation.start();
  while (!simulation.events().empty()) simulation.happen(0);
  std::string transcript;
  for (const std::string& line : simulation.transcript()) transcript += line + '\n';
  BOOST_TEST(transcript == R"(rank 0 starts
  rank 0: run the graph
rank 0 runs its graph
rank 1 gets gradient 1.3 from rank 0
  rank 1: run the graph
rank 1 runs its graph
rank 0 gets gradient 0.2 from rank 1
  rank 0: answer #2
  rank 0: run the graph
rank 1 gets the answer from rank 0
  rank 1: answer #1, rank 1 waits
rank 0 runs its graph
rank 0 gets the answer from rank 1, rank 1 waits
  rank 0: walk from the roots
  rank 0: send mark to rank 1: 1.3
rank 1 gets mark 1.3 from rank 0
  rank 1: walk from 1.3
  rank 1: send mark to rank 0: 0.2
rank 0 gets mark 0.2 from rank 1
  rank 0: answer #4
  rank 0: walk from 0.2
  rank 0: send mark to rank 1: 1.1
rank 1 gets the answer from rank 0
  rank 1: answer #3, rank 1 waits
rank 1 gets mark 1.1 from rank 0
  rank 1: walk from 1.1
  rank 1: answer #5, rank 1 waits
rank 0 gets the answer from rank 1, rank 1 waits
rank 0 gets the answer from rank 1, rank 1 waits
  rank 0: send resolve to rank 1
  rank 0: run the graph
rank 1 gets resolve from rank 0
  rank 1: run the graph
rank 0 runs its graph
rank 1 runs its graph
  rank 1: answer #6, rank 1 waits
rank 1 gets gradient 1.1 from rank 0
  rank 1: run the graph
rank 0 gets the answer from rank 1, rank 1 waits
rank 1 runs its graph
  rank 1: end
  rank 1: answer #7, rank 1 is done
rank 0 gets the answer from rank 1, rank 1 is done
  rank 0: end
  rank 0: finish
)");
}

BOOST_AUTO_TEST_CASE(invalid_graphs_are_rejected) {
  const auto refused = [](const Graph& graph) { BOOST_CHECK_THROW(PassSimulation(graph, {}), std::invalid_argument); };
  BOOST_CHECK_THROW(PassSimulation({}, {.workers = 0}), std::invalid_argument);
  refused({{1, {.sender = 2, .receiver = 0}}});
  refused({{1, {.sender = 0, .receiver = -1}}});
  refused({{1, {.sender = 0, .receiver = 1, .users = {2}}}});
  refused({{1, {.sender = 0, .receiver = 1, .users = {2}}}, {2, {.sender = 0, .receiver = 1}}});
  refused({{1, {.sender = 0, .receiver = 1, .used_by_root = true}}});
}

BOOST_AUTO_TEST_SUITE_END()
