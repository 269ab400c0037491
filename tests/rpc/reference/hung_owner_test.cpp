// Requests with references whose owner does not answer.
#include <boost/test/unit_test.hpp>

#include "tests/rpc/cluster.h"
#include "tests/rpc/hang.h"

BOOST_AUTO_TEST_SUITE(hung_owner)

using namespace rpc_test;

struct Number {
  int value = 7;
  int get() const { return value; }
};
int use(const RRef<Number>&) { return 1; }

/// From now on nothing leaves this worker or reaches it, and nobody is told.
NetworkRule silence(WorkerId worker) {
  return [worker](const PassingMessage& passing) {
    return MessageFate{.copies = passing.from == worker || passing.to == worker ? 0 : 1};
  };
}

int nothing() { return 0; }

BOOST_AUTO_TEST_CASE(parked_request_ends_with_the_callers_deadline) {
  const auto network = MemoryNetwork::make();
  Cluster cluster(3, {.num_worker_threads = 1, .ping_interval = 0ms}, served_functions(), network.get());
  {
    RRef<Number> number = remote<Number>(cluster[0], 2);
    BOOST_REQUIRE((number.rpc_sync<&Number::get>() == 7));
    network->set_rule(silence(2));
    BOOST_CHECK_THROW(rpc_sync<&use>(cluster[0], 1, {.timeout = 100ms}, number), TimeoutError);
    BOOST_TEST(Cluster::eventually([&] { return cluster[1].metrics().unanswered_calls == 0; }));
    BOOST_TEST(cluster.counters(1).pending_users == 1u);  // it is still to be decided: nobody may be forgotten
    network->set_rule({});
  }
  BOOST_TEST(Cluster::eventually([&] { return cluster.counters(1).none() && cluster.counters(0).none(); }));
}

BOOST_AUTO_TEST_CASE(parked_time_counts_toward_the_deadline) {
  const auto network = MemoryNetwork::make();
  Cluster cluster(3, {.num_worker_threads = 1, .ping_interval = 0ms}, served_functions(), network.get());
  RRef<Number> number = remote<Number>(cluster[0], 2);
  BOOST_REQUIRE((number.rpc_sync<&Number::get>() == 7));
  // The owner's answer takes longer than the call may.
  network->set_rule([](const PassingMessage& passing) {
    return MessageFate{.delay = passing.from == 2 ? std::chrono::microseconds(500ms) : 0us};
  });
  const uint64_t served = cluster[1].metrics().calls_served;
  BOOST_CHECK_THROW(rpc_sync<&use>(cluster[0], 1, {.timeout = 100ms}, number), TimeoutError);
  BOOST_TEST(Cluster::eventually([&] { return cluster.counters(1).none(); }));
  network->set_rule({});
  BOOST_TEST(cluster[1].metrics().unanswered_calls == 0u);
  BOOST_TEST(cluster[1].metrics().calls_served == served);  // dropped, not run as well
}

BOOST_AUTO_TEST_CASE(silent_owner_fails_a_parked_request) {
  const auto hang = std::make_shared<Hang>();
  Cluster cluster(3, {.ping_interval = 500ms, .liveness_timeout = 3s}, served_functions(), nullptr, [&](Agent& agent) {
    if (agent.self().id == 2) agent.add_hook(hang);
  });
  {
    const LetGo let_go{hang};
    RRef<Number> number = remote<Number>(cluster[0], 2);
    BOOST_REQUIRE((number.rpc_sync<&Number::get>() == 7));
    const Future<int> hangs = rpc_async<&nothing>(cluster[2], 1, {.timeout = 0us});
    BOOST_REQUIRE(Cluster::eventually([&] { return hang->hangs(); }));
    // "w1" has no call to "w2" pending: it waits for its word on the reference only.
    const Future<int> used = rpc_async<&use>(cluster[0], 1, {.timeout = 0us}, number);
    const bool ended = used.wait_for(60s);
    BOOST_TEST(ended);
    if (ended) {
      const std::string error = message_of<RpcError>([&] { used.wait(); });
      BOOST_TEST(contains(error, "has given no sign of life for"), error);
    }
    BOOST_TEST(!cluster[1].is_connected(2));
  }
}

BOOST_AUTO_TEST_SUITE_END()
