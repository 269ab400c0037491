#include "tendril/rpc/group/drain.h"

#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tendril/rpc/session/agent_impl.h"
#include "tests/rpc/cluster.h"
#include "tests/rpc/error_text.h"
#include "tests/rpc/session/cutting_proxy.h"
#include "tests/wait_until.h"

// How two agents agree that they are done, even if requests between them are late or lost.

BOOST_AUTO_TEST_SUITE(drain)

using namespace rpc_test;
using tendril::test::text_of_error;

int same(int x) { return x; }

std::atomic<int> steps_taken{0};
/// Nothing awaits this coroutine, and its caller is answered long before it ends.
Task<void> go_on(int steps) {
  for (int i = 0; i < steps; ++i) {
    co_await rpc_async<&same>(Cluster::agent(1), i % 2, i);
    ++steps_taken;
  }
}
void begin_to_go_on(int steps) { (void)go_on(steps); }

std::atomic<int> looks{0};         // how often `drain` has found worker 1 busy
std::atomic<bool> drained{false};  // `drain` has returned on worker 1
std::atomic<int> rounds{0};        // how often worker 1 has compared its counts with worker 0's

/// Delays worker 1 between the arrival of a reply and the continuation that waits for it, until `drain` has checked the
/// worker in between.
struct SlowReading final : MessageHook {
  void before_send(const WorkerInfo&, Message&) override {}
  void after_receive(const WorkerInfo&, Message&) override {}
  void before_reply(const WorkerInfo&, Message&) override {}
  void after_reply(const WorkerInfo&, Message&) override {
    const int before = looks;
    (void)tendril::test::holds_within(60s, [&] { return drained || looks > before + 1; });
  }
};

/// Connects the gatherings of two threads. If one fails, so does the other.
class TwoThreads {
 public:
  struct Member final : tendril::rpc::detail::Gathering {
    Member(TwoThreads& of, std::size_t rank) : both(of), self(rank) {}
    std::vector<std::string> gather(const std::string&, std::string contribution, std::chrono::milliseconds) override {
      if (self == 1) ++rounds;
      return both.gather(self, std::move(contribution));
    }
    void check() override {
      if (self == 1) ++looks;
      const std::lock_guard lock(both.mutex_);
      if (!both.failure_.empty()) throw tendril::rpc::TimeoutError(both.failure_);
    }
    const std::vector<std::string>& names() const noexcept override { return both.names_; }

    TwoThreads& both;
    const std::size_t self;
  };

  void fail(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = why;
    changed_.notify_all();
  }

 private:
  std::vector<std::string> gather(std::size_t rank, std::string contribution) {
    std::unique_lock lock(mutex_);
    const int round = round_;
    parts_[rank] = std::move(contribution);
    if (++arrived_ == 2) {
      all_ = parts_;
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return round_ != round || !failure_.empty(); });
    if (round_ == round) throw tendril::rpc::TimeoutError(failure_);
    return all_;
  }

  const std::vector<std::string> names_{"w0", "w1"};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> parts_{2}, all_;
  int arrived_ = 0, round_ = 0;
  std::string failure_;
};

/// Returns the errors that `drain` throws at the two workers.
std::array<std::string, 2> drain(const std::array<Agent*, 2>& workers, std::chrono::milliseconds timeout) {
  TwoThreads both;
  std::array<std::string, 2> errors;
  const auto run = [&](std::size_t rank) {
    errors[rank] = text_of_error([&] {
      TwoThreads::Member member(both, rank);
      try {
        tendril::rpc::detail::drain(*workers[rank], member, Clock::now() + timeout);
      } catch (const std::exception& e) {
        both.fail(e.what());
        throw;
      }
    });
    if (rank == 1) drained = true;
  };
  std::jthread other([&] { run(1); });
  run(0);
  other.join();
  return errors;
}

std::array<std::string, 2> drain(Cluster& cluster, std::chrono::milliseconds timeout) {
  return drain({&cluster[0], &cluster[1]}, timeout);
}

/// Two agents, connected through a proxy that can hold their messages.
struct Pair {
  Pair() {
    a.listen({.unix_socket = false});
    a.connect(b.self(), proxy.endpoint(), Clock::now() + 30s);
    BOOST_REQUIRE(b.wait_connected(0, Clock::now() + 30s));
  }
  static AgentOptions options(const char* name, int rank) {
    return {.name = std::string(name), .rank = rank, .world_size = 2, .grace_period = 1s};
  }
  std::array<std::string, 2> drain(std::chrono::milliseconds timeout) { return drain::drain({&a, &b}, timeout); }

  /// Makes a call that times out while its request is in transit. The request stays there until `proxy.hold(false)`.
  void hold_a_request() {
    proxy.hold(true);
    BOOST_CHECK_THROW((rpc_sync<&same>(a, 1, CallOptions{.timeout = 10ms}, 1)), tendril::rpc::TimeoutError);
  }

  Agent a{options("w0", 0), served_functions()}, b{options("w1", 1), served_functions()};
  CuttingProxy proxy{b.listen({.unix_socket = false})};
};

BOOST_AUTO_TEST_CASE(drain_returns_once_all_workers_are_idle) {
  Cluster cluster(2);
  for (int i = 0; i < 10; ++i) BOOST_TEST(rpc_sync<&same>(cluster[i % 2], 1 - i % 2, i) == i);
  for (const std::string& error : drain::drain(cluster, 60s)) BOOST_TEST(error == "");
}

BOOST_AUTO_TEST_CASE(contribution_is_short_with_few_connections) {
  constexpr int kWorkers = 1000;
  /// The other workers. None of them is connected.
  struct Rest final : tendril::rpc::detail::Gathering {
    std::vector<std::string> gather(const std::string&, std::string contribution, std::chrono::milliseconds) override {
      longest = std::max(longest, contribution.size());
      std::vector<std::string> all;
      for (int rank = 0; rank < kWorkers; ++rank) all.push_back("0 0 + " + std::to_string(rank));
      all[0] = std::move(contribution);
      ++rounds;
      return all;
    }
    void check() override {}
    const std::vector<std::string>& names() const noexcept override { return names_; }
    std::size_t longest = 0;
    int rounds = 0;

   private:
    std::vector<std::string> names_;
  };
  Agent agent({.name = std::string("w0"), .world_size = kWorkers}, served_functions());
  Rest rest;
  tendril::rpc::detail::drain(agent, rest, Clock::now() + 60s);
  BOOST_TEST(rest.rounds == 2);
  BOOST_TEST(rest.longest < 32u);
}

BOOST_AUTO_TEST_CASE(drain_waits_for_detached_coroutines) {
  Cluster cluster(2, {}, served_functions(), [](Agent& agent) {
    if (agent.self().id == 1) agent.add_hook(std::make_shared<SlowReading>());
  });
  steps_taken = looks = 0;
  drained = false;
  rpc_sync<&begin_to_go_on>(cluster[0], 1, 4);
  for (const std::string& error : drain::drain(cluster, 60s)) BOOST_TEST(error == "");
  BOOST_TEST(steps_taken == 4);
}

BOOST_AUTO_TEST_CASE(idle_workers_drain_at_their_deadline) {
  Cluster cluster(2);
  for (const std::string& error : drain::drain(cluster, 0ms)) BOOST_TEST(error == "");
}

BOOST_AUTO_TEST_CASE(request_in_transit_fails_drain_at_deadline) {
  Pair pair;
  pair.hold_a_request();
  for (const std::string& error : pair.drain(300ms))
    BOOST_TEST(contains(error,
                        "of 1 requests that were sent over open connections 0 have arrived ('w0' has sent 1 and "
                        "received 0; 'w1' has sent 0 and received 0)"),
               error);
}

BOOST_AUTO_TEST_CASE(drain_waits_for_late_request) {
  Pair pair;
  pair.hold_a_request();
  rounds = 0;
  std::jthread release([&] {
    (void)tendril::test::holds_within(60s, [] { return rounds > 1; });
    pair.proxy.hold(false);
  });
  for (const std::string& error : pair.drain(60s)) BOOST_TEST(error == "");
  BOOST_TEST(pair.b.traffic().requests_received == 1u);
}

BOOST_AUTO_TEST_CASE(drain_ignores_requests_of_ended_connections) {
  Pair pair;
  pair.hold_a_request();
  const auto lost = std::make_exception_ptr(PeerLostError("it is lost", true));
  pair.a.impl().session(1)->end(lost);
  pair.b.impl().session(0)->end(lost);
  for (const std::string& error : pair.drain(60s)) BOOST_TEST(error == "");
}

BOOST_AUTO_TEST_CASE(drain_detects_one_sided_loss) {
  Pair pair;
  BOOST_TEST(rpc_sync<&same>(pair.a, 1, 7) == 7);
  pair.proxy.stall();
  pair.a.impl().session(1)->end(std::make_exception_ptr(PeerLostError("it is lost", true)));
  BOOST_TEST(pair.b.is_connected(0));
  for (const std::string& error : pair.drain(60s)) BOOST_TEST(error == "");
}

BOOST_AUTO_TEST_SUITE_END()
