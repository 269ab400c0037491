// A reply leaves when it is made, whatever the handlers after it do.
// timeout: 120
#include <boost/test/unit_test.hpp>
#include <functional>
#include <future>
#include <memory>
#include <thread>

#include "tests/rpc/agent_pair.h"

using namespace rpc_test;

namespace {

enum Function : uint64_t { kOccupy = 1, kWork };

/// What handlers of one test wait for without telling the library; made anew by each test.
struct Gate {
  std::promise<void> promise;
  std::shared_future<void> opened{promise.get_future()};
};
std::unique_ptr<Gate> occupied, worked;

const Functions& functions() {
  static const Functions table([](Functions& f) {
    f.add(kOccupy, "occupy", [](InboundCall& inbound) {
      occupied->opened.wait_for(30s);
      inbound.reply(reply("occupied"));
    });
    f.add(kWork, "work", [](InboundCall& inbound) {
      if (text(inbound.request()) == "long") worked->opened.wait_for(30s);
      inbound.reply(reply("worked"));
    });
  });
  return table;
}

/// Waits, with a deadline, until `condition()` holds.
template <class Condition>
bool eventually(Condition condition) {
  const auto deadline = Clock::now() + 30s;
  while (!condition() && Clock::now() < deadline) std::this_thread::yield();
  return condition();
}

/// A job that is known to be short, and is not.
struct Misjudged final : Job {
  explicit Misjudged(std::function<void()> f) : work(std::move(f)) {}
  void run(std::unique_ptr<Job>) noexcept override { work(); }
  bool is_short() const noexcept override { return true; }
  std::function<void()> work;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(held_reply)

BOOST_AUTO_TEST_CASE(a_finished_reply_does_not_wait_for_the_next_handler) {
  occupied = std::make_unique<Gate>();
  worked = std::make_unique<Gate>();
  // No pings: an answer to one would take a reply along that is held back.
  AgentPair pair(functions(), {.num_worker_threads = 1, .ping_interval = 0ms});
  for (int i = 0; i < 1000; ++i) call(*pair.a, 1, request(kWork, "short")).wait();  // it is known to be short
  const Future<Message> first = call(*pair.a, 1, request(kOccupy));
  const Future<Message> made = call(*pair.a, 1, request(kWork, "short"));
  const Future<Message> next = call(*pair.a, 1, request(kWork, "long"));
  BOOST_TEST(eventually([&] { return pair.b->metrics().queued_jobs == 2; }));
  occupied->promise.set_value();
  BOOST_TEST(made.wait_for(15s));
  BOOST_TEST(!next.done());
  worked->promise.set_value();  // only now: the long one waits for what its caller does next
  BOOST_TEST(text(next.wait()) == "worked");
  first.wait();
  check_at_rest(*pair.b);
}

BOOST_AUTO_TEST_CASE(jobs_behind_one_that_was_taken_for_short_run_beside_it) {
  Agent agent({.name = std::string("solo"), .num_worker_threads = 2}, functions());
  post(agent.executor(), [] {});
  for (int round = 0; round < 50; ++round) {
    std::promise<void> ran, ended;
    bool in_time = false;
    agent.executor().post(std::make_unique<Misjudged>([&] {
      in_time = ran.get_future().wait_for(15s) == std::future_status::ready;
      ended.set_value();
    }));
    agent.executor().post(std::make_unique<Misjudged>([&] { ran.set_value(); }));
    ended.get_future().wait();
    BOOST_REQUIRE(in_time);
  }
}

BOOST_AUTO_TEST_SUITE_END()
