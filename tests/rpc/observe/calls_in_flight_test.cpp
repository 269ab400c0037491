// The calls in progress that both sides list, and their states.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <future>
#include <thread>
#include <utility>

#include "tendril/rpc/rref.h"
#include "tendril/rpc/task.h"
#include "tests/rpc/cluster.h"
#include "tests/rpc/hang.h"

BOOST_AUTO_TEST_SUITE(calls_in_flight)

using namespace rpc_test;
using State = CallReceived::State;

/// The events for which the handlers of one test wait.
struct Scene {
  void open() {
    if (!std::exchange(is_open, true)) promise.set_value();
  }
  bool is_open = false;
  std::promise<void> promise;
  std::shared_future<void> opened{promise.get_future()};
  Promise<void> resume;
};
std::unique_ptr<Scene> scene;
/// Declared after the cluster, so that the handlers return however the test ends.
struct Opened {
  ~Opened() { scene->open(); }
};

int hold(int x) {
  scene->opened.wait();
  return x;
}
int next(int x) { return x + 1; }
Task<int> suspend(int x) {
  co_await scene->resume.future();
  co_return x;
}
struct Thing {
  explicit Thing(int v) : value(v) {}
  int get() { return value; }
  int value;
};
int use(const RRef<Thing>& thing) { return thing.rpc_sync<&Thing::get>(); }

/// Returns the call of that function that the agent has received, or nullopt if there is not exactly one.
std::optional<CallReceived> received(const Agent& agent, const std::string& function) {
  std::optional<CallReceived> found;
  for (const CallReceived& call : agent.calls_received()) {
    if (call.function_name != "calls_in_flight::" + function) continue;
    if (found) return std::nullopt;
    found = call;
  }
  return found;
}
bool is_in(const Agent& agent, const std::string& function, State state) {
  const auto call = received(agent, function);
  return call && call->state == state;
}

BOOST_AUTO_TEST_CASE(both_sides_list_calls_in_every_state) {
  scene = std::make_unique<Scene>();
  Cluster cluster(2, {.num_worker_threads = 1});
  const Opened opened;
  BOOST_TEST(cluster[0].calls_in_flight().empty());
  BOOST_TEST(cluster[1].calls_received().empty());

  const Future<int> suspended = rpc_async<&suspend>(cluster[0], 1, 1);
  BOOST_TEST(Cluster::eventually([&] { return is_in(cluster[1], "suspend", State::suspended); }, 60s));
  const Future<int> running = rpc_async<&hold>(cluster[0], 1, 2);
  BOOST_TEST(Cluster::eventually([&] { return is_in(cluster[1], "hold", State::running); }, 60s));
  const Future<int> queued = rpc_async<&next>(cluster[0], 1, 3);
  BOOST_TEST(Cluster::eventually([&] { return is_in(cluster[1], "next", State::queued); }, 60s));

  const std::vector<CallInFlight> made = cluster[0].calls_in_flight();
  BOOST_REQUIRE(made.size() == 3u);
  BOOST_TEST(made[0].function_name == "calls_in_flight::suspend");
  BOOST_TEST(made[1].function_name == "calls_in_flight::hold");
  BOOST_TEST(made[2].function_name == "calls_in_flight::next");
  for (const CallInFlight& call : made) BOOST_TEST((call.peer == WorkerInfo{"w1", 1}));
  BOOST_TEST((made[0].age >= made[1].age && made[1].age >= made[2].age && made[2].age > 0ns));

  const auto call = received(cluster[1], "hold");
  BOOST_REQUIRE(call);
  BOOST_TEST((call->caller == WorkerInfo{"w0", 0}));
  BOOST_TEST(call->call_id == made[1].call_id);
  BOOST_TEST(call->function == made[1].function);
  BOOST_TEST((call->age > 0ns && call->age < made[0].age));
  BOOST_TEST(cluster[0].calls_received().empty());
  BOOST_TEST(cluster[1].calls_in_flight().empty());

  // The coroutine needs a slot to resume. Until it gets one, it is queued.
  scene->resume.set_value();
  BOOST_TEST(Cluster::eventually([&] { return is_in(cluster[1], "suspend", State::queued); }, 60s));
  scene->open();
  BOOST_TEST(suspended.wait() == 1);
  BOOST_TEST(running.wait() == 2);
  BOOST_TEST(queued.wait() == 4);
  BOOST_TEST(Cluster::eventually([&] { return cluster[1].calls_received().empty(); }, 60s));
  BOOST_TEST(cluster[0].calls_in_flight().empty());
}

BOOST_AUTO_TEST_CASE(request_waits_for_confirmation_of_references) {
  const auto hang = std::make_shared<Hang>();
  Cluster cluster(3, {.ping_interval = 0ms}, served_functions(), [&](Agent& agent) {
    if (agent.self().id == 2) agent.add_hook(hang);
  });
  const LetGo let_go{hang};
  const RRef<Thing> thing = remote<Thing>(cluster[0], 2, 7);
  BOOST_TEST((thing.rpc_sync<&Thing::get>() == 7));
  const Future<int> hangs = rpc_async<&next>(cluster[2], 1, 1);
  BOOST_REQUIRE(Cluster::eventually([&] { return hang->hangs(); }, 60s));
  const Future<int> parked = rpc_async<&use>(cluster[0], 1, thing);
  BOOST_TEST(Cluster::eventually([&] { return is_in(cluster[1], "use", State::waiting_for_references); }, 60s));
  hang->let_go();
  BOOST_TEST(parked.wait() == 7);
}

BOOST_AUTO_TEST_CASE(agents_list_their_self_calls_separately) {
  scene = std::make_unique<Scene>();
  Cluster cluster(1);
  Agent other({.name = std::string("other")}, served_functions());
  RRefContext::attach(other);
  const Opened opened;
  const Future<int> mine = rpc_async<&hold>(cluster[0], 0, 1);
  const Future<int> theirs = rpc_async<&hold>(other, 0, 2);
  BOOST_TEST(Cluster::eventually([&] { return is_in(cluster[0], "hold", State::running); }, 60s));
  BOOST_TEST(Cluster::eventually([&] { return is_in(other, "hold", State::running); }, 60s));
  BOOST_TEST((other.calls_in_flight().at(0).peer == WorkerInfo{"other", 0}));
  scene->open();
  BOOST_TEST(mine.wait() == 1);
  BOOST_TEST(theirs.wait() == 2);
}

BOOST_AUTO_TEST_CASE(connections_report_traffic_and_pending_calls) {
  scene = std::make_unique<Scene>();
  Cluster cluster(2, {.ping_interval = 0ms});
  const Opened opened;
  const Future<int> running = rpc_async<&hold>(cluster[0], 1, 2);
  BOOST_TEST(Cluster::eventually([&] { return is_in(cluster[1], "hold", State::running); }, 60s));
  const std::vector<Connection> mine = cluster[0].connections(), theirs = cluster[1].connections();
  BOOST_REQUIRE((mine.size() == 2u && theirs.size() == 2u));
  BOOST_TEST((mine[0].peer == WorkerInfo{"w0", 0}));
  BOOST_TEST(mine[0].transport == "self");
  BOOST_TEST((mine[1].peer == WorkerInfo{"w1", 1}));
  BOOST_TEST(mine[1].transport == "unix");
  BOOST_TEST(mine[1].requests_sent == 1u);
  BOOST_TEST(mine[1].pending_calls == 1u);
  BOOST_TEST(mine[1].unanswered_calls == 0u);
  BOOST_TEST(mine[1].bytes_sent == theirs[0].bytes_received);
  BOOST_TEST(theirs[0].requests_received == 1u);
  BOOST_TEST(theirs[0].unanswered_calls == 1u);
  scene->open();
  BOOST_TEST(running.wait() == 2);
}

BOOST_AUTO_TEST_SUITE_END()
