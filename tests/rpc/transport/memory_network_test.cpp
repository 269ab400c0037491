#include "tendril/rpc/transport/memory_network.h"

#include <atomic>
#include <boost/test/unit_test.hpp>

#include "tests/rpc/raw_call.h"

BOOST_AUTO_TEST_SUITE(memory_network)

using namespace rpc_test;

namespace {

enum Function : uint64_t { kEcho = 1, kCount };

std::atomic<int> counted{0};

const Functions& functions() {
  static const Functions table([](Functions& f) {
    f.add(kEcho, "echo", [](InboundCall& inbound) { inbound.reply(reply(text(inbound.request()))); });
    f.add(kCount, "count", [](InboundCall& inbound) {
      ++counted;
      inbound.reply(reply("counted"));
    });
  });
  return table;
}

struct Pair {
  Pair() { network->connect(a, b); }
  static AgentOptions options(const char* name, WorkerId rank) {
    AgentOptions options;
    options.name = name;
    options.rank = rank;
    options.world_size = 2;
    options.num_worker_threads = 1;
    return options;
  }
  std::shared_ptr<MemoryNetwork> network = MemoryNetwork::make();
  Agent a{options("a", 0), functions()}, b{options("b", 1), functions()};
};

}  // namespace

BOOST_AUTO_TEST_CASE(calls_go_both_ways) {
  Pair pair;
  BOOST_TEST(text(call(pair.a, 1, request(kEcho, "hello")).wait()) == "hello");
  BOOST_TEST(text(call(pair.b, 0, request(kEcho, std::string(1 << 20, 'x'))).wait()) == std::string(1 << 20, 'x'));
  BOOST_TEST(pair.network->messages() == 4u);
}

BOOST_AUTO_TEST_CASE(a_lost_request_and_a_lost_reply_time_out) {
  Pair pair;
  for (const MessageKind kind : {MessageKind::request, MessageKind::reply}) {
    pair.network->set_rule(nth_message(1, {.copies = 0}, kind));
    BOOST_CHECK_THROW(call(pair.a, 1, request(kEcho), {.timeout = 30ms}).wait(), TimeoutError);
    BOOST_TEST(text(call(pair.a, 1, request(kEcho, "again")).wait()) == "again");
  }
}

BOOST_AUTO_TEST_CASE(a_repeated_request_is_served_once) {
  Pair pair;
  counted = 0;
  pair.network->set_rule([](const PassingMessage&) { return MessageFate{.copies = 3}; });
  for (int i = 1; i <= 20; ++i) {
    call(pair.a, 1, request(kCount)).wait();
    BOOST_TEST(counted.load() == i);
  }
}

BOOST_AUTO_TEST_CASE(a_delayed_message_is_overtaken) {
  Pair pair;
  pair.network->set_rule(nth_message(1, {.delay = 20ms}));
  const Future<Message> slow = call(pair.a, 1, request(kEcho, "slow"));
  BOOST_TEST(text(call(pair.a, 1, request(kEcho, "fast")).wait()) == "fast");
  BOOST_TEST(text(slow.wait()) == "slow");
}

BOOST_AUTO_TEST_CASE(a_cut_fails_the_pending_calls_of_both_sides) {
  Pair pair;
  pair.network->set_rule([](const PassingMessage&) { return MessageFate{.copies = 0}; });
  const Future<Message> from_a = call(pair.a, 1, request(kEcho)), from_b = call(pair.b, 0, request(kEcho));
  pair.network->cut(1, 0);
  BOOST_CHECK_THROW(from_a.wait(), PeerLostError);
  BOOST_CHECK_THROW(from_b.wait(), PeerLostError);
}

BOOST_AUTO_TEST_CASE(every_call_ends_whichever_message_is_hit) {
  const MessageFate fates[] = {{.copies = 0}, {.copies = 2}, {.delay = 2ms}, {.cut = true}};
  for (const MessageFate& fate : fates) {
    for (uint64_t n = 1;; ++n) {
      Pair pair;
      pair.network->set_rule(nth_message(n, fate));
      std::vector<Future<Message>> calls;
      int failed = 0;
      for (int i = 0; i < 3; ++i) {
        Agent& from = i % 2 == 0 ? pair.a : pair.b;
        try {
          call(from, i % 2 == 0 ? 1 : 0, request(kEcho, "x"), {.timeout = 500ms}).wait();
        } catch (const RpcError&) {
          ++failed;
        }
      }
      const bool reached = pair.network->messages() >= n;
      BOOST_TEST(failed <= (fate.cut ? 3 : fate.copies == 0 ? 1 : 0));
      if (!reached) break;
      BOOST_REQUIRE(n < 50u);
    }
  }
}

BOOST_AUTO_TEST_CASE(random_faults_depend_on_the_seed_the_link_and_the_number_alone) {
  const RandomFaults faults{.lose = 0.3, .repeat = 0.3, .delay = 0.3};
  const NetworkRule one = random_faults(7, faults), same = random_faults(7, faults), other = random_faults(8, faults);
  const Message message;
  int lost = 0, repeated = 0, delayed = 0, different = 0;
  for (uint64_t n = 1; n <= 1000; ++n) {
    const MessageFate a = one({0, 1, message, n, n}), b = same({0, 1, message, 2 * n, n});
    BOOST_TEST(a.copies == b.copies);
    BOOST_TEST((a.delay == b.delay));
    lost += a.copies == 0;
    repeated += a.copies == 2;
    delayed += a.delay.count() > 0;
    different += a.copies != other({0, 1, message, n, n}).copies;
  }
  BOOST_TEST(lost > 100);
  BOOST_TEST(repeated > 100);
  BOOST_TEST(delayed > 200);
  BOOST_TEST(different > 100);
}

BOOST_AUTO_TEST_CASE(a_thousand_workers_of_one_process_call_those_whose_rank_differs_in_one_bit) {
#ifdef __SANITIZE_THREAD__
  constexpr int size = 64;  // each has a thread
#else
  constexpr int size = 1000;
#endif
  const auto network = MemoryNetwork::make();
  std::vector<std::unique_ptr<Agent>> agents;
  const auto to_peers = [&](int rank, auto f) {
    for (int bit = 1; bit < size; bit <<= 1) {
      if (const int peer = rank ^ bit; peer < size) f(peer);
    }
  };
  for (int rank = 0; rank < size; ++rank) {
    AgentOptions options = Pair::options("w", rank);
    options.name += std::to_string(rank);
    options.world_size = size;
    agents.push_back(std::make_unique<Agent>(options, functions()));
    to_peers(rank, [&](int peer) {
      if (peer < rank) network->connect(*agents[static_cast<std::size_t>(peer)], *agents.back());
    });
  }
  counted = 0;
  std::vector<Future<Message>> calls;
  for (int rank = 0; rank < size; ++rank) {
    to_peers(rank,
             [&](int peer) { calls.push_back(call(*agents[static_cast<std::size_t>(rank)], peer, request(kCount))); });
  }
  for (const Future<Message>& one : calls) BOOST_TEST(text(one.wait()) == "counted");
  BOOST_TEST(static_cast<std::size_t>(counted) == calls.size());
  for (const auto& agent : agents) agent->shutdown();
}

BOOST_AUTO_TEST_SUITE_END()
