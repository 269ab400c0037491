// Connections from unknown peers and wrong workers, and invalid bytes.
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <mutex>
#include <thread>
#include <vector>

#include "tendril/rpc/wire/hello.h"
#include "tendril/tensor/raw.h"
#include "tests/rpc/agent_pair.h"
#include "tests/rpc/messages.h"
#include "tests/rpc/raw_client.h"

BOOST_AUTO_TEST_SUITE(connection)

using namespace rpc_test;
using tendril::rpc::testing::bytes_of;

namespace {

/// Never answers the call. Keeps it reachable, so that the leak detector does not report it.
void keep(InboundCall call) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<InboundCall>;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(call));
}

const Functions& functions() {
  static const Functions table([](Functions& f) {
    f.add(1, "echo", [](InboundCall& inbound) { inbound.reply(reply(text(inbound.request()))); });
    f.add(2, "keep_for_ever", [](InboundCall& inbound) { keep(std::move(inbound)); });
  });
  return table;
}

AgentOptions options_of(const char* name, int rank) {
  return {
      .name = std::string(name), .rank = rank, .world_size = 3, .num_worker_threads = 1, .group = std::string("mine")};
}

Hello hello(const char* name, int rank) { return raw_hello(name, rank, 3, "mine"); }

/// A TCP port of this host with a listener that sends nothing.
class SilentPort {
 public:
  SilentPort() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    BOOST_REQUIRE(::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    BOOST_REQUIRE(::listen(socket_, 1) == 0);
    BOOST_REQUIRE(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  ~SilentPort() {
    ::close(socket_);
    if (accepted_ >= 0) ::close(accepted_);
  }
  SilentPort(const SilentPort&) = delete;
  SilentPort& operator=(const SilentPort&) = delete;

  Agent::Endpoint endpoint() const { return {.tcp_host = std::string("127.0.0.1"), .tcp_port = port_}; }
  void wait_for_one() {
    accepted_ = ::accept(socket_, nullptr, nullptr);
    BOOST_REQUIRE(accepted_ >= 0);
  }

 private:
  const int socket_;
  int accepted_ = -1;
  uint16_t port_ = 0;
};

/// Checks that the agent still serves.
void check_alive(Agent& agent, const Agent::Endpoint& endpoint) {
  Agent friendly(options_of("friend", 1), functions());
  friendly.connect(agent.self(), endpoint, Clock::now() + 30s);
  BOOST_TEST(text(call(friendly, 0, request(1, "fine")).wait()) == "fine");
}

}  // namespace

BOOST_AUTO_TEST_CASE(refusals_state_the_reason) {
  Agent agent(options_of("server", 0), functions());
  const Agent::Endpoint endpoint = agent.listen();
  const auto refused = [&](const Hello& said) {
    RawClient stranger(endpoint);
    stranger.say(encode(said));
    const Bytes answer = stranger.receive_until_closed();
    return decode_hello(answer).refusal;
  };
  BOOST_TEST(refused(hello("x", 3)).find("rank") != std::string::npos);
  BOOST_TEST(refused(hello("x", 0)).find("rank") != std::string::npos);
  Hello other_group = hello("x", 2);
  other_group.group = std::string("other");
  BOOST_TEST(refused(other_group).find("other") != std::string::npos);
  Hello other_size = hello("x", 2);
  other_size.world_size = 4;
  BOOST_TEST(!refused(other_size).empty());
  Hello future_version = hello("x", 2);
  future_version.min_version = future_version.max_version = 99;
  BOOST_TEST(!refused(future_version).empty());

  RawClient noise(endpoint);
  noise.say(Bytes(100, std::byte{'G'}));
  noise.receive_until_closed();
  RawClient half(endpoint);
  half.say(Bytes(3, std::byte{'T'}));
  half.hang_up();
  half.receive_until_closed();
  BOOST_TEST(agent.peers().empty());
  check_alive(agent, endpoint);
}

BOOST_AUTO_TEST_CASE(connected_rank_cannot_connect_twice) {
  Agent agent(options_of("server", 0), functions());
  const Agent::Endpoint endpoint = agent.listen();
  Agent first(options_of("first", 1), functions());
  first.connect(agent.self(), endpoint, Clock::now() + 30s);
  BOOST_CHECK_THROW(first.connect(agent.self(), endpoint, Clock::now() + 30s), UsageError);
  Agent second(options_of("second", 1), functions());
  BOOST_CHECK_EXCEPTION(second.connect(agent.self(), endpoint, Clock::now() + 30s), UsageError,
                        [](const UsageError& e) { return std::string(e.what()).find("already") != std::string::npos; });
  BOOST_TEST(text(call(first, 0, request(1, "still")).wait()) == "still");
}

BOOST_AUTO_TEST_CASE(invalid_bytes_close_only_their_connection) {
  Agent agent(options_of("server", 0), functions());
  const Agent::Endpoint endpoint = agent.listen();
  RawClient stranger(endpoint);
  stranger.say(encode(hello("evil", 2)));
  BOOST_TEST(stranger.receive_hello().refusal == "");
  BOOST_REQUIRE(agent.wait_connected(2, Clock::now() + 30s));
  const Future<Message> pending = call(agent, 2, request(1), {.timeout = 0us});
  stranger.say(Bytes(200, std::byte{0xff}));
  BOOST_CHECK_EXCEPTION(pending.wait(), PeerLostError, [](const PeerLostError& e) {
    return std::string(e.what()).find("'evil' (rank 2)") != std::string::npos;
  });
  stranger.receive_until_closed();
  check_alive(agent, endpoint);
  check_at_rest(agent);
}

BOOST_AUTO_TEST_CASE(missing_target_device_fails_only_its_call) {
  Agent agent(options_of("server", 0), functions());
  const Agent::Endpoint endpoint = agent.listen();
  RawClient stranger(endpoint);
  stranger.say(encode(hello("evil", 2)));
  BOOST_TEST(stranger.receive_hello().refusal == "");
  for (const uint64_t call_id : {1, 2, 3}) {
    Message message = request(1, "said");
    message.call_id = call_id;
    message.tensors = {tendril::raw::zeros({1000})};
    message.placements = {{.from = tendril::kCPU, .to = {tendril::DeviceType::cuda, 127}}};
    if (call_id == 2) message.placements.clear();
    stranger.say(bytes_of(Frame(message)));
    const Message answer = stranger.receive().value();
    BOOST_TEST(answer.call_id == call_id);
    BOOST_TEST((answer.kind == MessageKind::error) == (call_id != 2));
    if (call_id != 2) BOOST_TEST(text(answer).find("is to be on cuda:127") != std::string::npos);
  }
  check_alive(agent, endpoint);
  check_at_rest(agent);
}

BOOST_AUTO_TEST_CASE(vanished_peer_fails_its_calls_at_once) {
  Agent agent(options_of("server", 0), functions());
  const Agent::Endpoint endpoint = agent.listen();
  Future<Message> pending;
  {
    RawClient stranger(endpoint);
    stranger.say(encode(hello("ghost", 2)));
    BOOST_REQUIRE(agent.wait_connected(2, Clock::now() + 30s));
    pending = call(agent, 2, request(1), {.timeout = 0us});
  }
  BOOST_CHECK_THROW(pending.wait(), PeerLostError);
  check_at_rest(agent);
  BOOST_TEST(!agent.is_connected(2));
  BOOST_CHECK_EXCEPTION(call(agent, 2, request(1)).wait(), PeerLostError, [](const PeerLostError& e) {
    return std::string(e.what()).find("on worker 'ghost' (rank 2): it is not connected") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(silent_peer_is_pinged_and_lost) {
  AgentOptions options = options_of("server", 0);
  options.ping_interval = 50ms;
  options.liveness_timeout = 1s;  // longer than a thread may be delayed on a busy machine
  Agent agent(options, functions());
  const Agent::Endpoint endpoint = agent.listen();
  RawClient mute(endpoint);
  mute.say(encode(hello("mute", 2)));
  BOOST_REQUIRE(agent.wait_connected(2, Clock::now() + 30s));
  BOOST_CHECK_EXCEPTION(call(agent, 2, request(1), {.timeout = 0us}).wait(), PeerLostError, [](const PeerLostError& e) {
    return std::string(e.what()).find("no sign of life") != std::string::npos;
  });
  // A peer that answers pings is not lost, however slow it is.
  Agent slow(options_of("slow", 1), functions());
  slow.connect(agent.self(), endpoint, Clock::now() + 30s);
  BOOST_REQUIRE(agent.wait_connected(1, Clock::now() + 30s));
  BOOST_CHECK_THROW(call(agent, 1, request(2), {.timeout = 2s}).wait(), TimeoutError);
  BOOST_TEST(agent.is_connected(1));
}

BOOST_AUTO_TEST_CASE(routable_addresses_require_a_key) {
  Agent agent(options_of("server", 0), functions());
  BOOST_CHECK_EXCEPTION(agent.listen({.tcp_host = std::string("0.0.0.0")}), UsageError, [](const UsageError& e) {
    return std::string(e.what()).find("head -c 32 /dev/urandom > key; chmod 600 key") != std::string::npos;
  });
  BOOST_CHECK_THROW(agent.listen({.tcp_host = std::string("no host")}), UsageError);
  const Agent::Endpoint endpoint = agent.listen();
  BOOST_CHECK_THROW(agent.listen(), UsageError);
  struct stat info {};
  const std::string folder = endpoint.unix_path.substr(0, endpoint.unix_path.rfind('/'));
  BOOST_REQUIRE(::stat(folder.c_str(), &info) == 0);
  BOOST_TEST((info.st_mode & 0777) == 0700u);

  Agent other(options_of("other", 1), functions());
  BOOST_CHECK_EXCEPTION(other.listen({.unix_socket = false, .tcp_port = endpoint.tcp_port}), UsageError,
                        [&](const UsageError& e) {
                          return std::string(e.what()).find(std::to_string(endpoint.tcp_port)) != std::string::npos;
                        });
  BOOST_CHECK_THROW(other.connect(agent.self(), Agent::Endpoint::parse("tcp:8.8.8.8:80"), Clock::now() + 1s),
                    UsageError);
  BOOST_CHECK_THROW(other.connect({std::string("server"), 2}, endpoint, Clock::now() + 30s), UsageError);
  BOOST_CHECK_THROW(other.connect({std::string("other name"), 0}, endpoint, Clock::now() + 30s), UsageError);
  agent.shutdown();
  BOOST_CHECK_THROW(other.connect({std::string("server"), 0}, endpoint, Clock::now() + 30s), RpcError);
}

BOOST_AUTO_TEST_CASE(connect_times_out_at_its_deadline) {
  const SilentPort silent;
  Agent agent(options_of("a", 0), functions());
  BOOST_CHECK_THROW(agent.connect({std::string("b"), 1}, silent.endpoint(), Clock::now() + 20ms), TimeoutError);
  BOOST_TEST(!agent.wait_connected(1, Clock::now() + 5ms));
}

BOOST_AUTO_TEST_CASE(shutdown_closes_connections_without_hello) {
  Agent agent(options_of("server", 0), functions());
  const Agent::Endpoint endpoint = agent.listen();
  RawClient silent(endpoint);
  check_alive(agent, endpoint);  // by now `silent` has been accepted, too
  agent.shutdown();
  BOOST_TEST(silent.closed_within(60s));
}

BOOST_AUTO_TEST_CASE(shutdown_ends_connect_without_deadline) {
  SilentPort silent;
  Agent agent(options_of("a", 0), functions());
  std::atomic<bool> refused{false};
  std::jthread connecting([&] {
    try {
      agent.connect({std::string("b"), 1}, silent.endpoint(), Clock::time_point::max());
    } catch (const UsageError&) {
      refused = true;
    }
  });
  silent.wait_for_one();
  agent.shutdown();
  connecting.join();
  BOOST_TEST(refused);
}

BOOST_AUTO_TEST_CASE(worker_retries_while_the_listener_is_crowded) {
  Agent agent(options_of("server", 0), functions());
  const Agent::Endpoint endpoint = agent.listen();
  std::vector<std::unique_ptr<RawClient>> crowd;  // more than the allowed number of open handshakes
  for (int i = 0; i < 300; ++i) crowd.push_back(std::make_unique<RawClient>(endpoint));
  // The last client is closed. An honest worker then has no room either, until another connection is closed.
  crowd.back()->receive_until_closed();
  check_alive(agent, endpoint);
}

BOOST_AUTO_TEST_CASE(stop_listening_keeps_connected_peers) {
  Agent agent(options_of("server", 0), functions());
  const Agent::Endpoint endpoint = agent.listen();
  Agent first(options_of("first", 1), functions()), late(options_of("late", 2), functions());
  first.connect(agent.self(), endpoint, Clock::now() + 30s);
  agent.stop_listening();
  agent.stop_listening();
  struct stat info {};
  BOOST_TEST(::stat(endpoint.unix_path.c_str(), &info) != 0);
  BOOST_TEST(text(call(first, 0, request(1, "still")).wait()) == "still");
  BOOST_CHECK_THROW(late.connect(agent.self(), endpoint, Clock::now() + 30s), PeerLostError);
}

BOOST_AUTO_TEST_CASE(endpoints_are_parsed_and_printed) {
  const Agent::Endpoint both = Agent::Endpoint::parse("unix:/tmp/x/socket,tcp:127.0.0.1:4000");
  BOOST_TEST(both.unix_path == "/tmp/x/socket");
  BOOST_TEST(both.tcp_host == "127.0.0.1");
  BOOST_TEST(both.tcp_port == 4000);
  BOOST_TEST(both.to_string() == "unix:/tmp/x/socket,tcp:127.0.0.1:4000");
  BOOST_TEST(Agent::Endpoint::parse("tcp:::1:80").tcp_host == "::1");
  for (const char* bad : {"", "tcp:127.0.0.1", "tcp:127.0.0.1:0", "tcp:127.0.0.1:70000", "tcp:127.0.0.1:8x", "unix:x",
                          "udp:1:2", "tcp:"}) {
    BOOST_CHECK_THROW(Agent::Endpoint::parse(bad), UsageError);
  }
}

BOOST_AUTO_TEST_SUITE_END()
