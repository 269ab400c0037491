// Connections to an agent's TCP port that do not prove the shared key.
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "tendril/rpc/session/proof.h"
#include "tests/contains.h"
#include "tests/rpc/agent_pair.h"
#include "tests/rpc/messages.h"
#include "tests/rpc/raw_client.h"

BOOST_AUTO_TEST_SUITE(unproven)

using namespace rpc_test;
using tendril::rpc::testing::bytes_of;

const Functions& functions() {
  static const Functions table([](Functions& f) {
    f.add(1, "echo", [](InboundCall& inbound) { inbound.reply(reply(text(inbound.request()))); });
  });
  return table;
}

const SharedKey& group_key() {
  static const SharedKey key = SharedKey::random("the group's key");
  return key;
}

AgentOptions options_of(const char* name, int rank, const SharedKey& key = group_key()) {
  AgentOptions options;
  options.name = name;
  options.rank = rank;
  options.world_size = 3;
  options.num_worker_threads = 1;
  options.group = "a group that strangers must not hear of";
  options.key = key;
  return options;
}

Agent::Endpoint listen_tcp(Agent& agent) { return agent.listen({.unix_socket = false}); }

/// That the agent still serves.
void check_alive(Agent& agent, const Agent::Endpoint& endpoint) {
  Agent friendly(options_of("friend", 1), functions());
  friendly.connect(agent.self(), endpoint, Clock::now() + 60s);
  BOOST_TEST(text(call(friendly, 0, request(1, "fine")).wait()) == "fine");
}

std::string error_of_connecting(Agent& agent, const Agent::Endpoint& endpoint) {
  try {
    agent.connect({std::string("server"), 0}, endpoint, Clock::now() + 30s);
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

using tendril::test::contains;

BOOST_AUTO_TEST_CASE(key_holders_call_each_other) {
  Agent agent(options_of("server", 0), functions());
  const Agent::Endpoint endpoint = listen_tcp(agent);
  check_alive(agent, endpoint);
  check_alive(agent, endpoint);
}

BOOST_AUTO_TEST_CASE(scanners_learn_nothing) {
  Agent agent(options_of("server", 0), functions());
  const Agent::Endpoint endpoint = listen_tcp(agent);
  const Bytes challenge = Proof(group_key(), Proof::Role::dialler).challenge();
  Bytes other_purpose = challenge;
  other_purpose[kProofPrefixBytes] = std::byte{2};
  Bytes twice = challenge, absurd = challenge, hello_without_proof = encode(raw_hello("x", 1, 3));
  twice.insert(twice.end(), challenge.begin(), challenge.end());
  absurd[10] = absurd[11] = std::byte{0xff};
  Bytes unproven_hello = challenge;
  unproven_hello.insert(unproven_hello.end(), hello_without_proof.begin(), hello_without_proof.end());
  unproven_hello.resize(unproven_hello.size() + kTagBytes);
  Bytes endless_hello = challenge;
  endless_hello.insert(endless_hello.end(), hello_without_proof.begin(), hello_without_proof.begin() + 8);
  endless_hello.resize(endless_hello.size() + 8, std::byte{0xff});
  for (const Bytes& said :
       {bytes_of("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), bytes_of("\x16\x03\x01\x02\x01 a client hello of TLS"),
        Bytes(100'000, std::byte{0xff}), bytes_of("T"), hello_without_proof, twice, absurd, other_purpose,
        unproven_hello, endless_hello}) {
    RawClient stranger(endpoint);
    stranger.try_say(said);
    stranger.hang_up();
    const Bytes answer = stranger.receive_until_closed();
    const std::string heard(reinterpret_cast<const char*>(answer.data()), answer.size());
    for (const char* secret : {"group", "server", "friend"}) BOOST_TEST(!contains(heard, secret));
    BOOST_TEST(answer.size() <= 2 * kMaxProofBytes);
  }
  BOOST_TEST(agent.peers().empty());
  check_alive(agent, endpoint);
}

BOOST_AUTO_TEST_CASE(wrong_key_is_reported) {
  Agent agent(options_of("server", 0), functions());
  const Agent::Endpoint endpoint = listen_tcp(agent);
  Agent other(options_of("other", 1, SharedKey::random("another key")), functions());
  BOOST_TEST(contains(error_of_connecting(other, endpoint),
                      "connect to worker 'server' (rank 0): the other side does not hold this worker's key (another "
                      "key)"));
  Agent none(options_of("none", 1, SharedKey()), functions());  // this user's, then
  BOOST_TEST(contains(error_of_connecting(none, endpoint), "does not hold this worker's key (this user's key"));
  BOOST_TEST(agent.peers().empty());
  check_alive(agent, endpoint);
}

BOOST_AUTO_TEST_CASE(another_group_with_the_key_is_refused) {
  Agent agent(options_of("server", 0), functions());
  const Agent::Endpoint endpoint = listen_tcp(agent);
  AgentOptions options = options_of("other", 1);
  options.group = "another";
  Agent other(options, functions());
  BOOST_TEST(contains(error_of_connecting(other, endpoint), "belongs to the group 'another', not to"));
  check_alive(agent, endpoint);
}

BOOST_AUTO_TEST_CASE(silent_connections_shut_nobody_out) {
  Agent agent(options_of("server", 0), functions());
  const Agent::Endpoint endpoint = listen_tcp(agent);
  const Bytes challenge = Proof(group_key(), Proof::Role::dialler).challenge();
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  std::vector<std::unique_ptr<RawClient>> crowd;
  for (rlim_t i = 0; i < std::min<rlim_t>(1000, limit.rlim_cur > 400 ? limit.rlim_cur - 300 : 100); ++i) {
    crowd.push_back(std::make_unique<RawClient>(endpoint));
    crowd.back()->try_say(std::span(challenge).first(i % challenge.size()));
  }
  check_alive(agent, endpoint);
}

BOOST_AUTO_TEST_CASE(dialler_retries_a_listener_that_hangs_up) {
  boost::asio::io_context io;
  boost::asio::ip::tcp::acceptor busy(io, {boost::asio::ip::address_v4::loopback(), 0});
  const Agent::Endpoint endpoint{.tcp_host = std::string("127.0.0.1"), .tcp_port = busy.local_endpoint().port()};
  std::jthread listener([&] {
    for (int i = 0; i < 2; ++i) busy.accept().close();  // as one that is full does
    busy.close();
  });
  Agent agent(options_of("dialler", 1), functions());
  // It came back, until nobody was there any more.
  BOOST_CHECK_THROW(agent.connect({std::string("server"), 0}, endpoint, Clock::now() + 60s), PeerLostError);
}

BOOST_AUTO_TEST_CASE(used_up_descriptors_shut_nobody_out) {
  Agent agent(options_of("server", 0), functions());
  rlimit usual{};
  BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &usual) == 0);
  rlimit few = usual;
  few.rlim_cur = 64;
  BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  const Agent::Endpoint endpoint = listen_tcp(agent);
  int ready[2];
  BOOST_REQUIRE(::pipe(ready) == 0);
  const pid_t crowd = ::fork();
  if (crowd == 0) {  // only system calls: other threads may hold locks
    ::setrlimit(RLIMIT_NOFILE, &usual);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(endpoint.tcp_port);
    for (int i = 0; i < 300; ++i)
      (void)::connect(::socket(AF_INET, SOCK_STREAM, 0), reinterpret_cast<const sockaddr*>(&address), sizeof address);
    (void)!::write(ready[1], "x", 1);
    ::alarm(120);
    for (;;) ::pause();
  }
  char byte = 0;
  BOOST_TEST(::read(ready[0], &byte, 1) == 1);
  check_alive(agent, endpoint);
  ::kill(crowd, SIGKILL);
  ::waitpid(crowd, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
  ::setrlimit(RLIMIT_NOFILE, &usual);
}

BOOST_AUTO_TEST_CASE(key_opens_routable_addresses) {
  Agent agent(options_of("server", 0), functions());
  BOOST_CHECK_EXCEPTION(agent.listen({.unix_socket = false, .tcp_host = std::string("0.0.0.0")}), UsageError,
                        [](const UsageError& e) { return contains(e.what(), "set advertised_host"); });
  const Agent::Endpoint endpoint = agent.listen(
      {.unix_socket = false, .tcp_host = std::string("0.0.0.0"), .advertised_host = std::string("localhost")});
  BOOST_TEST(endpoint.tcp_host == "localhost");
  check_alive(agent, endpoint);
  // 203.0.113.0/24 is nobody's: with a key it is dialled, without one it is not.
  const Agent::Endpoint nobody = Agent::Endpoint::parse("tcp:203.0.113.1:9");
  Agent with(options_of("with", 1), functions()), without(options_of("without", 1, SharedKey()), functions());
  BOOST_CHECK_EXCEPTION(with.connect(agent.self(), nobody, Clock::now() + 50ms), RpcError,
                        [](const RpcError& e) { return !contains(e.what(), "loopback"); });
  BOOST_TEST(contains(error_of_connecting(without, nobody), "refused without a shared key. Make one with `head -c 32"));
}

BOOST_AUTO_TEST_SUITE_END()
