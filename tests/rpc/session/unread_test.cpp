// Peers that do not read, send without end, or stop within a message: they use bounded memory and delay no other peer.
#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <future>
#include <string>
#include <thread>

#include "tendril/rpc/task.h"
#include "tendril/rpc/transport/flow_control.h"
#include "tests/rpc/agent_pair.h"
#include "tests/rpc/cluster.h"
#include "tests/rpc/raw_client.h"
#include "tests/rpc/waits_for_room.h"

BOOST_AUTO_TEST_SUITE(unread)

using namespace rpc_test;

constexpr std::size_t kMiB = std::size_t{1} << 20;
/// Keeps the handler of "busy" from returning. To the pool, the wait looks like a long computation.
struct Work {
  std::promise<void> end;
  std::shared_future<void> done{end.get_future()};
};
std::unique_ptr<Work> work;

const Functions& functions() {
  static const Functions table([](Functions& f) {
    f.add(1, "echo", [](InboundCall& inbound) { inbound.reply(reply(text(inbound.request()))); });
    f.add(3, "busy", [](InboundCall& inbound) {
      work->done.wait_for(60s);
      inbound.reply(reply("done"));
    });
    f.add(4, "large", [](InboundCall& inbound) { inbound.reply(reply(std::string(kMiB, 'y'))); });
  });
  return table;
}

/// An object whose constructor returns when `work` ends.
struct Slow {
  explicit Slow(int) { work->done.wait_for(60s); }
  int64_t size(const std::vector<char>& bytes) const { return static_cast<int64_t>(bytes.size()); }
};

std::unique_ptr<Promise<>> later;
Task<int64_t> suspended(std::vector<char> bytes) {
  co_await later->future();
  co_return static_cast<int64_t>(bytes.size());
}
void resume() { later->set_value(); }

AgentOptions options_of(const char* name, int rank, int threads = 1) {
  return {.name = std::string(name), .rank = rank, .world_size = 3, .num_worker_threads = threads};
}

Message with_id(Message message, uint64_t call_id) {
  message.call_id = call_id;
  return message;
}

int same(int x) { return x; }

/// The peak resident set size of this process.
uint64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) << 10;
  }
  throw std::runtime_error("/proc/self/status: no VmHWM");
}

bool eventually(const std::function<bool()>& condition) {
  return Cluster::eventually(condition, std::chrono::seconds(60));
}

BOOST_AUTO_TEST_CASE(calls_to_an_unreading_peer_time_out) {
  AgentOptions options = options_of("caller", 0);
  options.send_limit = kMiB;
  options.ping_interval = options.liveness_timeout = 0ms;
  Agent agent(options, functions());
  const Agent::Endpoint endpoint = agent.listen();
  RawClient stopped(endpoint, raw_hello("stopped", 2, 3));
  BOOST_REQUIRE(agent.wait_connected(2, Clock::now() + 30s));
  // More than the sockets and the queue can hold.
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < 16; ++i) {
    BOOST_CHECK_THROW(call(agent, 2, request(1, std::string(kMiB, 'x')), {.timeout = 50ms}).wait(), TimeoutError);
  }
  BOOST_TEST(agent.send_control(2, Bytes(24)));  // does not wait for room
  std::stop_source stop;
  std::atomic<bool> waited{false};
  std::jthread canceller([&] {
    waited = eventually([&] { return waits_for_room(agent, 2); });
    stop.request_stop();
  });
  const std::string large(kMiB, 'x');
  BOOST_CHECK_THROW(call(agent, 2, request(1, large), {.timeout = 0us, .stop = stop.get_token()}).wait(),
                    CancelledError);
  canceller.join();
  BOOST_TEST(waited);
  BOOST_TEST((Clock::now() - start < 60s));
  BOOST_TEST(agent.metrics().queued_bytes < 4 * kMiB);
  // A call without a deadline waits for room until the connection ends.
  std::jthread end([&] {
    waited = waited && eventually([&] { return waits_for_room(agent, 2); });
    ::shutdown(stopped.socket(), SHUT_RDWR);
  });
  BOOST_CHECK_THROW(call(agent, 2, request(1, large), {.timeout = 0us}).wait(), PeerLostError);
  end.join();
  BOOST_TEST(waited);
  check_at_rest(agent);
}

/// A call that waits for room blocks its thread. If the thread continues, the call has been sent.
BOOST_AUTO_TEST_CASE(small_requests_pass_large_ones) {
  AgentOptions options = options_of("caller", 0);
  options.send_limit = kMiB;
  options.ping_interval = options.liveness_timeout = 0ms;
  Agent agent(options, functions());
  const Agent::Endpoint endpoint = agent.listen();
  Hello hello = raw_hello("stopped", 2, 3);
  hello.request_window = 16 * kMiB;
  RawClient stopped(endpoint, hello);
  BOOST_REQUIRE(agent.wait_connected(2, Clock::now() + 30s));
  // More than the queue and the peer's window have room for, and none of it is read.
  const Future<Message> large = call(agent, 2, request(1, std::string(20 * kMiB, 'x')), {.timeout = 0us});
  std::vector<Future<Message>> small;
  for (int i = 0; i < 100; ++i) {
    small.push_back(call(agent, 2, request(1, "y"), {.timeout = 20s}));
    BOOST_REQUIRE(!small.back().done());  // otherwise it has waited for room until its deadline
  }
  for (uint64_t id = 2; id <= 101; ++id) BOOST_TEST(stopped.receive().value().call_id == id);
  const Message last = stopped.receive().value();
  BOOST_TEST(last.call_id == 1u);
  BOOST_TEST(last.payload.size() == 20 * kMiB);
  stopped.hang_up();
  BOOST_CHECK_THROW(large.wait(), PeerLostError);
}

BOOST_AUTO_TEST_CASE(large_and_small_requests_share_the_window) {
  AgentOptions options = options_of("", 0, 4);
  options.receive_limit = 16 * kMiB;
  options.send_limit = kMiB;
  AgentPair pair(functions(), options);
  const auto calls = [](Agent& agent, WorkerId peer, std::size_t seed) {
    std::vector<std::pair<std::size_t, Future<Message>>> pending;
    for (std::size_t i = 0; i < 60; ++i) {
      const std::size_t size = (i + seed) % 10 == 0 ? (1 + (i + 3 * seed) % 20) * kMiB : (i * 7919) % 100'000;
      pending.emplace_back(size, call(agent, peer, request(1, std::string(size, 'x')), {.timeout = 0us}));
    }
    for (const auto& [size, answer] : pending)
      if (text(answer.wait()).size() != size) throw std::logic_error("another answer");
  };
  std::vector<std::future<void>> callers;
  for (std::size_t thread = 0; thread < 3; ++thread) {
    callers.push_back(std::async(std::launch::async, [&, thread] { calls(*pair.a, 1, thread); }));
    callers.push_back(std::async(std::launch::async, [&, thread] { calls(*pair.b, 0, thread + 3); }));
  }
  for (std::future<void>& caller : callers) BOOST_CHECK_NO_THROW(caller.get());
  check_at_rest(*pair.a);
  check_at_rest(*pair.b);
}

BOOST_AUTO_TEST_CASE(replies_are_read_while_requests_wait) {
  work = std::make_unique<Work>();
  AgentOptions options = one_thread();
  options.receive_limit = kMiB;
  AgentPair pair(functions(), options);
  std::vector<Future<Message>> waiting;
  waiting.push_back(call(*pair.a, 1, request(3), {.timeout = 0us}));
  std::jthread caller([&] {
    for (int i = 0; i < 32; ++i) {
      waiting.push_back(call(*pair.a, 1, request(1, std::string(kMiB / 8, 'x')), {.timeout = 0us}));
    }
  });
  BOOST_TEST(eventually([&] { return pair.b->metrics().unanswered_calls >= 3; }));
  // In the other direction, over the same connection.
  for (int i = 0; i < 10; ++i)
    BOOST_TEST(text(call(*pair.b, 0, request(1, "hello"), {.timeout = 60s}).wait()) == "hello");
  BOOST_TEST(pair.b->metrics().unanswered_calls <= 4);
  work->end.set_value();
  caller.join();
  for (const auto& one : waiting) BOOST_TEST(!text(one.wait()).empty());
  check_at_rest(*pair.a);
  check_at_rest(*pair.b);
}

BOOST_AUTO_TEST_CASE(calls_without_arguments_use_the_window) {
  work = std::make_unique<Work>();
  AgentOptions options = one_thread();
  options.receive_limit = kMinRequestWindow;
  AgentPair pair(functions(), options);
  constexpr std::size_t kCalls = 1000;
  std::vector<Future<Message>> waiting;
  std::atomic<bool> all_made{false};
  std::jthread caller([&] {
    for (std::size_t i = 0; i < kCalls; ++i) waiting.push_back(call(*pair.a, 1, request(3), {.timeout = 0us}));
    all_made = true;
  });
  BOOST_TEST(eventually([&] { return all_made || waits_for_room(*pair.a, 1); }));
  BOOST_TEST(!all_made);
  // "a" sends this answer after all requests that had room, so "b" has received them when the answer arrives.
  BOOST_TEST(text(call(*pair.b, 0, request(1, "after them"), {.timeout = 60s}).wait()) == "after them");
  const uint64_t half_a_window = kMinRequestWindow / 2 / request_cost(kFrameHeaderBytes);
  BOOST_TEST(pair.b->metrics().unanswered_calls >= half_a_window);
  BOOST_TEST(pair.b->metrics().unanswered_calls <= half_a_window + 2);
  work->end.set_value();
  caller.join();
  for (const auto& one : waiting) BOOST_TEST(text(one.wait()) == "done");
  check_at_rest(*pair.a);
  check_at_rest(*pair.b);
}

BOOST_AUTO_TEST_CASE(calls_of_unfinished_objects_wait_at_caller) {
  work = std::make_unique<Work>();
  AgentOptions options;
  options.receive_limit = kMiB;
  Cluster cluster(2, options);
  {
    const RRef<Slow> slow = remote<Slow>(cluster[0], 1, 1);
    std::vector<Future<int64_t>> waiting;
    std::atomic<bool> all_made{false};
    std::jthread caller([&] {
      const std::vector<char> bytes(kMiB / 16);
      for (int i = 0; i < 64; ++i) waiting.push_back(slow.rpc_async<&Slow::size>(bytes));
      all_made = true;
    });
    BOOST_TEST(eventually([&] { return all_made || waits_for_room(cluster[0], 1); }));
    BOOST_TEST(!all_made);
    // "w0" sends this answer after all requests that had room, so "w1" has received them when the answer arrives.
    BOOST_TEST(rpc_sync<&same>(cluster[1], 0, 7) == 7);
    // Half of the window, and the creation.
    BOOST_TEST(cluster[1].metrics().unanswered_calls >= 6);
    BOOST_TEST(cluster[1].metrics().unanswered_calls <= 12);
    work->end.set_value();
    caller.join();
    for (const Future<int64_t>& one : waiting) BOOST_TEST(one.wait() == static_cast<int64_t>(kMiB / 16));
  }
}

BOOST_AUTO_TEST_CASE(suspended_coroutines_use_no_window) {
  later = std::make_unique<Promise<>>(nullptr);
  AgentOptions options;
  options.receive_limit = kMinRequestWindow;
  Cluster cluster(2, options);
  constexpr std::size_t kCalls = 300;
  std::vector<Future<int64_t>> waiting;
  for (std::size_t i = 0; i < kCalls; ++i)  // many times the window
    waiting.push_back(rpc_async<&suspended>(cluster[0], 1, std::vector<char>(1024)));
  BOOST_TEST(eventually([&] { return cluster[1].metrics().unanswered_calls == kCalls; }));
  rpc_sync<&resume>(cluster[0], 1);
  for (const Future<int64_t>& one : waiting) BOOST_TEST(one.wait() == 1024);
}

BOOST_AUTO_TEST_CASE(requests_without_credit_end_the_connection) {
  work = std::make_unique<Work>();
  AgentOptions options = options_of("server", 0);
  options.receive_limit = kMinRequestWindow;
  Agent agent(options, functions());
  const Agent::Endpoint endpoint = agent.listen();
  RawClient client(endpoint, raw_hello("greedy", 2, 3));
  BOOST_TEST(client.answer().request_window == kMinRequestWindow);
  // Two more than the window allows.
  const uint64_t most = kMinRequestWindow / request_cost(kFrameHeaderBytes) + 2;
  bool open = true;
  for (uint64_t id = 1; id <= most + 2 && open; ++id) open = client.try_say(with_id(request(3), id));
  BOOST_TEST(client.closed_within(60s));
  BOOST_TEST(eventually([&] { return !agent.is_connected(2); }));
  work->end.set_value();
  RawClient liar(endpoint, raw_hello("liar", 1, 3));
  Message credit;
  credit.kind = MessageKind::credit;
  credit.payload = Bytes(8, std::byte{1});
  liar.say(std::move(credit));  // for requests that the agent never sent
  BOOST_TEST(liar.closed_within(60s));
  check_at_rest(agent);
}

BOOST_AUTO_TEST_CASE(unread_replies_stop_only_their_peer) {
  AgentOptions options = options_of("server", 0, 4);
  options.send_limit = 4 * kMiB;
  Agent agent(options, functions());
  const Agent::Endpoint endpoint = agent.listen();
  RawClient silent(endpoint, raw_hello("silent", 2, 3));
  constexpr uint64_t kCalls = 200;
  for (uint64_t id = 1; id <= kCalls; ++id) silent.say(with_id(request(4), id));
  // Waits until every request has been answered or is held back; then no handler runs or starts. Requests are held back
  // above the limit, and served again when the queue has shrunk to half of it.
  BOOST_TEST(eventually([&] {
    if (agent.metrics().requests_received < kCalls) return false;
    return std::ranges::all_of(agent.calls_received(), [](const CallReceived& received) {
      return received.state == CallReceived::State::held_back;
    });
  }));
  const Metrics now = agent.metrics();
  BOOST_TEST(now.queued_bytes > 2 * kMiB);
  BOOST_TEST(now.queued_bytes <= 12 * kMiB);  // the limit, plus one reply for each started handler
  BOOST_TEST(now.threads <= 12u);
  BOOST_TEST(now.unanswered_calls >= kCalls / 2);
  {
    Agent other(options_of("other", 1), functions());
    other.connect(agent.self(), endpoint, Clock::now() + 30s);
    BOOST_TEST(text(call(other, 0, request(1, "served"), {.timeout = 60s}).wait()) == "served");
  }
  for (uint64_t i = 0; i < kCalls; ++i) {
    const std::optional<Message> answer = silent.receive(MessageKind::reply);
    BOOST_REQUIRE(answer.has_value());
    BOOST_TEST(answer->payload.size() == kMiB);
  }
  check_at_rest(agent);
}

BOOST_AUTO_TEST_CASE(unread_replies_are_freed_with_their_peer) {
  AgentOptions options = options_of("server", 0, 4);
  options.send_limit = 4 * kMiB;
  options.ping_interval = 20ms;
  options.liveness_timeout = 100ms;
  Agent agent(options, functions());
  const Agent::Endpoint endpoint = agent.listen();
  RawClient dead(endpoint, raw_hello("dead", 2, 3));
  for (uint64_t id = 1; id <= 100; ++id) {
    if (!dead.try_say(with_id(request(4), id))) break;
  }
  BOOST_TEST(eventually([&] { return !agent.is_connected(2); }));
  check_at_rest(agent);
}

BOOST_AUTO_TEST_CASE(unfinished_message_costs_little) {
  AgentOptions options = options_of("server", 0);
  options.world_size = 20;
  options.liveness_timeout = 500ms;
  Agent agent(options, functions());
  const Agent::Endpoint endpoint = agent.listen();
  // Headers that announce large messages, which are never sent.
  Message large = request(1);
  large.payload.resize(256 * kMiB);
  large.call_id = 1;
  const Bytes header = [&] {
    const Frame frame(std::move(large));
    ConstBuffer first;
    BOOST_REQUIRE(frame.gather(0, std::span(&first, 1)) == 1);
    const auto* bytes = static_cast<const std::byte*>(first.data);
    return Bytes(bytes, bytes + kFrameHeaderBytes);
  }();
  const uint64_t before = peak_resident_bytes();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int rank = 1; rank < 17; ++rank) {
    clients.push_back(std::make_unique<RawClient>(endpoint, raw_hello("half" + std::to_string(rank), rank, 20)));
    clients.back()->say(header);
  }
  BOOST_TEST(eventually([&] { return agent.metrics().bytes_received >= 16 * kFrameHeaderBytes; }));
  for (const auto& client : clients) BOOST_TEST(client->closed_within(60s));
  BOOST_TEST(eventually([&] { return agent.peers().empty(); }));
  BOOST_TEST(peak_resident_bytes() < before + 256 * kMiB);  // 4 GiB were announced
}

BOOST_AUTO_TEST_CASE(slow_message_may_exceed_liveness_timeout) {
  AgentOptions options = options_of("server", 0);
  options.liveness_timeout = 1s;
  Agent agent(options, functions());
  const Agent::Endpoint endpoint = agent.listen();
  RawClient client(endpoint, raw_hello("slow", 2, 3));
  const Bytes frame = tendril::rpc::testing::bytes_of(Frame(with_id(request(1, std::string(3 * kMiB, 'z')), 1)));
  const std::span<const std::byte> all(frame);
  // Sends one byte at a time, each when the previous one has been received. An agent closes a silent connection one to
  // two timeouts after the last byte, so the loop takes longer than two.
  std::size_t sent = 0;
  for (const Clock::time_point end = Clock::now() + 2 * options.liveness_timeout + 200ms; Clock::now() < end;) {
    client.say(all.subspan(sent++, 1));
    BOOST_REQUIRE(eventually([&] { return agent.metrics().bytes_received >= sent; }));
  }
  client.say(all.subspan(sent));
  BOOST_TEST(text(client.receive(MessageKind::reply).value()) == std::string(3 * kMiB, 'z'));
}

BOOST_AUTO_TEST_SUITE_END()
