// How workers leave a group: the calls that shutdown waits for, the references that it releases, and the workers that
// its errors name.
#include <unistd.h>

#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "tendril/rpc/call.h"
#include "tendril/rpc/rref.h"
#include "tests/rpc/asleep.h"
#include "tests/rpc/party.h"

BOOST_AUTO_TEST_SUITE(leaving)

using namespace group_party;
using tendril::test::contains;

namespace leaving_test {

int add(int a, int b) { return a + b; }

std::atomic<int> hops{0};
std::vector<std::shared_ptr<Agent>> agents;  // by rank; the workers of one process have no default agent

/// Calls itself on the next worker of the ring, without waiting for the result.
void hop(int at, int left) {
  ++hops;
  if (left > 0) {
    const int next = (at + 1) % static_cast<int>(agents.size());
    rpc_async<&hop>(*agents[static_cast<std::size_t>(at)], next, next, left - 1);
  }
}

std::latch* gate = nullptr;
void wait_at_gate() {
  blocking([] { gate->wait(); });
}

struct Counter {
  explicit Counter(int start = 0) : value(start) {}
  int increment() { return ++value; }
  std::atomic<int> value;
};

}  // namespace leaving_test

using namespace leaving_test;

BOOST_AUTO_TEST_CASE(held_references_are_released_at_shutdown) {
  const Party party(2);
  std::latch seen(2);
  party
      .run([&](int rank) {
        Group group(name_of(rank), party.options_of(rank));
        const RRef<Counter> counter = remote<Counter>(*group.agent(), 1 - rank, 5);
        EXPECT(counter.rpc_sync<&Counter::increment>() == 6);
        seen.arrive_and_wait();
        const RRefCounters counters = group.rref_counters();
        EXPECT(counters.users == 1u);
        EXPECT(counters.owner_rrefs == 1u);
        EXPECT(counters.forks == 1u);
        group.shutdown();
        EXPECT(group.rref_counters().none());
        EXPECT(text_of_error([&] { counter.rpc_sync<&Counter::increment>(); }) != "");
      })
      .expect_none();
}

BOOST_AUTO_TEST_CASE(follow_up_calls_finish_before_shutdown_returns) {
  for (const int threads : {1, 16}) {
    const Party party(4, {.num_worker_threads = threads});
    hops = 0;
    agents.assign(4, nullptr);
    party
        .run([&](int rank) {
          Group group(name_of(rank), party.options_of(rank));
          agents[static_cast<std::size_t>(rank)] = group.agent();
          group.barrier();
          rpc_async<&hop>(*group.agent(), (rank + 1) % 4, (rank + 1) % 4, 19);
          group.shutdown();
          EXPECT(hops.load() == 4 * 20);
        })
        .expect_none();
    agents.clear();
  }
}

BOOST_AUTO_TEST_CASE(idle_workers_wait_for_a_busy_one) {
  for (const int threads : {1, 16}) {
    const Party party(3, {.num_worker_threads = threads});
    std::atomic<bool> busy_is_done{false};
    std::atomic<int> returned{0};
    std::array<std::atomic<pid_t>, 2> threads_in_shutdown{};
    party
        .run([&](int rank) {
          Group group(name_of(rank), party.options_of(rank));
          if (rank == 2) {
            for (const auto& thread : threads_in_shutdown)
              EXPECT(tendril::test::wait_until_asleep(thread, [&] { return returned > 0; }));
            for (int i = 0; i < 50; ++i) EXPECT(rpc_sync<&add>(*group.agent(), i % 2, i, 1) == i + 1);
            busy_is_done = true;
          } else {
            threads_in_shutdown[static_cast<std::size_t>(rank)] = ::gettid();
          }
          group.shutdown();
          ++returned;
          EXPECT(busy_is_done.load());
        })
        .expect_none();
  }
}

BOOST_AUTO_TEST_CASE(shutdown_timeout_names_missing_workers) {
  const Party party(3);
  std::latch told(2);
  const Results results = party.run([&](int rank) {
    Group group(name_of(rank), party.options_of(rank));
    if (rank == 1) {
      told.wait();
      return;
    }
    const std::string error = text_of_error([&] { group.shutdown({.timeout = 200ms}); });
    told.count_down();
    throw std::runtime_error(error);
  });
  for (const int rank : {0, 2}) {
    const std::string& error = results.errors[static_cast<std::size_t>(rank)];
    BOOST_TEST(contains(error, "TimeoutError: rpc::shutdown ('" + name_of(rank) + "'): after "));
    BOOST_TEST(contains(error, "these workers have not reached 'shutdown': worker 'w1' (rank 1)"));
  }
}

BOOST_AUTO_TEST_CASE(shutdown_timeout_names_busy_workers) {
  const Party party(2);
  std::latch open(1);
  gate = &open;
  const Results results = party.run([&](int rank) {
    Group group(name_of(rank), party.options_of(rank));
    if (rank == 0) rpc_async<&wait_at_gate>(*group.agent(), 1, CallOptions{.timeout = 0s});
    group.barrier();
    // Shutting down waits for the handler, which returns once the group has abandoned it.
    std::jthread opener([&, agent = group.agent()] {
      // `shutdown` below closes the connection at its deadline, when it abandons the handler.
      (void)tendril::test::holds_within(60s, [&] { return !agent->is_connected(1 - rank); });
      if (rank == 0) open.count_down();
    });
    group.shutdown({.timeout = 300ms});
  });
  const std::string all = results.errors[0] + results.errors[1];
  BOOST_TEST(contains(all, "still busy: "));
  // Both workers are busy with the same call. The first one to report it reports it for both.
  BOOST_TEST((contains(all, "1 received calls not answered") || contains(all, "1 calls pending (to 'w1')")), all);
  for (const std::string& error : results.errors) BOOST_TEST(contains(error, "rpc::shutdown ('w"));
}

BOOST_AUTO_TEST_CASE(leaving_alone_does_not_wait) {
  const Party party(3);
  std::latch gone(1);
  const Results results = party.run([&](int rank) {
    Group group(name_of(rank), party.options_of(rank));
    if (rank == 1) {
      group.shutdown({.graceful = false});
      gone.count_down();
      return;
    }
    gone.wait();
    group.shutdown();
  });
  BOOST_TEST(results.errors[1] == "");
  for (const int rank : {0, 2})
    BOOST_TEST(contains(results.errors[static_cast<std::size_t>(rank)],
                        "worker 'w1' (rank 1) has left the group while others are at 'shutdown'"));
}

BOOST_AUTO_TEST_CASE(shutdown_is_final_and_repeatable) {
  const Party party(2);
  party
      .run([&](int rank) {
        Group group(name_of(rank), party.options_of(rank));
        group.shutdown();
        group.shutdown();
        EXPECT(contains(text_of_error([&] { rpc_sync<&add>(*group.agent(), 1 - rank, 1, 2); }), "UsageError: "));
        EXPECT(text_of_error([&] { group.barrier(); }) == "UsageError: rpc::barrier: this worker has left its group");
      })
      .expect_none();
}

BOOST_AUTO_TEST_SUITE_END()
