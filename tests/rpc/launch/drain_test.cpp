#include "tendril/rpc/launch/drain.h"

#include <boost/test/unit_test.hpp>
#include <thread>

#include "tendril/rpc/launch/rendezvous_host.h"
#include "tests/rpc/cluster.h"
#include "tests/rpc/error_text.h"

// Two agents whose messages the test may lose, and the rendezvous through which they agree that they are done.

namespace drain_test {

using namespace rpc_test;
using tendril::rpc::detail::RendezvousClient;
using tendril::rpc::detail::RendezvousHost;
using tendril::test::text_of_error;

int same(int x) { return x; }

std::atomic<int> steps_taken{0};
/// Nobody waits for it, and its caller has been answered long before it ends.
Task<void> go_on(int steps) {
  for (int i = 0; i < steps; ++i) {
    co_await rpc_async<&same>(Cluster::agent(1), i % 2, i);
    ++steps_taken;
  }
}
void begin_to_go_on(int steps) { (void)go_on(steps); }

/// Makes the instant long in which a call has been answered and what waits for the answer has not gone on yet.
struct SlowReading final : MessageHook {
  void before_send(const WorkerInfo&, Message&) override {}
  void after_receive(const WorkerInfo&, Message&) override {}
  void before_reply(const WorkerInfo&, Message&) override {}
  void after_reply(const WorkerInfo&, Message&) override { std::this_thread::sleep_for(200ms); }
};

/// What `drain` throws at each of two workers.
std::array<std::string, 2> drain(Cluster& cluster, std::chrono::milliseconds timeout) {
  const SharedKey key = SharedKey::random();
  const RendezvousHost host({boost::asio::ip::address_v4::loopback(), 0}, 2, "group", key);
  std::array<std::string, 2> errors;
  const auto run = [&](int rank) {
    errors[static_cast<std::size_t>(rank)] = text_of_error([&] {
      RendezvousClient client({.address = host.address(),
                               .self = cluster[rank].self(),
                               .world_size = 2,
                               .timeout = 30s,
                               .group = rank == 0 ? std::string("group") : std::string(),
                               .key = key});
      try {
        tendril::rpc::detail::drain(cluster[rank], client, Clock::now() + timeout);
      } catch (const std::exception& e) {
        client.fail(e.what());
        throw;
      }
    });
  };
  std::jthread other([&] { run(1); });
  run(0);
  other.join();
  return errors;
}

struct Pair {
  std::shared_ptr<MemoryNetwork> network = MemoryNetwork::make();
  Cluster cluster{2, {}, served_functions(), network.get()};

  /// A call whose request gets lost; it is cancelled.
  void lose_a_request() {
    network->set_rule([](const PassingMessage& passing) -> MessageFate {
      return {.copies = passing.message.kind == MessageKind::request ? 0 : 1};
    });
    BOOST_CHECK_THROW((rpc_sync<&same>(cluster[0], 1, CallOptions{.timeout = 10ms}, 1)), tendril::rpc::TimeoutError);
    network->set_rule({});
  }
};

}  // namespace drain_test

using namespace drain_test;

BOOST_AUTO_TEST_SUITE(drain)

BOOST_AUTO_TEST_CASE(it_is_over_once_everybody_is_idle_and_everything_has_arrived) {
  Pair pair;
  for (int i = 0; i < 10; ++i) BOOST_TEST(rpc_sync<&same>(pair.cluster[i % 2], 1 - i % 2, i) == i);
  for (const std::string& error : drain_test::drain(pair.cluster, 60s)) BOOST_TEST(error == "");
}

BOOST_AUTO_TEST_CASE(a_coroutine_that_goes_on_after_its_caller_was_answered_is_waited_for) {
  Cluster cluster(2, {}, served_functions(), nullptr, [](Agent& agent) {
    if (agent.self().id == 1) agent.add_hook(std::make_shared<SlowReading>());
  });
  steps_taken = 0;
  rpc_sync<&begin_to_go_on>(cluster[0], 1, 4);
  for (const std::string& error : drain_test::drain(cluster, 60s)) BOOST_TEST(error == "");
  BOOST_TEST(steps_taken == 4);
}

BOOST_AUTO_TEST_CASE(a_worker_that_comes_at_its_deadline_leaves_all_the_same) {
  Pair pair;
  for (const std::string& error : drain_test::drain(pair.cluster, 0ms)) BOOST_TEST(error == "");
}

BOOST_AUTO_TEST_CASE(what_was_lost_ends_the_wait_at_the_deadline_with_its_number) {
  Pair pair;
  pair.lose_a_request();
  const auto errors = drain_test::drain(pair.cluster, 300ms);
  for (const std::string& error : errors)
    BOOST_TEST(contains(error,
                        "of 1 requests that were sent over open connections 0 have arrived ('w0' has sent 1 and "
                        "received 0; 'w1' has sent 0 and received 0)"),
               error);
}

BOOST_AUTO_TEST_CASE(what_was_lost_with_a_connection_is_not_waited_for) {
  Pair pair;
  pair.lose_a_request();
  pair.network->cut(0, 1);
  for (const std::string& error : drain_test::drain(pair.cluster, 60s)) BOOST_TEST(error == "");
}

BOOST_AUTO_TEST_CASE(a_request_overtaken_by_the_news_that_it_was_given_up_counts_as_arrived) {
  Pair pair;
  pair.network->set_rule([](const PassingMessage& passing) -> MessageFate {
    return {.delay = passing.message.kind == MessageKind::request ? 100ms : 0ms};
  });
  BOOST_CHECK_THROW((rpc_sync<&same>(pair.cluster[0], 1, CallOptions{.timeout = 10ms}, 1)), tendril::rpc::TimeoutError);
  pair.network->set_rule({});
  for (const std::string& error : drain_test::drain(pair.cluster, 60s)) BOOST_TEST(error == "");
}

BOOST_AUTO_TEST_SUITE_END()
