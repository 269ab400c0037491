// Tests with more waiting handlers than a worker may have threads.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <thread>

#include "tendril/rpc/call.h"
#include "tendril/tensor/raw.h"
#include "tests/rpc/agent_pair.h"
#include "tests/rpc/cluster.h"
#include "tests/rpc/waits_for_room.h"

BOOST_AUTO_TEST_SUITE(thread_cap)

using namespace rpc_test;

enum Function : uint64_t { kEcho = 1, kNest, kHop, kChain };

std::unique_ptr<Promise<>> gate;
std::atomic<int> parked{0};

const Functions& functions() {
  static const Functions table([](Functions& f) {
    f.add(kEcho, "echo", [](InboundCall& inbound) { inbound.reply(reply("echo")); });
    // b waits for a, which waits for b.
    f.add(kNest, "nest", [](InboundCall& inbound) {
      ++parked;
      inbound.reply(call(inbound.agent(), inbound.from().id, request(kHop)).wait());
    });
    f.add(kHop, "hop", [](InboundCall& inbound) {
      gate->future().wait();
      inbound.reply(call(inbound.agent(), inbound.from().id, request(kEcho)).wait());
    });
    f.add(kChain, "chain", [](InboundCall& inbound) {
      const int left = std::stoi(text(inbound.request()));
      if (left == 0) return inbound.reply(reply("end"));
      inbound.reply(
          call(inbound.agent(), inbound.agent().self().id, request(kChain, std::to_string(left - 1)), {.timeout = 1s})
              .wait());
    });
  });
  return table;
}

Agent& agent_of(int rank) { return Cluster::agent(rank); }

/// A part of a network, as in examples/resnet50_pipeline.
struct Shard {
  explicit Shard(int) {}
  Tensor forward(const RRef<Tensor>& x) { return raw::binary(Binary::add, x.to_here(), 1); }
};

BOOST_AUTO_TEST_CASE(nested_waits_succeed_with_a_full_window) {
  gate = std::make_unique<Promise<>>(nullptr);
  parked = 0;
  AgentPair pair(functions(), {.num_worker_threads = 2, .max_threads = 16, .receive_limit = 64 << 10});
  std::vector<Future<Message>> futures;
  std::thread caller([&] {  // waits for room after some of the calls
    for (int i = 0; i < 300; ++i) futures.push_back(call(*pair.a, 1, request(kNest), {.timeout = 20s}));
  });
  // Waits until no more handlers start and the requests that wait for threads fill the window.
  BOOST_TEST(Cluster::eventually(
      [&] { return parked >= 13 && pair.b->metrics().queued_jobs >= 16 && waits_for_room(*pair.a, 1); }, 60s));
  gate->set_value();
  caller.join();
  for (Future<Message>& answer : futures) BOOST_TEST(text(answer.wait()) == "echo");
  check_at_rest(*pair.a);
  check_at_rest(*pair.b);
}

BOOST_AUTO_TEST_CASE(deadlocked_calls_time_out_with_a_reason) {
  Agent agent({.name = std::string("solo"), .num_worker_threads = 1, .max_threads = 4}, functions());
  BOOST_TEST(text(call(agent, 0, request(kChain, "2")).wait()) == "end");
  BOOST_CHECK_EXCEPTION(call(agent, 0, request(kChain, "9")).wait(), RpcError, [](const RpcError& e) {
    return contains(e.what(), "timed out") && contains(e.what(), "max_threads") && contains(e.what(), "coroutine");
  });
  BOOST_TEST(text(call(agent, 0, request(kChain, "2")).wait()) == "end");
  check_at_rest(agent);
}

BOOST_AUTO_TEST_CASE(many_micro_batches_pass_two_shards) {
  Cluster cluster(3);
  const CallOptions patient{.timeout = 5min};
  {
    const auto first = remote<Shard>(cluster[0], 1, 0), second = remote<Shard>(cluster[0], 2, 0);
    std::vector<Future<Tensor>> outputs;
    for (int i = 0; i < 1000; ++i) {
      const RRef<Tensor> x(cluster[0], raw::full({2}, i));
      const auto y = first.remote<&Shard::forward>(patient, x);
      outputs.push_back(second.rpc_async<&Shard::forward>(patient, y));
    }
    int right = 0;
    for (int i = 0; i < 1000; ++i) {
      right += outputs[static_cast<std::size_t>(i)].wait().to_vector<float>() ==
               std::vector<float>(2, static_cast<float>(i + 2));
    }
    BOOST_TEST(right == 1000);
  }
}

BOOST_AUTO_TEST_SUITE_END()
