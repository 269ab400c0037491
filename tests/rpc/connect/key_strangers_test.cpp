// Tests connections to an agent's TCP port, with and without the shared key.
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
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

#include "tendril/tensor/raw.h"
#include "tests/contains.h"
#include "tests/rpc/agent_pair.h"
#include "tests/rpc/messages.h"
#include "tests/rpc/raw_client.h"
#include "tests/rpc/raw_tls.h"

BOOST_AUTO_TEST_SUITE(key_strangers)

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

/// Checks that the agent still serves calls.
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
  for (const Bytes& said :
       {bytes_of("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), bytes_of("\x16\x03\x01\x02\x01 a client hello of TLS"),
        Bytes(100'000, std::byte{0xff}), bytes_of("T"), encode(raw_hello("x", 1, 3))}) {
    RawClient stranger(endpoint);
    stranger.try_say(said);
    stranger.hang_up();
    const Bytes answer = stranger.receive_until_closed();
    const std::string heard(reinterpret_cast<const char*>(answer.data()), answer.size());
    for (const char* secret : {"group", "server", "friend"}) BOOST_TEST(!contains(heard, secret));
    BOOST_TEST(answer.size() <= 16U);  // at most an alert
  }
  {
    const RawClient browser(endpoint);
    BOOST_TEST(!RawTls(browser.socket(), true, nullptr).connected());
  }
  BOOST_TEST(agent.peers().empty());
  check_alive(agent, endpoint);
}

BOOST_AUTO_TEST_CASE(key_holder_learns_that_the_group_differs) {
  Agent agent(options_of("server", 0), functions());
  const Agent::Endpoint endpoint = listen_tcp(agent);
  tendril::rpc::detail::TlsContext context(group_key());
  const RawClient member(endpoint);
  RawTls tls(member.socket(), true, context);
  BOOST_REQUIRE(tls.connected());
  const Bytes said = encode(raw_hello("x", 1, 3, "another group"));
  BOOST_TEST(SSL_write(tls.ssl(), said.data(), static_cast<int>(said.size())) == static_cast<int>(said.size()));
  Bytes answer(kMaxHelloBytes);
  const int n = SSL_read(tls.ssl(), answer.data(), static_cast<int>(answer.size()));
  BOOST_REQUIRE(n > 0);
  answer.resize(static_cast<std::size_t>(n));
  BOOST_TEST(contains(decode_hello(answer).refusal, "belongs to the group 'another group', not to"));
  check_alive(agent, endpoint);
}

// Follows docs/wire.md as another implementation would, without using the library's code.
int offer_documented_key(SSL* ssl, const EVP_MD*, const unsigned char** identity, std::size_t* bytes,
                         SSL_SESSION** session) {
  constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};
  unsigned char key[32];
  unsigned int size = 0;
  HMAC(EVP_sha256(), group_key().bytes().data(), static_cast<int>(group_key().bytes().size()),
       reinterpret_cast<const unsigned char*>("tendril tls psk 1"), 17, key, &size);
  *session = SSL_SESSION_new();
  SSL_SESSION_set1_master_key(*session, key, size);
  SSL_SESSION_set_cipher(*session, SSL_CIPHER_find(ssl, kAes128GcmSha256));
  SSL_SESSION_set_protocol_version(*session, TLS1_3_VERSION);
  *identity = reinterpret_cast<const unsigned char*>("tendril 1");
  *bytes = 9;
  return 1;
}

BOOST_AUTO_TEST_CASE(documented_key_is_accepted) {
  Agent agent(options_of("server", 0), functions());
  const Agent::Endpoint endpoint = listen_tcp(agent);
  const RawClient peer(endpoint);
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
  SSL_CTX_set_psk_use_session_callback(context.get(), &offer_documented_key);
  const std::unique_ptr<SSL, void (*)(SSL*)> ssl(SSL_new(context.get()), &SSL_free);
  SSL_set_fd(ssl.get(), peer.socket());
  BOOST_TEST(SSL_connect(ssl.get()) == 1);
  BOOST_TEST(SSL_session_reused(ssl.get()) == 1);
}

BOOST_AUTO_TEST_CASE(encryption_ends_only_if_both_sides_agree) {
  AgentOptions plain = options_of("server", 0);
  plain.encrypt = false;
  Agent agent(plain, functions());
  const Agent::Endpoint endpoint = listen_tcp(agent);
  for (const bool encrypt : {true, false}) {
    AgentOptions options = options_of(encrypt ? "careful" : "trusting", encrypt ? 1 : 2);
    options.encrypt = encrypt;
    Agent other(options, functions());
    other.connect(agent.self(), endpoint, Clock::now() + 60s);
    BOOST_TEST(other.connections().at(0).transport == (encrypt ? "tls" : "tcp"));
    std::vector<Future<Message>> answers;
    for (const std::size_t size : {1U, 100'000U, 10'000'000U})
      for (int i = 0; i < 20; ++i) answers.push_back(call(other, 0, request(1, std::string(size, 'a'))));
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const std::size_t expected = i < 20 ? 1 : i < 40 ? 100'000 : 10'000'000;
      BOOST_TEST(text(answers[i].wait()).size() == expected);
    }
  }
  // The key is needed even without encryption.
  AgentOptions stranger = options_of("stranger", 1, SharedKey::random("another key"));
  stranger.encrypt = false;
  Agent other(stranger, functions());
  BOOST_TEST(contains(error_of_connecting(other, endpoint), "does not hold this worker's key (another key)"));
}

BOOST_AUTO_TEST_CASE(wrong_key_is_reported) {
  Agent agent(options_of("server", 0), functions());
  const Agent::Endpoint endpoint = listen_tcp(agent);
  Agent other(options_of("other", 1, SharedKey::random("another key")), functions());
  BOOST_TEST(contains(error_of_connecting(other, endpoint),
                      "connect to worker 'server' (rank 0): the other side does not hold this worker's key (another "
                      "key)"));
  Agent none(options_of("none", 1, SharedKey()), functions());  // uses this user's key
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

BOOST_AUTO_TEST_CASE(silent_connections_do_not_block_workers) {
  Agent agent(options_of("server", 0), functions());
  const Agent::Endpoint endpoint = listen_tcp(agent);
  const std::string begun("\x16\x03\x01\x02\x01\x01", 6);
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  std::vector<std::unique_ptr<RawClient>> crowd;
  for (rlim_t i = 0; i < std::min<rlim_t>(1000, limit.rlim_cur > 400 ? limit.rlim_cur - 300 : 100); ++i) {
    crowd.push_back(std::make_unique<RawClient>(endpoint));
    crowd.back()->try_say(std::as_bytes(std::span(begun)).first(i % 7));
  }
  check_alive(agent, endpoint);
}

BOOST_AUTO_TEST_CASE(dialler_retries_a_listener_that_hangs_up) {
  boost::asio::io_context io;
  boost::asio::ip::tcp::acceptor busy(io, {boost::asio::ip::address_v4::loopback(), 0});
  const Agent::Endpoint endpoint{.tcp_host = std::string("127.0.0.1"), .tcp_port = busy.local_endpoint().port()};
  std::jthread listener([&] {
    for (int i = 0; i < 2; ++i) busy.accept().close();  // like a listener without room
    busy.close();
  });
  Agent agent(options_of("dialler", 1), functions());
  // It retried until no process listened any more.
  BOOST_CHECK_THROW(agent.connect({std::string("server"), 0}, endpoint, Clock::now() + 60s), PeerLostError);
}

BOOST_AUTO_TEST_CASE(exhausted_descriptors_do_not_block_workers) {
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

BOOST_AUTO_TEST_CASE(key_allows_routable_addresses) {
  Agent agent(options_of("server", 0), functions());
  BOOST_CHECK_EXCEPTION(agent.listen({.unix_socket = false, .tcp_host = std::string("0.0.0.0")}), UsageError,
                        [](const UsageError& e) { return contains(e.what(), "set advertised_host"); });
  const Agent::Endpoint endpoint = agent.listen(
      {.unix_socket = false, .tcp_host = std::string("0.0.0.0"), .advertised_host = std::string("localhost")});
  BOOST_TEST(endpoint.tcp_host == "localhost");
  check_alive(agent, endpoint);
  // 203.0.113.0/24 is reserved for documentation. The agent dials it with a key, and refuses to without one.
  const Agent::Endpoint nobody = Agent::Endpoint::parse("tcp:203.0.113.1:9");
  Agent with(options_of("with", 1), functions()), without(options_of("without", 1, SharedKey()), functions());
  BOOST_CHECK_EXCEPTION(with.connect(agent.self(), nobody, Clock::now() + 50ms), RpcError,
                        [](const RpcError& e) { return !contains(e.what(), "loopback"); });
  BOOST_TEST(contains(error_of_connecting(without, nobody), "refused without a shared key. Make one with `head -c 32"));
}

BOOST_AUTO_TEST_SUITE_END()
