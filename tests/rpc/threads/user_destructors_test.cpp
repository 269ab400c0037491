// Destructors of users' objects never run on a thread that drives I/O, so they may take long, block and make calls.
#include <atomic>
#include <boost/test/unit_test.hpp>

#include "tendril/rpc/call.h"
#include "tests/rpc/cluster.h"

BOOST_AUTO_TEST_SUITE(user_destructors)

using namespace rpc_test;

int twice(int x) { return 2 * x; }

std::atomic<int> ended{0}, answers{0};

/// Makes a call in its destructor. After a move, only the destructor of the new object does.
struct Calls {
  Calls() = default;
  Calls(int f, int t) : from(f), to(t) {}
  Calls(Calls&& other) noexcept : from(std::exchange(other.from, -1)), to(other.to) {}
  Calls& operator=(Calls&&) = delete;
  ~Calls() {
    if (from < 0) return;
    answers += rpc_sync<&twice>(Cluster::agent(from), to, 1);
    ++ended;
  }
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& from& to;
  }
  int from = -1, to = -1;
};

std::promise<void> opened;
std::shared_future<void> gate;
void close_gate() {
  opened = {};
  gate = opened.get_future().share();
}
int there_and_back(int there, int back) {
  blocking([] { gate.wait_for(30s); });
  return rpc_sync<&twice>(Cluster::agent(there), back, 1);
}
/// In its destructor, calls a function that calls back.
struct CallsThere {
  CallsThere(int f, int t) : from(f), to(t) {}
  ~CallsThere() {
    try {
      answers += rpc_sync<&there_and_back>(Cluster::agent(from), to, {.timeout = 20s}, to, from);
    } catch (const RpcError& error) {
      BOOST_TEST_MESSAGE(error.what());
    }
    ++ended;
  }
  int from, to;
};

Calls result() { return {0, 1}; }
Future<int> passed_on(const Calls&, int from, int to) { return rpc_async<&twice>(Cluster::agent(from), to, 1); }
int late(int x) {
  blocking([] { gate.wait_for(30s); });
  return x;
}
void reset() { ended = answers = 0; }
bool all_ended(int count) {
  return Cluster::eventually([&] { return ended == count && answers == 2 * count; });
}

BOOST_AUTO_TEST_CASE(unread_results_destructor_may_call) {
  reset();
  Cluster cluster(2);
  for (int i = 0; i < 10; ++i) rpc_async<&result>(cluster[0], 1);
  BOOST_TEST(all_ended(20));  // the callee's and the caller's
}

BOOST_AUTO_TEST_CASE(captured_objects_destructor_may_call) {
  reset();
  close_gate();
  Cluster cluster(2);
  const auto captured = [] { return std::make_unique<Calls>(0, 1); };
  const auto answered = rpc_async<&late>(cluster[0], 1, 3).then([c = captured()](Future<int>) {});
  const auto overdue = rpc_async<&late>(cluster[0], 1, CallOptions{.timeout = 20ms}, 3);
  const auto failed = overdue.then([c = captured()](Future<int>) {});
  BOOST_CHECK_THROW(overdue.wait(), TimeoutError);
  BOOST_TEST(all_ended(1));
  opened.set_value();
  answered.wait();
  BOOST_TEST(all_ended(2));
}

BOOST_AUTO_TEST_CASE(arguments_destructor_may_call) {
  reset();
  Cluster cluster(2);
  BOOST_TEST((rpc_sync<&passed_on>(cluster[0], 1, Calls(1, 0), 1, 0)) == 2);
  BOOST_TEST(all_ended(2));  // the caller's and the callee's
}

BOOST_AUTO_TEST_CASE(blocked_destructors_leave_threads_for_nested_calls) {
  reset();
  close_gate();
  constexpr int kObjects = 30;
  Cluster cluster(2, {.num_worker_threads = 2, .max_threads = 10});
  {
    std::vector<RRef<CallsThere>> objects;
    for (int i = 0; i < kObjects; ++i) objects.push_back(remote<CallsThere>(cluster[1], 0, 0, 1));
    rpc_sync<&twice>(cluster[1], 0, 1);
  }
  BOOST_TEST(Cluster::eventually([&] { return cluster[0].metrics().blocked_handlers >= 8; }));
  // Meanwhile, calls of the same depth as those that the destructors wait for are served. If more destructors started,
  // they would take the last thread, and one of these calls would time out.
  {
    CallContext nested;
    nested.depth = 1;
    const CallContextScope scope(nested);
    for (int i = 0; i < 200; ++i)
      BOOST_REQUIRE(rpc_sync<&twice>(cluster[1], 0, CallOptions{.timeout = 20s}, i) == 2 * i);
  }
  BOOST_TEST(cluster[0].metrics().blocked_handlers == 8u);
  opened.set_value();
  BOOST_TEST(Cluster::eventually([] { return ended == kObjects; }, 60s));
  BOOST_TEST(answers == 2 * kObjects);
}

BOOST_AUTO_TEST_SUITE_END()
