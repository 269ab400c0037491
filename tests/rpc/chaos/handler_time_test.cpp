// How long a function takes is measured of its own calls: whether others are woken beside it depends on that.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <optional>
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
    writer = std::this_thread::get_id();
    work();
  }
  std::atomic<std::thread::id> writer, server;  // of what is held, and of kShort
};
std::shared_ptr<SlowSender> sender;  // null: kHolds holds nothing
std::optional<Future<Message>> after_it;

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
      if (sender && static_cast<tendril::rpc::detail::Loop*>(Executor::current())->hold_back(sender)) {
        after_it = call(inbound.agent(), inbound.agent().self().id, request(kShort));
      }
      inbound.reply(reply(""));
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
  constexpr int kRounds = 100;  // another thread may lead, and write, where the machine does much else
  int written_first = 0, short_then = 0;
  for (int round = 0; round < kRounds && written_first < 5; ++round) {
    const Table functions;
    const AgentPair pair(functions);
    sender.reset();
    for (int i = 0; i < 20; ++i) call(*pair.a, 1, request(kHolds)).wait();  // it is short: nobody leads while it runs
    sender = std::make_shared<SlowSender>();
    after_it.reset();
    call(*pair.a, 1, request(kHolds)).wait();
    const auto deadline = Clock::now() + 30s;
    const auto busy = [&] { return (after_it && !after_it->done()) || pair.b->metrics().active_handlers > 0; };
    while (busy() && Clock::now() < deadline) std::this_thread::yield();  // to wait would be to lead, and to write
    BOOST_REQUIRE(!busy());
    if (!after_it || sender->writer.load() != sender->server.load()) continue;
    ++written_first;
    short_then += functions.average(kShort) < kTime;
  }
  sender.reset();
  after_it.reset();
  BOOST_TEST(written_first > 0);
  BOOST_TEST(2 * short_then > written_first);
}

BOOST_AUTO_TEST_SUITE_END()
