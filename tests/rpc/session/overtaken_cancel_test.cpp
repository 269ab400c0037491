// Cancels that arrive before their requests.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <future>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "tests/rpc/agent_pair.h"
#include "tests/rpc/raw_client.h"

BOOST_AUTO_TEST_SUITE(overtaken_cancel)

using namespace rpc_test;

const Functions& functions() {
  static const Functions table([](Functions& f) {
    f.add(1, "echo", [](InboundCall& inbound) { inbound.reply(reply(text(inbound.request()))); });
  });
  return table;
}

Message with_id(Message message, uint64_t call_id) {
  message.call_id = call_id;
  return message;
}
Message cancel(uint64_t call_id) {
  Message message;
  message.kind = MessageKind::cancel;
  return with_id(std::move(message), call_id);
}

BOOST_AUTO_TEST_CASE(cancelled_request_is_not_served) {
  Agent agent({.name = std::string("server"), .rank = 0, .world_size = 2}, functions());
  RawClient client(agent.listen(), raw_hello("client", 1, 2));
  client.say(cancel(2));
  for (uint64_t id = 1; id <= 3; ++id) client.say(with_id(request(1, std::to_string(id)), id));
  std::string answers;
  for (int i = 0; i < 2; ++i) answers += text(client.receive(MessageKind::reply).value());
  std::sort(answers.begin(), answers.end());
  BOOST_TEST(answers == "13");
  check_at_rest(agent);
  client.say(cancel(1));  // too late: it has been answered
  client.say(with_id(request(1, "4"), 4));
  BOOST_TEST(text(client.receive(MessageKind::reply).value()) == "4");
  BOOST_TEST(agent.metrics().calls_dropped == 1u);
  BOOST_TEST(agent.traffic().requests_received == 4u);  // shutdown does not wait for it
}

BOOST_AUTO_TEST_CASE(remembered_cancels_are_bounded) {
  Agent agent({.name = std::string("server"), .rank = 0, .world_size = 2}, functions());
  RawClient client(agent.listen(), raw_hello("client", 1, 2));
  constexpr uint64_t kMany = 5000;
  for (uint64_t id = 1; id <= kMany; ++id) client.say(cancel(id));
  client.say(with_id(request(1, "old"), 1));  // forgotten
  BOOST_TEST(text(client.receive(MessageKind::reply).value()) == "old");
  client.say(with_id(request(1, "new"), kMany));  // not yet
  client.say(with_id(request(1, "end"), kMany + 1));
  BOOST_TEST(text(client.receive(MessageKind::reply).value()) == "end");
}

BOOST_AUTO_TEST_CASE(cancel_of_a_large_request_is_remembered) {
  Agent agent({.name = std::string("server"), .rank = 0, .world_size = 2}, functions());
  RawClient client(agent.listen(), raw_hello("client", 1, 2));
  client.say(cancel(1));
  client.say(with_id(request(1, "new"), 5000));
  BOOST_TEST(text(client.receive(MessageKind::reply).value()) == "new");
  client.say(with_id(request(1, "old"), 1));
  for (const uint64_t id : {5001, 5002}) {  // no handler has run for the old one
    client.say(with_id(request(1, "end"), id));
    BOOST_TEST(text(client.receive(MessageKind::reply).value()) == "end");
  }
}

BOOST_AUTO_TEST_CASE(cancelled_call_does_not_wait_for_room) {
  AgentOptions options{.name = std::string("caller"), .rank = 0, .world_size = 2};
  options.send_limit = 1 << 20;
  options.ping_interval = options.liveness_timeout = 0ms;
  Agent agent(options, functions());
  RawClient stopped(agent.listen(), raw_hello("stopped", 1, 2));
  BOOST_REQUIRE(agent.wait_connected(1, Clock::now() + 30s));
  for (int i = 0; i < 8; ++i)  // until nothing more can be sent
    BOOST_CHECK_THROW(call(agent, 1, request(1, std::string(1 << 20, 'x')), {.timeout = 50ms}).wait(), TimeoutError);
  std::mutex mutex;
  std::optional<std::stop_source> next;
  std::atomic<bool> over{false};
  std::jthread canceller([&] {
    for (unsigned round = 0; !over; ++round) {
      std::unique_lock lock(mutex);
      std::optional<std::stop_source> stop = std::exchange(next, std::nullopt);
      lock.unlock();
      if (!stop) {
        std::this_thread::yield();
        continue;
      }
      for (const auto at = Clock::now() + std::chrono::nanoseconds(round * 37 % 60000); Clock::now() < at;) {
      }
      stop->request_stop();
    }
  });
  std::atomic<int> rounds{0};
  constexpr int kRounds = 5000;
  std::promise<void> done;
  std::jthread caller([&] {
    for (; rounds < kRounds && !over; ++rounds) {
      const std::stop_source stop;
      {
        const std::lock_guard lock(mutex);
        next = stop;
      }
      const Future<Message> cancelled = call(agent, 1, request(1, "x"), {.timeout = 0us, .stop = stop.get_token()});
      try {
        cancelled.wait();
      } catch (const RpcError&) {
      }
    }
    done.set_value();
  });
  BOOST_TEST((done.get_future().wait_for(60s) == std::future_status::ready));
  BOOST_TEST(rounds == kRounds);
  over = true;
  ::shutdown(stopped.socket(), SHUT_RDWR);  // ends a call that would wait for ever
}

BOOST_AUTO_TEST_SUITE_END()
