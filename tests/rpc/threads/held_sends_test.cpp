// A reply leaves when it is made, or soon with others, whatever the handlers after it do; and so do requests.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "tests/rpc/agent_pair.h"

BOOST_AUTO_TEST_SUITE(held_sends)

using namespace rpc_test;

namespace {

enum Function : uint64_t { kOccupy = 1, kWork, kOccupyReader };

/// What handlers of one test wait for without telling the library; made anew by each test.
struct Gate {
  std::promise<void> promise;
  std::shared_future<void> opened{promise.get_future()};
};
std::unique_ptr<Gate> occupied, worked;

/// As Functions, with one that occupies the thread that reads its request.
class Table final : public FunctionTable {
 public:
  Table() {
    functions_[kOccupy].invoke = functions_[kOccupyReader].invoke = [](InboundCall& inbound) {
      occupied->opened.wait_for(30s);
      inbound.reply(reply("occupied"));
    };
    functions_[kOccupyReader].on_reader = true;
    functions_[kWork].invoke = [](InboundCall& inbound) {
      if (text(inbound.request()) == "long") worked->opened.wait_for(30s);
      inbound.reply(reply("worked"));
    };
  }
  std::chrono::nanoseconds average(Function id) const { return functions_[id].run_time.average(); }
  const ServedFunction* find(uint64_t id) const noexcept override {
    return id <= kOccupyReader ? &functions_[id] : nullptr;
  }

 private:
  ServedFunction functions_[kOccupyReader + 1];
};

const Table& functions() {
  static const Table table;
  return table;
}

/// Of that table, without pings: an answer to one would take along what is held back.
struct Pair : AgentPair {
  explicit Pair(AgentOptions options = {}) : AgentPair(functions(), without_pings(std::move(options))) {}
  static AgentOptions without_pings(AgentOptions options) {
    options.ping_interval = 0ms;
    return options;
  }
};

/// Calls kWork until it is likely to be short, which a slow build may never make it.
void make_work_short(const Pair& pair) {
  for (int i = 0; i < 400 || (i < 4000 && functions().average(kWork) > 15us); ++i) {
    call(*pair.a, 1, request(kWork, "short")).wait();
  }
  BOOST_WARN((functions().average(kWork) < 20us));
}

/// Waits, with a deadline, until `condition()` holds.
template <class Condition>
bool eventually(Condition condition) {
  const auto deadline = Clock::now() + 30s;
  while (!condition() && Clock::now() < deadline) std::this_thread::yield();
  return condition();
}

/// A handler that is likely to be short, and is not.
struct Misjudged final : Job {
  explicit Misjudged(std::function<void()> f) : work(std::move(f)) {}
  void run(std::unique_ptr<Job>) noexcept override { work(); }
  std::chrono::nanoseconds likely_time() const noexcept override { return 0ns; }
  int level() const noexcept override { return 0; }
  std::function<void()> work;
};

}  // namespace

BOOST_AUTO_TEST_CASE(finished_reply_does_not_wait_for_handlers) {
  occupied = std::make_unique<Gate>();
  worked = std::make_unique<Gate>();
  Pair pair({.num_worker_threads = 1});
  make_work_short(pair);
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

BOOST_AUTO_TEST_CASE(held_replies_leave_before_a_long_handler) {
  Pair pair({.num_worker_threads = 1});
  for (int round = 0; round < 10; ++round) {
    occupied = std::make_unique<Gate>();
    worked = std::make_unique<Gate>();
    make_work_short(pair);
    // While the thread that reads is kept, what follows comes together, so that nobody leads while it is worked off.
    const Future<Message> first = call(*pair.a, 1, request(kOccupyReader));
    const Future<Message> made[] = {call(*pair.a, 1, request(kWork, "short")),
                                    call(*pair.a, 1, request(kWork, "short"))};
    const Future<Message> next = call(*pair.a, 1, request(kWork, "long"));
    occupied->promise.set_value();
    for (const Future<Message>& one : made) BOOST_REQUIRE(one.wait_for(15s));
    BOOST_TEST(!next.done());
    worked->promise.set_value();
    BOOST_TEST(text(next.wait()) == "worked");
    first.wait();
  }
  check_at_rest(*pair.b);
}

BOOST_AUTO_TEST_CASE(held_requests_leave_without_a_wait) {
  Pair pair;
  for (int round = 0; round < 20; ++round) {
    std::vector<Future<Message>> made;
    for (int i = 0; i < 100; ++i) made.push_back(call(*pair.a, 1, request(kWork)));
    BOOST_TEST(
        eventually([&] { return std::all_of(made.begin(), made.end(), [](const auto& one) { return one.done(); }); }));
    if (round % 2 == 0) call(*pair.a, 1, request(kWork)).wait();  // this thread has led last
  }
  check_at_rest(*pair.a);
}

BOOST_AUTO_TEST_CASE(jobs_run_beside_a_misjudged_one) {
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
