// A handler's run time is measured from its own start to its own reply. The pool uses it to decide whether to wake
// other threads.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "tendril/rpc/threads/loop.h"
#include "tendril/rpc/threads/trace.h"
#include "tests/rpc/cluster.h"
#include "tests/rpc/raw_call.h"
#include "tests/wait_until.h"

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

/// A sender that writes its messages later than they are sent. Records when, and on which thread.
struct NotingSender final : tendril::rpc::detail::HeldSends::Sender {
  void write_held() override {
    const Clock::time_point begin = Clock::now();
    while (Clock::now() == begin) {
    }
    written_ns = tendril::rpc::detail::trace_ns(Clock::now());
    writer = std::this_thread::get_id();
  }
  std::atomic<int64_t> written_ns{0};
  std::atomic<std::thread::id> writer, server;  // the threads of `write_held` and of the handler of kShort
};
std::shared_ptr<NotingSender> sender;  // null: kHolds holds nothing back
std::optional<Future<Message>> after_it;

/// Like Functions, except that kOnReader runs on the thread that reads its request.
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
      deferred->set_value();  // answers the call of kDeferred on this thread
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

BOOST_AUTO_TEST_CASE(nested_replies_do_not_end_run_time) {
  const Table functions;
  {
    Agent agent({.name = std::string("solo")}, functions);
    call(agent, 0, request(kLong)).wait();
  }
  BOOST_TEST((functions.average(kLong) >= kTime));
}

BOOST_AUTO_TEST_CASE(completed_calls_do_not_end_run_time) {
  const Table functions;
  deferred = std::make_unique<Promise<>>();
  {
    Agent agent({.name = std::string("solo")}, functions);
    const Future<Message> waits = call(agent, 0, request(kDeferred));
    tendril::test::wait_until("the handler of kDeferred has returned", [&] {
      const Metrics now = agent.metrics();
      return now.active_handlers + now.queued_jobs == 0;
    });
    call(agent, 0, request(kCompletes)).wait();
    waits.wait();
  }
  BOOST_TEST((functions.average(kCompletes) >= kTime));
}

/// The start times of the handlers of `function` in `trace`.
std::vector<int64_t> starts_of(const tendril::rpc::detail::Trace& trace, Function function) {
  using tendril::rpc::detail::TraceSpan;
  std::vector<int64_t> starts;
  for (const auto& thread : trace.threads()) {
    for (const TraceSpan& span : thread.spans) {
      if (span.kind == TraceSpan::Kind::handler && span.function == function) starts.push_back(span.start_ns);
    }
  }
  return starts;
}

/// Calls kHolds, which holds a message back and calls kShort. Returns false if a thread other than that of kShort wrote
/// the message, because it took the lead in between.
bool serve_after_writing() {
  const Table functions;
  const auto trace = std::make_shared<tendril::rpc::detail::Trace>("", WorkerInfo{"w1", 1}, 1);
  sender.reset();
  after_it.reset();
  Cluster cluster(2, {}, functions, [&](Agent& agent) {
    if (agent.self().id == 1) agent.set_trace(trace);
  });
  for (int i = 0; i < 20; ++i) call(cluster[0], 1, request(kHolds)).wait();  // now short: no thread leads while it runs
  sender = std::make_shared<NotingSender>();
  call(cluster[0], 1, request(kHolds)).wait();
  // Does not wait for the future: a waiting thread would lead, and the leader writes the messages that are held back.
  tendril::test::wait_until("both handlers have returned", [&] {
    const Metrics now = cluster[1].metrics();
    return now.active_handlers + now.queued_jobs == 0 && (!after_it || after_it->done());
  });
  const bool on_its_thread = after_it && sender->writer.load() == sender->server.load();
  if (on_its_thread) {
    const std::vector<int64_t> starts = starts_of(*trace, kShort);
    BOOST_REQUIRE(starts.size() == 1u);
    BOOST_TEST(starts[0] >= sender->written_ns.load());
  }
  after_it.reset();
  sender.reset();
  return on_its_thread;
}

// If writing counted, short handlers would seem long. Replies of long handlers are sent one by one, which takes even
// longer.
BOOST_AUTO_TEST_CASE(run_time_excludes_earlier_writes) {
  tendril::test::wait_until("one thread writes the held message and then serves kShort", serve_after_writing);
}

BOOST_AUTO_TEST_SUITE_END()
