// Shutdowns while a handler does not return.
#include <boost/test/unit_test.hpp>
#include <future>
#include <latch>
#include <mutex>
#include <thread>

#include "tendril/rpc/group.h"
#include "tests/rpc/cluster.h"
#include "tests/rpc/error_text.h"
#include "tests/rpc/reserved_port.h"

namespace stuck_handlers {

using namespace rpc_test;
using tendril::test::text_of_error;

/// The events that the handlers of one test wait for, and the handlers' progress.
struct Scene {
  std::latch begun{1}, end{1};
  Promise<void> promise;
  std::shared_ptr<Agent> agent;
  std::mutex mutex;
  std::atomic<int> returned{0}, threads_ended{0}, touched{0};
  std::string error;
};
std::shared_ptr<Scene> scene;

struct ThreadEnd {
  explicit ThreadEnd(std::shared_ptr<Scene> s) : of(std::move(s)) {}
  ~ThreadEnd() { ++of->threads_ended; }
  std::shared_ptr<Scene> of;
};

/// Ignores the shutdown, as many handlers do, and afterwards continues as if nothing had happened.
int stuck(int number) {
  const std::shared_ptr<Scene> mine = scene;
  thread_local const ThreadEnd thread_end(mine);
  Agent& agent = Cluster::agent(1);
  const std::shared_ptr<Agent> shared = agent.share();
  mine->begun.count_down();
  mine->end.wait();
  mine->error = text_of_error([&] { rpc_sync<&stuck>(*shared, 1, number); });
  ++mine->returned;
  return number;
}
int wait_for_promise() {
  const std::shared_ptr<Scene> mine = scene;
  thread_local const ThreadEnd thread_end(mine);
  const Future<void> future = mine->promise.future();
  mine->begun.count_down();
  future.wait();
  ++mine->returned;
  return 0;
}
int touch() { return ++scene->touched; }
Task<int> stuck_later(Future<void> first) {
  const std::shared_ptr<Scene> mine = scene;
  co_await first;
  thread_local const ThreadEnd thread_end(mine);
  mine->begun.count_down();
  mine->end.wait();
  ++mine->returned;
  co_return 0;
}
int hold_the_agent() {
  const std::shared_ptr<Scene> mine = scene;
  thread_local const ThreadEnd thread_end(mine);
  const std::shared_ptr<Agent> agent = std::move(mine->agent);
  mine->begun.count_down();
  mine->end.wait();
  return ++mine->returned;
}
int hold_the_mutex() {
  const std::shared_ptr<Scene> mine = scene;
  thread_local const ThreadEnd thread_end(mine);
  const std::lock_guard lock(mine->mutex);
  mine->begun.count_down();
  mine->end.wait();
  return ++mine->returned;
}
/// The destructor waits for a mutex that a handler holds.
struct LocksAtItsEnd {
  ~LocksAtItsEnd() {
    const std::lock_guard lock(of->mutex);
    ++of->touched;
  }
  std::shared_ptr<Scene> of = scene;
};
struct LetsGo final : MessageHook {
  void before_send(const WorkerInfo&, Message&) override {}
  void after_receive(const WorkerInfo&, Message&) override {}
  void before_reply(const WorkerInfo&, Message&) override {}
  void after_reply(const WorkerInfo&, Message&) override {}
  void agent_closing() noexcept override { object.reset(); }
  std::unique_ptr<LocksAtItsEnd> object = std::make_unique<LocksAtItsEnd>();
};
Agent* other_agent = nullptr;
int post_to_another_agent() {
  post(other_agent->executor(), [mine = scene] {
    mine->begun.count_down();
    mine->end.wait();
  });
  return 0;
}
Task<int> goes_on_for_ever() { return stuck_later(scene->promise.future()); }

struct Fixture {
  Fixture() { scene = std::make_shared<Scene>(); }
  ~Fixture() { scene.reset(); }
};

/// Returns the error text of a shutdown with this timeout.
std::string shut_down(Agent& agent, std::chrono::milliseconds timeout) {
  return message_of<tendril::rpc::TimeoutError>([&] { agent.shutdown(Clock::now() + timeout); });
}

}  // namespace stuck_handlers

BOOST_FIXTURE_TEST_SUITE(stuck_handlers, Fixture)

BOOST_AUTO_TEST_CASE(shutdown_leaves_a_stuck_handler_its_objects) {
  const auto mine = scene;
  {
    Cluster cluster(2, {.num_worker_threads = 1});
    (void)rpc_async<&stuck>(cluster[0], 1, {.timeout = 0us}, 5);
    mine->begun.wait();
    for (int i = 0; i < 3; ++i) (void)rpc_async<&touch>(cluster[0], 1);  // these wait for the handler's slot
    BOOST_REQUIRE(Cluster::eventually([&] { return cluster[1].metrics().queued_jobs == 3; }));
    const std::string error = shut_down(cluster[1], 100ms);
    BOOST_TEST(contains(error,
                        "worker 'w1' has been shut down, but not all of its functions have returned: "
                        "'stuck_handlers::stuck' for worker 'w0' (rank 0) for "),
               error);
    cluster[1].shutdown();  // returns at once
  }
  BOOST_TEST(mine->returned == 0);
  mine->end.count_down();
  BOOST_TEST(Cluster::eventually([&] { return mine->threads_ended == 1; }, 60s));
  BOOST_TEST(mine->returned == 1);
  BOOST_TEST(contains(mine->error, "has been shut down"), mine->error);
  BOOST_TEST(mine->touched == 0);  // their callers are gone
}

BOOST_AUTO_TEST_CASE(shutdown_leaves_a_waiting_handler) {
  const auto mine = scene;
  {
    Cluster cluster(2, {.num_worker_threads = 1});
    (void)rpc_async<&wait_for_promise>(cluster[0], 1, {.timeout = 0us});
    mine->begun.wait();
    const std::string error = shut_down(cluster[1], 100ms);
    BOOST_TEST(contains(error, "'stuck_handlers::wait_for_promise' for worker 'w0'"), error);
  }
  mine->promise.set_value();
  BOOST_TEST(Cluster::eventually([&] { return mine->threads_ended == 1; }, 60s));
  BOOST_TEST(mine->returned == 1);
}

BOOST_AUTO_TEST_CASE(error_names_the_running_coroutine) {
  const auto mine = scene;
  {
    Cluster cluster(2);
    (void)rpc_async<&goes_on_for_ever>(cluster[0], 1, {.timeout = 0us});
    BOOST_REQUIRE(Cluster::eventually([&] { return cluster[1].metrics().unanswered_calls == 1; }));
    BOOST_REQUIRE(Cluster::eventually([&] { return cluster[1].metrics().active_handlers == 0; }));
    mine->promise.set_value();
    mine->begun.wait();
    BOOST_TEST(cluster[1].handlers_running().size() == 1u);
    const std::string error = shut_down(cluster[1], 100ms);
    BOOST_TEST(contains(error, "'stuck_handlers::goes_on_for_ever' for worker 'w0' (rank 0) for "), error);
  }
  mine->end.count_down();
  BOOST_TEST(Cluster::eventually([&] { return mine->threads_ended == 1; }, 60s));
}

BOOST_AUTO_TEST_CASE(handler_may_hold_the_last_agent_reference) {
  const auto mine = scene;
  std::weak_ptr<Agent> left;
  {
    const auto agent = std::make_shared<Agent>(AgentOptions{.name = std::string("w0")}, served_functions());
    RRefContext::attach(*agent);
    left = mine->agent = agent;
    (void)rpc_async<&hold_the_agent>(*agent, 0, {.timeout = 0us});
    mine->begun.wait();
    const std::string error = shut_down(*agent, 100ms);
    BOOST_TEST(contains(error, "'stuck_handlers::hold_the_agent' for worker 'w0'"), error);
  }
  BOOST_TEST(!left.expired());
  mine->end.count_down();
  BOOST_TEST(Cluster::eventually([&] { return mine->threads_ended == 1; }, 60s));
  BOOST_TEST(left.expired());
}

BOOST_AUTO_TEST_CASE(shutdown_leaves_blocked_destructors) {
  const auto mine = scene;
  {
    Cluster cluster(2, {}, served_functions(), [](Agent& agent) {
      if (agent.self().id == 1) agent.add_hook(std::make_shared<LetsGo>());
    });
    (void)rpc_async<&hold_the_mutex>(cluster[0], 1, {.timeout = 0us});
    mine->begun.wait();
    std::promise<std::string> told;
    std::future<std::string> error = told.get_future();
    std::jthread ending([&] { told.set_value(shut_down(cluster[1], 100ms)); });
    BOOST_TEST((error.wait_for(60s) == std::future_status::ready));
    BOOST_TEST(mine->touched == 0);
    mine->end.count_down();  // otherwise a failing test would never end
    const std::string text = error.get();
    BOOST_TEST(contains(text, "'stuck_handlers::hold_the_mutex' for worker 'w0' (rank 0) for "), text);
    BOOST_TEST(contains(text, "; destructors of objects that it owned"), text);
  }
  BOOST_TEST(Cluster::eventually([&] { return mine->threads_ended == 1 && mine->touched == 1; }, 60s));
}

BOOST_AUTO_TEST_CASE(jobs_of_another_agent_are_not_named) {
  const auto mine = scene;
  Agent large({.name = std::string("large"), .rank = 3, .world_size = 4}, served_functions());
  Agent small({.name = std::string("small")}, served_functions());
  RRefContext::attach(large);
  other_agent = &small;
  rpc_sync<&post_to_another_agent>(large, 3);
  mine->begun.wait();
  const std::vector<HandlerRunning> running = small.handlers_running();
  mine->end.count_down();
  BOOST_REQUIRE(running.size() == 1u);
  BOOST_TEST(running[0].function == "a coroutine or continuation");
  BOOST_TEST(running[0].caller.id == -1);
}

BOOST_AUTO_TEST_CASE(group_shutdown_ends_by_its_deadline) {
  const tendril::test::ReservedPort port;
  for (const bool graceful : {true, false}) {
    const auto mine = scene = std::make_shared<Scene>();
    std::string errors[2];
    {
      std::vector<std::jthread> threads;
      std::latch called(2);
      for (int rank = 0; rank < 2; ++rank)
        threads.emplace_back([&, rank] {
          InitOptions options;
          options.rank = rank;
          options.world_size = 2;
          options.master_port = port.number();
          options.transport = Transport::tcp;
          Group group(std::string("w").append(std::to_string(rank)), options);
          if (rank == 0) (void)rpc_async<&wait_for_promise>(*group.agent(), 1, {.timeout = 0us});
          mine->begun.wait();
          called.arrive_and_wait();
          errors[rank] = text_of_error(
              [&] { group.shutdown({.graceful = graceful || rank == 0, .timeout = rank == 0 ? 60s : 300ms}); });
        });
    }
    BOOST_TEST(contains(errors[1], "TimeoutError: rpc::shutdown ('w1'): "), errors[1]);
    BOOST_TEST(contains(errors[1],
                        "not all of its functions have returned: "
                        "'stuck_handlers::wait_for_promise' for worker 'w0' (rank 0) for "),
               errors[1]);
    if (graceful) BOOST_TEST(contains(errors[1], "still busy: 1 handlers running ('"), errors[1]);
    mine->promise.set_value();
    BOOST_TEST(Cluster::eventually([&] { return mine->threads_ended == 1; }, 60s));
  }
}

BOOST_AUTO_TEST_SUITE_END()
