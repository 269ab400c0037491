#include <atomic>
#include <boost/test/unit_test.hpp>
#include <latch>
#include <mutex>
#include <thread>

#include "tendril/tensor/raw.h"
#include "tests/rpc/agent_pair.h"

BOOST_AUTO_TEST_SUITE(agent)

using namespace rpc_test;

namespace {

enum Function : uint64_t { kEcho = 1, kThrow, kChain, kForget, kDeadline, kContext, kDeferred };

/// Calls the caller back, `depth` levels deep, each call from inside the handler of the previous one.
void chain(InboundCall& inbound) {
  const int depth = std::stoi(text(inbound.request()));
  if (depth == 0) return inbound.reply(reply("0"));
  const Message inner = call(inbound.agent(), inbound.from().id, request(kChain, std::to_string(depth - 1))).wait();
  inbound.reply(reply(std::to_string(1 + std::stoi(text(inner)))));
}

const Functions& functions() {
  static const Functions table([](Functions& f) {
    f.add(kEcho, "echo", [](InboundCall& inbound) {
      Message answer;
      answer.payload = std::move(inbound.request().payload);
      answer.tensors = std::move(inbound.request().tensors);
      inbound.reply(std::move(answer));
    });
    f.add(kThrow, "throw", [](InboundCall&) { throw std::out_of_range("no such thing"); });
    f.add(kChain, "chain", chain);
    f.add(kForget, "forget", [](InboundCall&) {});
    f.add(kDeadline, "deadline", [](InboundCall& inbound) {
      const auto left = CallContext::current().deadline - Clock::now();
      inbound.reply(reply(CallContext::current().deadline == Clock::time_point::max() ? "none"
                          : left < 10min                                              ? "short"
                                                                                      : "long"));
    });
    f.add(kContext, "context", [](InboundCall& inbound) {
      const CallContext& context = CallContext::current();
      std::string seen = std::to_string(context.trace_id) + " " + std::to_string(context.autograd_context);
      if (context.extension) seen += " " + std::to_string(context.extension->size());
      if (text(inbound.request()) == "again") {
        seen += "," + text(call(inbound.agent(), inbound.from().id, request(kContext)).wait());
      }
      inbound.reply(reply(seen));
    });
    f.add(kDeferred, "deferred", [](InboundCall& inbound) {
      std::thread([later = std::make_shared<InboundCall>(std::move(inbound))] {
        later->reply(reply("later"));
      }).detach();
    });
  });
  return table;
}

}  // namespace

BOOST_AUTO_TEST_CASE(calls_work_both_ways_over_all_sockets) {
  for (const bool tcp : {false, true}) {
    AgentPair pair(functions(), one_thread(), tcp);
    BOOST_TEST(text(call(*pair.a, 1, request(kEcho, "hello")).wait()) == "hello");
    BOOST_TEST(text(call(*pair.b, 0, request(kEcho, "you too")).wait()) == "you too");
    BOOST_TEST(text(call(*pair.a, 1, request(kDeferred)).wait()) == "later");
    check_at_rest(*pair.a);
    check_at_rest(*pair.b);
    BOOST_TEST(pair.a->metrics().bytes_sent > 100u);
    BOOST_TEST(pair.b->metrics().bytes_received > 100u);
    BOOST_TEST(pair.a->metrics().latency.total() == 2u);
  }
}

BOOST_AUTO_TEST_CASE(self_call_copies_tensors_without_a_socket) {
  Agent agent({.name = std::string("solo"), .num_worker_threads = 1}, functions());
  Message message = request(kEcho, "me");
  const tendril::Tensor ones = tendril::raw::full({2, 3}, 1.0);
  message.tensors.push_back(ones);
  const Message echoed = call(agent, 0, std::move(message)).wait();
  BOOST_TEST(text(echoed) == "me");
  BOOST_TEST(echoed.tensors.at(0).to_vector<float>() == ones.to_vector<float>());
  BOOST_TEST(echoed.tensors.at(0).storage().get() != ones.storage().get());
  BOOST_CHECK_THROW(call(agent, 0, request(kThrow)).wait(), RemoteError);
  check_at_rest(agent);
}

BOOST_AUTO_TEST_CASE(errors_arrive_with_worker_type_and_text) {
  AgentPair pair(functions(), one_thread());
  BOOST_CHECK_EXCEPTION(call(*pair.a, 1, request(kThrow)).wait(), RemoteError, [](const RemoteError& e) {
    return e.worker() == "b" && e.type() == "std::out_of_range" && e.message() == "no such thing";
  });
  BOOST_CHECK_EXCEPTION(call(*pair.a, 1, request(77)).wait(), UnknownFunctionError,
                        [](const auto& e) { return std::string(e.what()).find("worker 'b'") != std::string::npos; });
  BOOST_CHECK_EXCEPTION(call(*pair.a, 1, request(kForget)).wait(), RemoteError,
                        [](const RemoteError& e) { return e.message().find("without replying") != std::string::npos; });
  BOOST_CHECK_THROW(call(*pair.a, 2, request(kEcho)), UsageError);
  BOOST_CHECK_THROW(call(*pair.a, -1, request(kEcho)), UsageError);
  check_at_rest(*pair.a);
  check_at_rest(*pair.b);
}

BOOST_AUTO_TEST_CASE(handlers_nest_20_deep_with_one_thread) {
  AgentPair pair(functions(), one_thread());
  BOOST_TEST(text(call(*pair.a, 1, request(kChain, "20")).wait()) == "20");
  check_at_rest(*pair.a);
  check_at_rest(*pair.b);
}

BOOST_AUTO_TEST_CASE(handler_may_call_its_own_worker) {
  Agent agent({.name = std::string("solo"), .num_worker_threads = 1}, functions());
  BOOST_TEST(text(call(agent, 0, request(kChain, "10")).wait()) == "10");
  check_at_rest(agent);
}

BOOST_AUTO_TEST_CASE(concurrent_calls_get_their_own_answers) {
  AgentPair pair(functions(), one_thread());
  for (int round = 0; round < 20; ++round) {
    std::vector<Future<Message>> futures;
    for (int i = 0; i < 100; ++i) futures.push_back(call(*pair.a, 1, request(kEcho, std::to_string(i))));
    const std::vector<Message> answers = wait_all(std::move(futures));
    for (int i = 0; i < 100; ++i) BOOST_TEST(text(answers[static_cast<std::size_t>(i)]) == std::to_string(i));
  }
  check_at_rest(*pair.a);
  check_at_rest(*pair.b);
}

BOOST_AUTO_TEST_CASE(many_threads_call_in_both_directions) {
  AgentPair pair(functions(), {.num_worker_threads = 2});
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      Agent& from = t % 2 == 0 ? *pair.a : *pair.b;
      for (int i = 0; i < 100; ++i) {
        const std::string content = std::to_string(1000 * t + i);
        right += text(call(from, t % 2 == 0 ? 1 : 0, request(kEcho, content)).wait()) == content;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  BOOST_TEST(right == 800);
  check_at_rest(*pair.a);
  check_at_rest(*pair.b);
}

BOOST_AUTO_TEST_CASE(nested_calls_inherit_the_deadline) {
  AgentPair pair(functions(), one_thread());
  const auto seen = [&](const CallOptions& options) {
    return text(call(*pair.a, 1, request(kDeadline), options).wait());
  };
  BOOST_TEST(seen({}) == "short");  // the default of one minute
  BOOST_TEST(seen({.timeout = 0us}) == "none");
  BOOST_TEST(seen({.timeout = 1h}) == "long");
  CallContext context;
  context.deadline = Clock::now() + 1h;
  const CallContextScope scope(context);
  BOOST_TEST(seen({}) == "long");
  BOOST_TEST(seen({.timeout = 60s}) == "short");
  BOOST_TEST(seen({.timeout = 0us}) == "none");
}

BOOST_AUTO_TEST_CASE(context_travels_with_nested_calls) {
  AgentPair pair(functions(), one_thread());
  CallContext context;
  context.trace_id = 11;
  context.autograd_context = 12;
  context.extension = std::make_shared<const Bytes>(3);
  const CallContextScope scope(context);
  BOOST_TEST(text(call(*pair.a, 1, request(kContext, "again")).wait()) == "11 12 3,11 12 3");
}

namespace {

struct CountingHook final : MessageHook {
  void before_send(const WorkerInfo&, Message& request) override {
    request.autograd_message = 40;
    note("before_send");
  }
  void after_receive(const WorkerInfo&, Message& request) override { note("after_receive", request.autograd_message); }
  void before_reply(const WorkerInfo&, Message& reply) override {
    reply.autograd_message = 41;
    note("before_reply");
  }
  void after_reply(const WorkerInfo&, Message& reply) override {
    note("after_reply", reply.autograd_message);
    if (refuse_replies) throw std::runtime_error("rejected by the hook");
  }
  void note(const std::string& what, uint64_t message = 0) {
    const std::lock_guard lock(mutex);
    order += what + (message == 0 ? " " : ":" + std::to_string(message) + " ");
  }
  std::mutex mutex;
  std::string order;
  bool refuse_replies = false;
};

}  // namespace

BOOST_AUTO_TEST_CASE(hooks_see_each_message_and_may_refuse) {
  const auto hook = std::make_shared<CountingHook>();
  AgentPair pair(functions(), one_thread());
  pair.a->add_hook(hook);
  pair.b->add_hook(hook);
  call(*pair.a, 1, request(kEcho)).wait();
  BOOST_TEST(hook->order == "before_send after_receive:40 before_reply after_reply:41 ");
  hook->order.clear();
  call(*pair.a, 0, request(kEcho)).wait();  // self-calls too
  BOOST_TEST(hook->order == "before_send after_receive:40 before_reply after_reply:41 ");
  hook->refuse_replies = true;
  BOOST_CHECK_THROW(call(*pair.a, 1, request(kEcho)).wait(), std::runtime_error);
  check_at_rest(*pair.a);
}

BOOST_AUTO_TEST_CASE(out_of_range_options_are_rejected) {
  const auto make = [](AgentOptions options) { Agent agent(std::move(options), functions()); };
  BOOST_CHECK_THROW(make({.name = std::string()}), UsageError);
  BOOST_CHECK_THROW(make({.name = std::string("a b")}), UsageError);
  BOOST_CHECK_THROW(make({.name = std::string(128, 'a')}), UsageError);
  BOOST_CHECK_THROW(make({.name = std::string("a"), .rank = 1}), UsageError);
  BOOST_CHECK_THROW(make({.name = std::string("a"), .rank = -1}), UsageError);
  BOOST_CHECK_THROW(make({.name = std::string("a"), .world_size = 0}), UsageError);
  BOOST_CHECK_THROW(make({.name = std::string("a"), .num_worker_threads = 0}), UsageError);
  BOOST_CHECK_THROW(make({.name = std::string("a"), .num_worker_threads = 16, .max_threads = 16}), UsageError);
  BOOST_CHECK_THROW(make({.name = std::string("a"), .rpc_timeout = -1s}), UsageError);
}

BOOST_AUTO_TEST_CASE(latency_quantiles_are_accurate_to_20_percent) {
  LatencyHistogram histogram;
  for (int us = 1; us <= 1000; ++us) {
    ++histogram.counts[static_cast<std::size_t>(LatencyHistogram::bucket_of(std::chrono::microseconds(us)))];
  }
  BOOST_TEST(histogram.total() == 1000u);
  BOOST_TEST(static_cast<double>(histogram.quantile(0.5).count()) == 500e3, boost::test_tools::tolerance(0.2));
  BOOST_TEST(static_cast<double>(histogram.quantile(0.99).count()) == 990e3, boost::test_tools::tolerance(0.2));
  BOOST_TEST(LatencyHistogram().quantile(0.5).count() == 0);
}

BOOST_AUTO_TEST_SUITE_END()
