#include <boost/test/unit_test.hpp>
#include <limits>

#include "tests/rpc/cluster.h"

BOOST_AUTO_TEST_SUITE(timeouts)

/// Durations outside the clock's range, from callers and from the wire.
namespace timeouts_test {

using namespace rpc_test;

std::string deadline_here() {
  const Clock::time_point deadline = CallContext::current().deadline;
  if (deadline == Clock::time_point::max()) return "none";
  return deadline > Clock::now() + std::chrono::hours(24 * 365) ? "years" : "short";
}

/// Overwrites the timeout of outgoing requests.
struct Forger final : MessageHook {
  void before_send(const WorkerInfo&, Message& request) override { request.timeout_us = timeout_us; }
  void after_receive(const WorkerInfo&, Message&) override {}
  void before_reply(const WorkerInfo&, Message&) override {}
  void after_reply(const WorkerInfo&, Message&) override {}
  std::atomic<uint64_t> timeout_us{0};
};

}  // namespace timeouts_test

using namespace timeouts_test;

BOOST_AUTO_TEST_CASE(any_timeout_is_accepted) {
  Cluster cluster(2);
  using std::chrono::microseconds;
  const auto seen = [&](microseconds timeout) { return rpc_sync<&deadline_here>(cluster[0], 1, {.timeout = timeout}); };
  BOOST_TEST(seen(microseconds::max()) == "years");
  BOOST_TEST(seen(microseconds(std::numeric_limits<int64_t>::max() / 1000 - 1)) == "years");  // + now overflows
  BOOST_TEST(seen(microseconds(0)) == "none");
  for (const microseconds past : {microseconds(-1), microseconds::min(), microseconds::min() / 1000}) {
    BOOST_CHECK_THROW(seen(past), TimeoutError);
  }
  cluster[0].set_rpc_timeout(microseconds::max());
  const Future<std::string> usual = rpc_async<&deadline_here>(cluster[0], 1);
  BOOST_TEST(usual.wait_for(std::chrono::hours::max()));
  BOOST_TEST(usual.wait() == "years");
  BOOST_TEST(!Promise<void>().future().wait_for(std::chrono::hours::min()));
}

BOOST_AUTO_TEST_CASE(any_timeout_from_a_peer_is_accepted) {
  const auto forger = std::make_shared<Forger>();
  static std::shared_ptr<Forger> current;
  current = forger;
  Cluster cluster(2, {}, served_functions(), [](Agent& agent) {
    if (agent.self().id == 0) agent.add_hook(current);
  });
  constexpr uint64_t most = std::numeric_limits<uint64_t>::max();
  for (const uint64_t number : {most, most / 2, most / 2 + 1, most / 1000, most / 2000}) {
    forger->timeout_us = number;
    BOOST_TEST(rpc_sync<&deadline_here>(cluster[0], 1, {.timeout = 30s}) == "years");
  }
}

BOOST_AUTO_TEST_CASE(any_interval_is_accepted) {
  using std::chrono::milliseconds;
  Cluster cluster(2, {.rpc_timeout = std::chrono::microseconds::max(),
                      .max_spin = std::chrono::microseconds::max(),
                      .ping_interval = milliseconds::max(),
                      .liveness_timeout = milliseconds::max()});
  BOOST_TEST(rpc_sync<&deadline_here>(cluster[0], 1) == "years");
}

BOOST_AUTO_TEST_CASE(deadlines_stay_within_the_clocks_range) {
  using Seconds = std::chrono::duration<uint64_t>;
  const Clock::time_point now = Clock::now();
  const std::chrono::hours century(24 * 365 * 100);
  BOOST_CHECK(deadline_after(Seconds(std::numeric_limits<uint64_t>::max()), now) == now + century);
  BOOST_CHECK(deadline_after(std::chrono::duration<double>(1e300), now) == now + century);
  BOOST_CHECK(deadline_after(std::chrono::duration<double>(-1e300), now) == now - century);
  BOOST_CHECK(deadline_after(5s, now) == now + 5s);
  BOOST_CHECK(deadline_after(-5ms, now) == now - 5ms);
}

BOOST_AUTO_TEST_SUITE_END()
