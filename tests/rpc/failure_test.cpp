// Deadlines, cancellation, lost peers, back-pressure and shutdown.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <future>
#include <latch>

#include "tendril/rpc/call/call_filter.h"
#include "tendril/rpc/session/agent_listener.h"
#include "tendril/tensor/raw.h"
#include "tests/rpc/agent_pair.h"
#include "tests/wait_until.h"

BOOST_AUTO_TEST_SUITE(failure)

using namespace rpc_test;

namespace {

enum Function : uint64_t { kEcho = 1, kUntilStopped, kRan, kKeep, kShutDown, kSlow, kBig };

std::unique_ptr<Promise<>> gate;
std::unique_ptr<Promise<>> stopped;  // completed by a handler whose stop token was triggered
std::atomic<int> ran{0};
std::vector<std::shared_ptr<InboundCall>> kept;

const Functions& functions() {
  static const Functions table([](Functions& f) {
    f.add(kEcho, "echo", [](InboundCall& inbound) {
      Message answer;
      answer.payload = std::move(inbound.request().payload);
      answer.tensors = std::move(inbound.request().tensors);
      inbound.reply(std::move(answer));
    });
    f.add(kUntilStopped, "until_stopped", [](InboundCall& inbound) {
      const std::stop_token stop = inbound.context().stop;
      Promise<> told;
      const std::stop_callback callback(stop, [&] { told.set_value(); });
      told.future().wait();
      stopped->set_value();
      inbound.reply(reply("stopped"));
    });
    f.add(kRan, "ran", [](InboundCall& inbound) {
      ++ran;
      inbound.reply(reply(""));
    });
    f.add(kKeep, "keep",
          [](InboundCall& inbound) { kept.push_back(std::make_shared<InboundCall>(std::move(inbound))); });
    f.add(kShutDown, "shut_down", [](InboundCall& inbound) {
      inbound.agent().shutdown();
      inbound.reply(reply(""));
    });
    f.add(kSlow, "slow", [](InboundCall& inbound) {
      ++ran;
      gate->future().wait();
      inbound.reply(reply("slow"));
    });
    f.add(kBig, "big", [](InboundCall& inbound) {
      Message answer;
      answer.payload.resize(1 << 20);
      inbound.reply(std::move(answer));
    });
  });
  return table;
}

void reset() {
  gate = std::make_unique<Promise<>>(nullptr);
  stopped = std::make_unique<Promise<>>(nullptr);
  ran = 0;
  kept.clear();
}

}  // namespace

BOOST_AUTO_TEST_CASE(late_reply_after_timeout_is_counted) {
  reset();
  AgentPair pair(functions(), one_thread());
  for (const auto timeout : {std::chrono::microseconds(200), std::chrono::microseconds(20'000)}) {
    BOOST_CHECK_THROW(call(*pair.a, 1, request(kKeep), {.timeout = timeout}).wait(), TimeoutError);
  }
  BOOST_TEST(pair.a->metrics().calls_timed_out == 2u);
  BOOST_TEST(call(*pair.a, 1, request(kEcho)).wait_for(30s));  // the earlier calls have been handled
  const auto late = kept.size();
  for (const auto& inbound : kept) inbound->reply(reply("late"));
  kept.clear();
  call(*pair.a, 1, request(kEcho)).wait();
  BOOST_TEST(pair.a->metrics().late_replies == late);
  check_at_rest(*pair.a);
  check_at_rest(*pair.b);
}

BOOST_AUTO_TEST_CASE(expired_deadline_sends_nothing) {
  reset();
  AgentPair pair(functions(), one_thread());
  CallContext context;
  context.deadline = Clock::now() - 1s;
  const CallContextScope scope(context);
  BOOST_CHECK_THROW(call(*pair.a, 1, request(kRan)).wait(), TimeoutError);
  call(*pair.a, 1, request(kEcho), {.timeout = 30s}).wait();
  BOOST_TEST(ran == 0);
}

BOOST_AUTO_TEST_CASE(self_calls_time_out_too) {
  reset();
  Agent agent({.name = std::string("solo"), .num_worker_threads = 1}, functions());
  BOOST_CHECK_THROW(call(agent, 0, request(kUntilStopped), {.timeout = 1ms}).wait(), TimeoutError);
  agent.shutdown();
}

BOOST_AUTO_TEST_CASE(cancellation_reaches_the_callees_stop_token) {
  reset();
  AgentPair pair(functions(), one_thread());
  std::stop_source source;
  const Future<Message> future = call(*pair.a, 1, request(kUntilStopped), {.stop = source.get_token()});
  BOOST_TEST(!future.done());
  source.request_stop();
  BOOST_CHECK_THROW(future.wait(), CancelledError);
  // The handler saw it or never started.
  call(*pair.a, 1, request(kEcho)).wait();
  if (pair.b->metrics().calls_dropped == 0) BOOST_TEST(stopped->future().wait_for(30s));
  BOOST_CHECK_THROW(call(*pair.a, 1, request(kRan), {.stop = source.get_token()}).wait(), CancelledError);
  BOOST_TEST(ran == 0);
  BOOST_TEST(pair.a->metrics().calls_cancelled == 1u);
  check_at_rest(*pair.a);
  check_at_rest(*pair.b);
}

BOOST_AUTO_TEST_CASE(timeout_cancels_at_the_callee) {
  reset();
  AgentPair pair(functions(), one_thread());
  BOOST_CHECK_THROW(call(*pair.a, 1, request(kUntilStopped), {.timeout = 50ms}).wait(), TimeoutError);
  call(*pair.a, 1, request(kEcho)).wait();
  if (pair.b->metrics().calls_dropped == 0) BOOST_TEST(stopped->future().wait_for(30s));
  check_at_rest(*pair.b);
}

BOOST_AUTO_TEST_CASE(cancelled_request_is_not_started) {
  reset();
  AgentPair pair(functions(), one_thread());
  std::latch entered(1), leave(1);
  // A wait that the pool does not know about occupies its only slot.
  static std::latch* latches[2];
  latches[0] = &entered;
  latches[1] = &leave;
  post(pair.b->executor(), [] {
    latches[0]->count_down();
    latches[1]->wait();
  });
  entered.wait();
  std::stop_source source;
  const Future<Message> future = call(*pair.a, 1, request(kRan), {.stop = source.get_token()});
  source.request_stop();
  BOOST_CHECK_THROW(future.wait(), CancelledError);
  // The cancel message is read even while the slot is occupied.
  tendril::test::wait_until("all bytes have arrived",
                            [&] { return pair.b->metrics().bytes_received >= pair.a->metrics().bytes_sent; });
  leave.count_down();
  call(*pair.a, 1, request(kEcho)).wait();
  BOOST_TEST(ran == 0);
  BOOST_TEST(pair.b->metrics().calls_dropped == 1u);
}

BOOST_AUTO_TEST_CASE(lost_peer_fails_pending_calls) {
  reset();
  AgentPair pair(functions(), one_thread());
  const Future<Message> pending = call(*pair.a, 1, request(kKeep), {.timeout = 0us});
  call(*pair.a, 1, request(kEcho)).wait();
  const Future<Message> backwards = call(*pair.b, 0, request(kKeep), {.timeout = 0us});
  call(*pair.b, 0, request(kEcho)).wait();
  pair.b->shutdown();
  BOOST_CHECK_EXCEPTION(pending.wait(), PeerLostError, [](const PeerLostError& e) {
    return e.may_have_run() && std::string(e.what()).find("'b' (rank 1): it has left the group") != std::string::npos;
  });
  BOOST_CHECK_THROW(backwards.wait(), CancelledError);
  BOOST_CHECK_EXCEPTION(call(*pair.a, 1, request(kEcho)).wait(), PeerLostError,
                        [](const PeerLostError& e) { return !e.may_have_run(); });
  BOOST_TEST(!pair.a->is_connected(1));
  for (const auto& inbound : kept) {
    if (inbound->from().id == 0) BOOST_TEST(inbound->context().stop.stop_requested());
  }
  kept.clear();
  check_at_rest(*pair.a);
}

BOOST_AUTO_TEST_CASE(shutdown_cancels_calls_in_flight) {
  reset();
  AgentPair pair(functions(), one_thread());
  std::vector<Future<Message>> futures;
  for (int i = 0; i < 50; ++i) futures.push_back(call(*pair.a, 1, request(kUntilStopped)));
  auto waiter = std::async(std::launch::async, [&] { futures[7].wait(); });
  pair.a->shutdown();
  BOOST_CHECK_THROW(waiter.get(), CancelledError);
  for (const Future<Message>& future : futures) BOOST_CHECK_THROW(future.wait(), CancelledError);
  pair.a->shutdown();
  BOOST_CHECK_THROW(call(*pair.a, 1, request(kEcho)), UsageError);
  // Destructors may send control messages slightly late, so the lack of a receiver is not an error.
  BOOST_TEST(!pair.a->send_control(1, {}));
  BOOST_TEST((pair.a->withdraw_request(1, 1) == RequestStatus::answered));
  check_at_rest(*pair.b);  // the stop tokens of its handlers were triggered
}

BOOST_AUTO_TEST_CASE(handler_may_not_shut_down_its_agent) {
  AgentPair pair(functions(), one_thread());
  BOOST_CHECK_THROW(call(*pair.a, 1, request(kShutDown)).wait(), RemoteError);
}

BOOST_AUTO_TEST_CASE(oversized_message_fails_only_its_call) {
  reset();
  AgentOptions options = one_thread();
  options.limits.max_payload_bytes = 5000;
  AgentPair pair(functions(), options);
  BOOST_CHECK_THROW(call(*pair.a, 1, request(kEcho, std::string(5001, 'x'))).wait(), MessageError);
  BOOST_CHECK_THROW(call(*pair.a, 1, request(kBig)).wait(), MessageError);
  BOOST_TEST(text(call(*pair.a, 1, request(kEcho, "still here")).wait()) == "still here");
  check_at_rest(*pair.a);
  check_at_rest(*pair.b);
}

BOOST_AUTO_TEST_CASE(full_queues_block_senders_and_readers) {
  reset();
  AgentOptions options = one_thread();
  options.send_limit = 1 << 20;
  options.receive_limit = 1 << 20;
  AgentPair pair(functions(), options);
  const Future<Message> slow = call(*pair.a, 1, request(kSlow));
  // 64 MiB through queues of 1 MiB and the socket's buffers.
  std::atomic<uint64_t> most{0};
  std::vector<Future<Message>> futures;
  for (int i = 0; i < 64; ++i) {
    Message message = request(kEcho);
    message.tensors.push_back(tendril::raw::full({1 << 18}, static_cast<double>(i)));
    futures.push_back(call(*pair.a, 1, std::move(message)));
    most = std::max<uint64_t>(most, pair.a->metrics().queued_bytes);
  }
  BOOST_TEST(most <= uint64_t{3} << 20);
  for (int i = 0; i < 64; ++i) {
    const std::vector<float> got = futures[static_cast<std::size_t>(i)].wait().tensors.at(0).to_vector<float>();
    BOOST_TEST(got.size() == std::size_t{1} << 18);
    BOOST_TEST(got.back() == static_cast<float>(i));
  }
  gate->set_value();
  BOOST_TEST(text(slow.wait()) == "slow");
  check_at_rest(*pair.a);
  check_at_rest(*pair.b);
}

BOOST_AUTO_TEST_CASE(control_messages_and_loss_are_reported) {
  struct Listener final : AgentListener {
    void peer_joined(const WorkerInfo& peer, uint64_t incarnation) override {
      joined = peer.name + (incarnation ? "!" : "");
    }
    void peer_lost(const WorkerInfo& peer, const std::exception_ptr&) override { lost.set_value(peer.name); }
    void control_received(const WorkerInfo&, Bytes payload) override {
      order.push_back(static_cast<int>(payload.at(0)));
      if (order.size() == 100) all.set_value();
    }
    void on_send(const WorkerInfo&, Message&) override {}
    void message_not_sent(const WorkerInfo&, MessageKind, uint64_t) noexcept override {}
    void message_arrived(const WorkerInfo&, std::unique_ptr<ParkedMessage>) noexcept override {}
    void call_cancelled(const WorkerInfo&, uint64_t) noexcept override {}
    void agent_closing() noexcept override { closing = true; }
    Clock::time_point on_timer(Clock::time_point) noexcept override {
      ++ticks;
      return Clock::time_point::max();
    }
    std::string joined;
    Promise<std::string> lost{nullptr};
    Promise<> all{nullptr};
    std::vector<int> order;
    std::atomic<int> ticks{0};
    std::atomic<bool> closing{false};
  };
  const auto listener = std::make_shared<Listener>();
  Agent b({.name = std::string("b"), .rank = 1, .world_size = 2}, functions());
  b.set_listener(listener);
  Agent a({.name = std::string("a"), .rank = 0, .world_size = 2}, functions());
  a.connect(b.self(), b.listen(), Clock::now() + 30s);
  for (int i = 0; i < 100; ++i) BOOST_TEST(a.send_control(1, Bytes{static_cast<std::byte>(i)}));
  BOOST_TEST(listener->all.future().wait_for(30s));
  for (int i = 0; i < 100; ++i) BOOST_TEST(listener->order[static_cast<std::size_t>(i)] == i);
  BOOST_TEST(listener->joined == "a!");
  a.shutdown();
  BOOST_TEST(listener->lost.future().wait_for(30s));
  tendril::test::wait_until("the timer ticks", [&] { return listener->ticks != 0; });
  b.shutdown();
  BOOST_TEST(listener->closing);
}

BOOST_AUTO_TEST_SUITE_END()
