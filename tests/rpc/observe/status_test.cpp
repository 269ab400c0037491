// The text that describes the state of a worker.
#include "tendril/rpc/status.h"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <future>
#include <regex>
#include <thread>

#include "tendril/rpc/rref.h"
#include "tests/rpc/cluster.h"

BOOST_AUTO_TEST_SUITE(status)

using namespace rpc_test;

struct Net {
  explicit Net(int v) : value(v) {}
  int value;
};
struct Scene {
  std::promise<void> promise;
  std::shared_future<void> opened{promise.get_future()};
  std::atomic<int> inside{0};
};
std::unique_ptr<Scene> scene;
int hold(int x) {
  ++scene->inside;
  scene->opened.wait();
  return x;
}
int add(int a, int b) { return a + b; }

/// Replaces ages and times by T, and numbers of bytes and threads by N.
std::string without_numbers(std::string text) {
  text = std::regex_replace(text, std::regex(R"( +[0-9]+\.[0-9]{3} s  )"), "  T  ");
  text = std::regex_replace(text, std::regex(R"([0-9]+ bytes)"), "N bytes");
  text = std::regex_replace(text, std::regex(R"(silent for [^ \n]+ s)"), "silent for T");
  text = std::regex_replace(text, std::regex(R"([0-9.]+ us)"), "T");
  text = std::regex_replace(text, std::regex(R"(pool: [0-9]+ threads)"), "pool: N threads");
  return text;
}

BOOST_AUTO_TEST_CASE(status_describes_all_parts_of_a_worker) {
  scene = std::make_unique<Scene>();
  Cluster cluster(2, {.num_worker_threads = 1});
  const RRef<Net> net = remote<Net>(cluster[0], 1, 7);
  BOOST_TEST(rpc_sync<&add>(cluster[0], 1, 1, 2) == 3);
  const auto references = RRefContext::of(cluster[0]);
  BOOST_TEST(
      Cluster::eventually([&] { return references->table().list().at(0).state == LiveReference::State::held; }, 60s));
  const Future<int> running = rpc_async<&hold>(cluster[0], 1, 1);
  BOOST_TEST(Cluster::eventually([&] { return scene->inside == 1; }, 60s));
  const auto runs = [](const Agent& agent, uint64_t handlers) {
    const Metrics now = agent.metrics();
    return now.active_handlers == handlers && now.queued_jobs == 0;
  };
  BOOST_TEST(Cluster::eventually([&] { return runs(cluster[0], 0) && runs(cluster[1], 1); }, 60s));
  const std::string process = std::to_string(::getpid());
  BOOST_TEST(
      without_numbers(tendril::rpc::status(cluster[0])) ==
      "== worker 'w0' (rank 0) of 2, process " + process +
          "\n"
          "connections: 2\n"
          "  worker 'w0' (rank 0): self, 0 calls to it pending, 0 from it unanswered\n"
          "  worker 'w1' (rank 1): unix, 1 calls to it pending, 0 from it unanswered; sent N bytes and 3 requests, "
          "received N bytes and 0 requests; N bytes queued; silent for T\n"
          "calls made and pending: 1\n"
          "  T  #3 status::hold on worker 'w1' (rank 1)\n"
          "calls received and unanswered: 0\n"
          "threads in use: 0\n"
          "references: 1\n"
          "  T  RRef 0.1 of worker 'w1' (rank 1), user worker 'w0' (rank 0): held\n"
          "pool: N threads of at most 256, 0 of 1 slots in use, 0 handlers waiting, 0 jobs queued\n"
          "calls made: 3, completed 2, failed 0 (timed out 0, cancelled 0), late replies 0, unread errors 0\n"
          "calls served: 0, dropped 0\n"
          "latency of calls made: 2 timed, mean T, p50 T, p99 T\n");
  BOOST_TEST(
      without_numbers(tendril::rpc::status(cluster[1])) ==
      "== worker 'w1' (rank 1) of 2, process " + process +
          "\n"
          "connections: 2\n"
          "  worker 'w0' (rank 0): unix, 0 calls to it pending, 1 from it unanswered; sent N bytes and 0 requests, "
          "received N bytes and 3 requests; N bytes queued; silent for T\n"
          "  worker 'w1' (rank 1): self, 0 calls to it pending, 0 from it unanswered\n"
          "calls made and pending: 0\n"
          "calls received and unanswered: 1\n"
          "  T  #3 status::hold for worker 'w0' (rank 0): running\n"
          "threads in use: 1\n"
          "  T  status::hold for worker 'w0' (rank 0)\n"
          "references: 1\n"
          "  T  RRef 0.1 (status::Net) of worker 'w1' (rank 1), user worker 'w0' (rank 0): held\n"
          "pool: N threads of at most 256, 1 of 1 slots in use, 0 handlers waiting, 0 jobs queued\n"
          "calls made: 0, completed 0, failed 0 (timed out 0, cancelled 0), late replies 0, unread errors 0\n"
          "calls served: 2, dropped 0\n"
          "latency of calls made: 0 timed\n");
  scene->promise.set_value();
  BOOST_TEST(running.wait() == 1);
}

BOOST_AUTO_TEST_CASE(status_covers_all_live_agents) {
  const auto mentions = [](const std::string& name) {
    return contains(tendril::rpc::status(), "== worker '" + name + "' (rank 0) of 1, process ");
  };
  Agent first({.name = std::string("status-first")}, served_functions());
  RRefContext::attach(first);
  {
    Agent second({.name = std::string("status-second")}, served_functions());
    RRefContext::attach(second);
    BOOST_TEST(mentions("status-first"));
    BOOST_TEST(mentions("status-second"));
    second.shutdown();
    BOOST_TEST(!mentions("status-second"));
  }
  BOOST_TEST(mentions("status-first"));
}

BOOST_AUTO_TEST_CASE(status_works_while_all_threads_are_stuck) {
  scene = std::make_unique<Scene>();
  Cluster cluster(2, {.num_worker_threads = 2, .max_threads = 3});
  std::vector<Future<int>> calls;
  for (int i = 0; i < 150; ++i) calls.push_back(rpc_async<&hold>(cluster[0], 1, i));
  const auto stuck = [&] { return cluster[1].calls_received().size() == 150 && scene->inside >= 1; };
  BOOST_TEST(Cluster::eventually(stuck, 60s));
  const std::string text = tendril::rpc::status(cluster[1]);
  BOOST_TEST(contains(text, "calls received and unanswered: 150\n"), text);
  BOOST_TEST(contains(text, "status::hold for worker 'w0' (rank 0): running\n"), text);
  BOOST_TEST(contains(text, "status::hold for worker 'w0' (rank 0): queued\n"), text);
  BOOST_TEST(contains(text, "  and 50 more\n"), text);
  scene->promise.set_value();
  for (const Future<int>& call : calls) call.wait();
}

BOOST_AUTO_TEST_CASE(status_works_while_agents_start_and_stop) {
  std::atomic<bool> done{false};
  std::atomic<int> asked{0};
  std::jthread asking([&] {
    for (; !done; ++asked) (void)tendril::rpc::status(), (void)tendril::rpc::prometheus_text();
  });
  for (int round = 0; round < 3; ++round) {
    Cluster cluster(3);
    const RRef<Net> net = remote<Net>(cluster[0], 1, 7);
    std::vector<Future<int>> calls;
    for (int i = 0; i < 200; ++i) calls.push_back(rpc_async<&add>(cluster[i % 3], (i + 1) % 3, i, 1));
    for (int i = 0; i < 200; ++i) BOOST_TEST(calls[static_cast<std::size_t>(i)].wait() == i + 1);
  }
  BOOST_TEST(Cluster::eventually([&] { return asked > 0; }, 60s));
  done = true;
}

BOOST_AUTO_TEST_SUITE_END()
