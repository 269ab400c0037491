// How long a function takes is measured of its own calls: whether others are woken beside it depends on that.
#include <boost/test/unit_test.hpp>
#include <memory>
#include <thread>

#include "tendril/rpc/threads/loop.h"
#include "tests/rpc/agent_pair.h"

BOOST_AUTO_TEST_SUITE(handler_time)

using namespace rpc_test;

enum Function : uint64_t { kOnReader = 1, kLong, kDeferred, kCompletes, kHolds, kShort };
constexpr auto kTime = 5ms;

std::unique_ptr<Promise<>> deferred;

void work() {
  const auto end = Clock::now() + kTime;
  while (Clock::now() < end) {
  }
}

/// Whose messages take long to write.
struct SlowSender final : tendril::rpc::detail::HeldSends::Sender {
  void write_held() override {
    if (!both_called) return;
    writer = std::this_thread::get_id();
    work();
  }
  std::atomic<bool> both_called = false;
  std::atomic<std::thread::id> writer, server;  // of what is held, and of kShort
};
std::shared_ptr<SlowSender> sender;

/// As Functions, with one that runs on the thread that reads its request.
class Table final : public FunctionTable {
 public:
  Table() {
    add(kOnReader, [](InboundCall& inbound) { inbound.reply(reply("")); });
    functions_[kOnReader].on_reader = true;
    add(kLong, [](InboundCall& inbound) {
      call(inbound.agent(), 0, request(kOnReader)).wait();
      work();
      inbound.reply(reply(""));
    });
    add(kDeferred, [](InboundCall& inbound) {
      deferred->future().then(
          [held = std::make_shared<InboundCall>(std::move(inbound))](const Future<void>&) { held->reply(reply("")); });
    });
    add(kCompletes, [](InboundCall& inbound) {
      deferred->set_value();  // answers another call here
      work();
      inbound.reply(reply(""));
    });
    add(kHolds, [](InboundCall& inbound) {
      const bool held = static_cast<tendril::rpc::detail::Loop*>(Executor::current())->hold_back(sender);
      inbound.reply(reply(held ? "held" : "somebody leads"));
    });
    add(kShort, [](InboundCall& inbound) {
      sender->server = std::this_thread::get_id();
      inbound.reply(reply(""));
    });
  }
  const ServedFunction* find(uint64_t id) const noexcept override { return id <= kShort ? &functions_[id] : nullptr; }
  std::chrono::nanoseconds average(Function id) const { return functions_[id].run_time.average(); }

 private:
  void add(Function id, void (*invoke)(InboundCall&)) { functions_[id].invoke = invoke; }
  ServedFunction functions_[kShort + 1];
};

BOOST_AUTO_TEST_CASE(a_function_that_answers_within_it_does_not_make_it_seem_short) {
  const Table functions;
  {
    Agent agent({.name = std::string("solo")}, functions);
    call(agent, 0, request(kLong)).wait();
  }
  BOOST_TEST((functions.average(kLong) >= kTime));
}

BOOST_AUTO_TEST_CASE(nor_does_a_call_that_it_completes) {
  const Table functions;
  deferred = std::make_unique<Promise<>>();
  {
    Agent agent({.name = std::string("solo")}, functions);
    const Future<Message> waits = call(agent, 0, request(kDeferred));
    while (agent.metrics().active_handlers + agent.metrics().queued_jobs > 0) std::this_thread::yield();
    call(agent, 0, request(kCompletes)).wait();
    waits.wait();
  }
  BOOST_TEST((functions.average(kCompletes) >= kTime));
}

// Counted, it would make of short functions long ones, whose replies leave one by one, and of that there is no way
// back.
BOOST_AUTO_TEST_CASE(what_is_written_for_others_before_it_begins_is_not_its_time) {
  constexpr int kRounds = 100;  // somebody may lead, and a machine that does much else may take the thread's time
  int written_first = 0, short_then = 0;
  for (int round = 0; round < kRounds && written_first < 5; ++round) {
    const Table functions;
    sender = std::make_shared<SlowSender>();
    Agent agent({.name = std::string("solo"), .num_worker_threads = 1}, functions);
    const Future<Message> holds = call(agent, 0, request(kHolds)), next = call(agent, 0, request(kShort));
    sender->both_called = true;
    while (!holds.done() || !next.done()) std::this_thread::yield();  // to wait would be to lead
    while (agent.metrics().active_handlers > 0) std::this_thread::yield();
    if (sender->writer.load() == std::thread::id() || sender->writer.load() != sender->server.load()) continue;
    ++written_first;
    short_then += functions.average(kShort) < kTime;
  }
  BOOST_TEST(written_first > 0);
  BOOST_TEST(2 * short_then > written_first);
}

BOOST_AUTO_TEST_SUITE_END()
