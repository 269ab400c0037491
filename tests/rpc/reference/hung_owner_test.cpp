// A request with a reference whose owner has stopped answering does not wait forever.
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

int nothing() { return 0; }

/// Three workers. `hang_owner` makes "w2" hang.
struct HungOwner {
  explicit HungOwner(AgentOptions options)
      : cluster(3, std::move(options), served_functions(), [this](Agent& agent) {
          if (agent.self().id == 2) agent.add_hook(hang);
        }) {}
  void hang_owner() {
    hangs = rpc_async<&nothing>(cluster[2], 1, {.timeout = 0us});
    BOOST_REQUIRE(Cluster::eventually([&] { return hang->hangs(); }));
  }
  const std::shared_ptr<Hang> hang = std::make_shared<Hang>();
  Cluster cluster;
  const LetGo let_go{hang};
  Future<int> hangs;
};

BOOST_AUTO_TEST_CASE(parked_request_ends_with_the_callers_deadline) {
  HungOwner workers({.num_worker_threads = 1, .ping_interval = 0ms});
  Cluster& cluster = workers.cluster;
  {
    RRef<Number> number = remote<Number>(cluster[0], 2);
    BOOST_REQUIRE((number.rpc_sync<&Number::get>() == 7));
    workers.hang_owner();
    BOOST_CHECK_THROW(rpc_sync<&use>(cluster[0], 1, {.timeout = 100ms}, number), TimeoutError);
    BOOST_TEST(Cluster::eventually([&] { return cluster[1].metrics().unanswered_calls == 0; }));
    BOOST_TEST(cluster.counters(1).pending_users == 1u);  // undecided until the owner answers
    workers.hang->let_go();
  }
  BOOST_TEST(Cluster::eventually([&] { return cluster.counters(1).none() && cluster.counters(0).none(); }));
}

BOOST_AUTO_TEST_CASE(parked_time_counts_toward_the_deadline) {
  HungOwner workers({.num_worker_threads = 1, .ping_interval = 0ms});
  Cluster& cluster = workers.cluster;
  RRef<Number> number = remote<Number>(cluster[0], 2);
  BOOST_REQUIRE((number.rpc_sync<&Number::get>() == 7));
  workers.hang_owner();
  const uint64_t served = cluster[1].metrics().calls_served;
  BOOST_CHECK_THROW(rpc_sync<&use>(cluster[0], 1, {.timeout = 100ms}, number), TimeoutError);
  workers.hang->let_go();
  BOOST_TEST(Cluster::eventually([&] { return cluster.counters(1).none(); }));
  BOOST_TEST(cluster[1].metrics().unanswered_calls == 0u);
  BOOST_TEST(cluster[1].metrics().calls_served == served);  // dropped, not run
}

BOOST_AUTO_TEST_CASE(silent_owner_fails_a_parked_request) {
  HungOwner workers({.ping_interval = 500ms, .liveness_timeout = 3s});
  Cluster& cluster = workers.cluster;
  RRef<Number> number = remote<Number>(cluster[0], 2);
  BOOST_REQUIRE((number.rpc_sync<&Number::get>() == 7));
  workers.hang_owner();
  // "w1" has no pending call to "w2"; it waits only for the decision on the reference.
  const Future<int> used = rpc_async<&use>(cluster[0], 1, {.timeout = 0us}, number);
  const bool ended = used.wait_for(60s);
  BOOST_TEST(ended);
  if (ended) {
    const std::string error = message_of<RpcError>([&] { used.wait(); });
    BOOST_TEST(contains(error, "has given no sign of life for"), error);
  }
  BOOST_TEST(!cluster[1].is_connected(2));
}

BOOST_AUTO_TEST_SUITE_END()
