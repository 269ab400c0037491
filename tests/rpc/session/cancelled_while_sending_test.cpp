// A call that is cancelled while its references are registered: the listener hears of its end after its beginning.
#include <boost/test/unit_test.hpp>

#include "tests/rpc/agent_pair.h"
#include "tests/rpc/cluster.h"

BOOST_AUTO_TEST_SUITE(cancelled_while_sending)

using namespace rpc_test;

const Functions& functions() {
  static const Functions table(
      [](Functions& f) { f.add(1, "echo", [](InboundCall& inbound) { inbound.reply(reply("")); }); });
  return table;
}

/// Does in the middle of registering what may happen there.
struct Listener final : AgentListener {
  void peer_joined(const WorkerInfo&, uint64_t) override {}
  void peer_lost(const WorkerInfo&, const std::exception_ptr&) override {}
  void control_received(const WorkerInfo&, Bytes) override {}
  void on_send(const WorkerInfo&, Message& message) override {
    message.references.clear();
    meanwhile();
    heard += "leaves ";
  }
  void message_not_sent(const WorkerInfo&, MessageKind, uint64_t) noexcept override { heard += "not_sent "; }
  void message_arrived(const WorkerInfo&, std::unique_ptr<ParkedMessage>) noexcept override {}
  void call_cancelled(const WorkerInfo&, uint64_t) noexcept override { heard += "cancelled "; }
  void agent_closing() noexcept override {}
  Clock::time_point on_timer(Clock::time_point) noexcept override { return Clock::time_point::max(); }

  std::function<void()> meanwhile;
  std::string heard;
};

BOOST_AUTO_TEST_CASE(transfer_ends_after_it_begins) {
  Agent b({.name = std::string("b"), .rank = 1, .world_size = 2}, functions());
  const auto listener = std::make_shared<Listener>();
  Agent a({.name = std::string("a"), .rank = 0, .world_size = 2}, functions());
  a.set_listener(listener);
  a.connect(b.self(), b.listen(), Clock::now() + 30s);
  const auto outcome = [&](std::function<void()> meanwhile, const CallOptions& options) {
    listener->heard.clear();
    listener->meanwhile = std::move(meanwhile);
    Message message = request(1);
    message.references.emplace_back();
    const Future<Message> reply = call(a, 1, std::move(message), options);
    std::string heard = listener->heard;
    try {
      reply.wait();
    } catch (const RpcError&) {
    }
    return heard;
  };
  std::stop_source stop;
  BOOST_TEST(outcome([&] { stop.request_stop(); }, {.stop = stop.get_token()}) == "leaves cancelled ");
  // Its deadline passes, and is noticed by the leader meanwhile.
  const auto wait_for_timeout = [&] {
    BOOST_TEST(Cluster::eventually([&] { return a.metrics().calls_timed_out > 0; }));
  };
  BOOST_TEST(outcome(wait_for_timeout, {.timeout = 20ms}) == "leaves cancelled ");
  BOOST_TEST(outcome([&] { throw RRefError("no"); }, {}) == "");
  BOOST_TEST(outcome([] {}, {}) == "leaves ");
}

BOOST_AUTO_TEST_SUITE_END()
