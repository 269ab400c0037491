// The end of a pool's threads: queued jobs run, waits end, and nothing is kept.
#include <boost/test/unit_test.hpp>
#include <latch>
#include <thread>

#include "tendril/rpc/threads/loop.h"
#include "tests/rpc/cluster.h"
#include "tests/rpc/hang.h"

BOOST_AUTO_TEST_SUITE(pool_ending)

using namespace rpc_test;
using tendril::rpc::detail::Loop;

int nothing() { return 0; }

struct Scene {
  std::latch begun{1}, end{1}, done{1};
  std::atomic<int> rounds{0};
  std::atomic<bool> over{false}, ends{false};
};

BOOST_AUTO_TEST_CASE(ended_pool_runs_jobs_in_place) {
  const tendril::Ref<Loop> loop(new Loop({.name = std::string("loop")}));
  loop->start();
  BOOST_REQUIRE(loop->end_by(Clock::time_point::max()));
  std::atomic<bool> here{false};  // set by a job posted between the two steps of the end, from outside the pool
  post(*loop, [&, by = std::this_thread::get_id()] { here = std::this_thread::get_id() == by; });
  BOOST_TEST(here.load());
  (void)loop->stop();
}

BOOST_AUTO_TEST_CASE(queued_jobs_run_before_the_end) {
  const tendril::Ref<Loop> loop(new Loop({.name = std::string("loop"), .slots = 1}));
  loop->start();
  std::atomic<int> run{0};
  std::latch end{1};
  post(*loop, [&] { end.wait(); });  // holds the only slot until the end has begun
  for (int i = 0; i < 10; ++i) post(*loop, [&] { post(*loop, [&] { ++run; }); });
  BOOST_TEST(!loop->end_by(Clock::now()));
  end.count_down();
  BOOST_REQUIRE(loop->end_by(Clock::now() + 60s));
  BOOST_TEST(run == 10);
  (void)loop->stop();
}

BOOST_AUTO_TEST_CASE(stop_returns_only_unended_jobs) {
  for (const bool ends : {true, false}) {
    const tendril::Ref<Loop> loop(new Loop({.name = std::string("loop")}));
    loop->start();
    const auto scene = std::make_shared<Scene>();
    post(*loop, [scene] {
      scene->begun.count_down();
      scene->end.wait();
    });
    scene->begun.wait();
    BOOST_TEST(!loop->end_by(Clock::now() + 20ms));
    if (ends) {
      scene->end.count_down();
      BOOST_TEST(Cluster::eventually([&] { return loop->unended().empty(); }));
    }
    BOOST_TEST(loop->stop().size() == (ends ? 0u : 1u));
    if (!ends) scene->end.count_down();
    BOOST_TEST(Cluster::eventually([&] { return loop->gauges().threads == 0; }));
  }
}

BOOST_AUTO_TEST_CASE(abandoned_job_gets_queued_work) {
  const auto scene = std::make_shared<Scene>();
  {
    Agent agent({.name = std::string("w0"), .num_worker_threads = 1}, served_functions());
    post(agent.executor(), [scene] {
      scene->begun.count_down();
      scene->end.wait();
      blocking([&] { scene->done.wait(); });
      scene->over = true;
    });
    scene->begun.wait();
    post(agent.executor(), [scene] { scene->done.count_down(); });  // waits for the slot
    BOOST_CHECK_THROW(agent.shutdown(Clock::now() + 100ms), TimeoutError);
  }
  scene->end.count_down();
  BOOST_TEST(Cluster::eventually([&] { return scene->over.load(); }, 60s));
}

BOOST_AUTO_TEST_CASE(ending_pool_runs_posted_jobs) {
  const auto scene = std::make_shared<Scene>();
  Agent agent({.name = std::string("w0"), .num_worker_threads = 1, .max_threads = 3}, served_functions());
  post(agent.executor(), [scene, agent = agent.share()] {
    scene->begun.count_down();
    scene->ends = Cluster::eventually([&] { return !agent->send_control(0, {}); });  // the shutdown has begun
    for (; scene->rounds < 50; ++scene->rounds) {
      const auto done = std::make_shared<std::latch>(1);
      post(agent->executor(), [done] { done->count_down(); });
      blocking([&] { done->wait(); });
    }
  });
  scene->begun.wait();
  BOOST_CHECK_NO_THROW(agent.shutdown(Clock::now() + 60s));
  BOOST_TEST(scene->ends);
  BOOST_TEST(scene->rounds == 50);
}

BOOST_AUTO_TEST_CASE(blocked_callback_releases_io_when_it_returns) {
  const auto hang = std::make_shared<Hang>();
  std::weak_ptr<Agent> inner;
  {
    Cluster cluster(2, {.ping_interval = 0ms}, served_functions(), [&](Agent& agent) {
      if (agent.self().id == 1) agent.add_hook(hang);
    });
    const LetGo let_go{hang};
    inner = cluster[1].share();
    const Future<int> hangs = rpc_async<&nothing>(cluster[1], 0, {.timeout = 0us});
    BOOST_REQUIRE(Cluster::eventually([&] { return hang->hangs(); }));
    const std::string error = message_of<TimeoutError>([&] { cluster[1].shutdown(Clock::now() + 100ms); });
    BOOST_TEST(contains(error, "a continuation that blocks an I/O thread"), error);
    hang->let_go();
    BOOST_TEST(Cluster::eventually([&] { return !cluster[0].is_connected(1); }));  // the socket is closed
  }
  BOOST_TEST(Cluster::eventually([&] { return inner.expired(); }));
}

BOOST_AUTO_TEST_SUITE_END()
