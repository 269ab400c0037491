// How long a function takes is measured of its own calls: whether others are woken beside it depends on that.
#include <boost/test/unit_test.hpp>
#include <memory>

#include "tests/rpc/agent_pair.h"

BOOST_AUTO_TEST_SUITE(handler_time)

using namespace rpc_test;

enum Function : uint64_t { kOnReader = 1, kLong, kDeferred, kCompletes };
constexpr auto kTime = 5ms;

std::unique_ptr<Promise<>> deferred;

void work() {
  const auto end = Clock::now() + kTime;
  while (Clock::now() < end) {
  }
}

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
  }
  const ServedFunction* find(uint64_t id) const noexcept override {
    return id <= kCompletes ? &functions_[id] : nullptr;
  }
  uint32_t slowest_ns(Function id) const { return functions_[id].slowest_ns.load(); }

 private:
  void add(Function id, void (*invoke)(InboundCall&)) { functions_[id].invoke = invoke; }
  ServedFunction functions_[kCompletes + 1];
};

BOOST_AUTO_TEST_CASE(a_function_that_answers_within_it_does_not_make_it_seem_short) {
  const Table functions;
  {
    Agent agent({.name = std::string("solo")}, functions);
    call(agent, 0, request(kLong)).wait();
  }
  BOOST_TEST(functions.slowest_ns(kLong) >= std::chrono::nanoseconds(kTime).count());
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
  BOOST_TEST(functions.slowest_ns(kCompletes) >= std::chrono::nanoseconds(kTime).count());
}

BOOST_AUTO_TEST_SUITE_END()
